//! Steering of packets to workers, by the destination connection ID.
//!
//! The [worker octet](crate::quic::worker_octet) of the server's IDs names the worker. In other IDs the
//! first octet does: in a client's first packets it is random, which spreads connections evenly, and in
//! IDs of an earlier release, from whose process this one may take over, it is the worker. The kernel runs
//! the same rule as a BPF program, so that a packet reaches its worker even after the client's address has
//! changed.

use std::io;
use std::os::fd::AsFd;

use nix::libc::sock_filter;
use nix::libc::sock_fprog;
use nix::libc::BPF_A;
use nix::libc::BPF_ABS;
use nix::libc::BPF_ADD;
use nix::libc::BPF_ALU;
use nix::libc::BPF_AND;
use nix::libc::BPF_B;
use nix::libc::BPF_JEQ;
use nix::libc::BPF_JMP;
use nix::libc::BPF_JSET;
use nix::libc::BPF_K;
use nix::libc::BPF_LD;
use nix::libc::BPF_MISC;
use nix::libc::BPF_MOD;
use nix::libc::BPF_MUL;
use nix::libc::BPF_RET;
use nix::libc::BPF_RSH;
use nix::libc::BPF_TAX;
use nix::libc::BPF_W;
use nix::libc::BPF_X;
use nix::libc::BPF_XOR;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;

use crate::config::WORKERS_MAX;
use crate::quic::connection_id;
use crate::quic::header::LONG_HEADER;
use crate::quic::quic_lb;
use crate::quic::worker_octet;
use crate::quic::worker_octet::WorkerMaskKey;

/// Offsets of the destination connection ID: it follows the first byte, and in a long header also
/// the version and the ID's length (RFC 8999, 5).
const SHORT_HEADER_ID_OFFSET: usize = 1;
const LONG_HEADER_ID_OFFSET: usize = 6;

/// Length of a word of the mask's input, in bytes.
const WORD_BYTES: usize = 4;

/// Steering rule for a number of workers.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    workers: u16,
    mask_key: WorkerMaskKey,
}

impl Steering {
    /// Returns the rule for `workers`, from 1 to [`WORKERS_MAX`].
    pub fn new(workers: u16, mask_key: WorkerMaskKey) -> Self {
        Self { workers: workers.clamp(1, WORKERS_MAX), mask_key }
    }

    /// Returns the worker of a datagram; 0 if it is too short to have a connection ID.
    pub fn worker_of(self, datagram: &[u8]) -> usize {
        usize::from(u16::from(self.octet_of(datagram).unwrap_or_default()) % self.workers)
    }

    fn octet_of(self, datagram: &[u8]) -> Option<u8> {
        let is_long = datagram.first()? & LONG_HEADER != 0;
        let at = if is_long { LONG_HEADER_ID_OFFSET } else { SHORT_HEADER_ID_OFFSET };
        let id = datagram.get(at..)?;
        let has_length = !is_long || usize::from(datagram[at - 1]) == connection_id::LEN;
        match has_length && connection_id::is_described(id) {
            true => Some(connection_id::worker(self.mask_key, id.first_chunk()?)),
            false => id.first().copied(),
        }
    }

    /// Attaches the rule to the group of sockets that share the address of `socket`: the kernel
    /// selects among them in the order in which they were bound. Does nothing for one worker.
    ///
    /// # Errors
    ///
    /// The process lacks permission, or the kernel does not support it.
    pub fn attach(self, socket: &impl AsFd) -> io::Result<()> {
        if self.workers == 1 {
            return Ok(());
        }
        let mut program = self.program();
        let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        Ok(setsockopt(socket, AttachReusePortCbpf, &program)?)
    }

    /// Returns the rule in classic BPF. A load beyond the end of a datagram returns 0.
    fn program(self) -> Vec<sock_filter> {
        let short = self.of_id_at(SHORT_HEADER_ID_OFFSET);
        let of_length = self.of_id_at(LONG_HEADER_ID_OFFSET);
        let of_other_length = self.of_octet_at(LONG_HEADER_ID_OFFSET);
        let long = [
            vec![load(BPF_B, LONG_HEADER_ID_OFFSET - 1)],
            branch(BPF_JEQ, connection_id::LEN, of_length, of_other_length),
        ];
        let is_long = branch(BPF_JSET, LONG_HEADER.into(), long.concat(), short);
        [vec![load(BPF_B, 0)], is_long].concat()
    }

    /// Returns the worker of a connection ID.
    fn of_id_at(self, at: usize) -> Vec<sock_filter> {
        let described = quic_lb::first_octet(0, connection_id::LEN);
        let length = [load(BPF_B, at), alu(BPF_AND, quic_lb::LENGTH_MASK.into())].to_vec();
        let rest =
            branch(BPF_JEQ, described.into(), self.of_masked_octet(at), self.of_octet_at(at));
        [length, rest].concat()
    }

    fn of_octet_at(self, at: usize) -> Vec<sock_filter> {
        vec![load(BPF_B, at), alu(BPF_MOD, self.workers.into()), RETURN]
    }

    fn of_masked_octet(self, at: usize) -> Vec<sock_filter> {
        let WorkerMaskKey { xor, factors: [one, other] } = self.mask_key;
        let input = at + connection_id::MASK_INPUT_OFFSET;
        vec![
            load(BPF_W, input),
            alu(BPF_XOR, xor),
            alu(BPF_MUL, one),
            COPY_TO_X,
            alu(BPF_RSH, worker_octet::FOLD_SHIFT),
            alu_x(BPF_XOR),
            COPY_TO_X,
            load(BPF_W, input + WORD_BYTES),
            alu_x(BPF_ADD),
            alu(BPF_MUL, other),
            alu(BPF_RSH, worker_octet::MASK_SHIFT),
            COPY_TO_X,
            load(BPF_B, at + connection_id::WORKER_OFFSET),
            alu_x(BPF_XOR),
            alu(BPF_MOD, self.workers.into()),
            RETURN,
        ]
    }
}

/// Returns the accumulator.
const RETURN: sock_filter = instruction(BPF_RET | BPF_A, 0);

/// Copies the accumulator to the index register.
const COPY_TO_X: sock_filter = instruction(BPF_MISC | BPF_TAX, 0);

const fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Loads a value of this size into the accumulator.
fn load(size: u32, at: usize) -> sock_filter {
    instruction(BPF_LD | BPF_ABS | size, at as u32)
}

/// Computes with a constant.
fn alu(operation: u32, k: u32) -> sock_filter {
    instruction(BPF_ALU | BPF_K | operation, k)
}

/// Computes with the index register.
fn alu_x(operation: u32) -> sock_filter {
    instruction(BPF_ALU | BPF_X | operation, 0)
}

/// Compares the accumulator with `k`. Each branch ends with a return.
fn branch(
    condition: u32,
    k: usize,
    then: Vec<sock_filter>,
    otherwise: Vec<sock_filter>,
) -> Vec<sock_filter> {
    let compare = instruction(BPF_JMP | BPF_K | condition, k as u32);
    let compare = sock_filter { jf: then.len() as u8, ..compare };
    [vec![compare], then, otherwise].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::UdpSocket;

    use udp_batch::Group;
    use udp_batch::Received;
    use udp_batch::Receiver;
    use udp_batch::Socket;
    use udp_batch::GROUPS_MAX;

    use crate::net::socket;
    use crate::quic::connection_id::tests::generator;
    use crate::quic::connection_id::tests::reader;
    use crate::quic::connection_id::tests::reader_with;
    use crate::quic::connection_id::ConnectionIdGenerator;
    use crate::quic::connection_id::Origin;
    use crate::quic::random;

    fn steering(workers: u16) -> Steering {
        Steering::new(workers, reader().mask_key)
    }

    fn short_header(id: &[u8]) -> Vec<u8> {
        [&[0x40], id, &[0; 30]].concat()
    }

    fn long_header(id: &[u8]) -> Vec<u8> {
        [&[0xc0, 0, 0, 0, 1, id.len() as u8], id, &[0; 30]].concat()
    }

    #[test]
    fn first_octet_of_a_clients_cid_selects_worker() {
        for (workers, byte, worker) in
            [(1, 77, 0), (2, 77, 1), (3, 77, 2), (256, 77, 77), (256, 255, 255), (5, 0, 0)]
        {
            assert_eq!(steering(workers).worker_of(&short_header(&[byte, 9])), worker);
            assert_eq!(steering(workers).worker_of(&long_header(&[byte, 9])), worker);
        }
        // Its length is not that of the server's IDs.
        assert_eq!(steering(256).worker_of(&long_header(&[0xf3; 8])), 0xf3);
        for too_short in [&[][..], &[0x40], &[0xc0], &[0xc0, 0, 0, 0, 1, 1], &[0x40, 0xf3, 1, 1]] {
            assert_eq!(steering(3).worker_of(too_short), 0);
        }
    }

    #[test]
    fn generated_cid_selects_its_worker() {
        let quic_lb = "[[quic-lb]]\nconfig-id = 2\nserver-id = '0a'\nnonce-length = 17\n";
        for tables in [String::new(), quic_lb.to_owned(), format!("{quic_lb}key = 'DIR/key'")] {
            let reader = reader_with(&tables);
            for worker in 0..7 {
                let (origin, reader) = (Origin { worker, generation: 1 }, reader.clone());
                let ids = ConnectionIdGenerator::new(origin, reader);
                let id = ids.generate().unwrap().cid;
                for header in [short_header, long_header] {
                    let found = steering(7).worker_of(&header(&id.as_quic()));
                    assert_eq!(found, usize::from(worker), "{id}");
                }
            }
        }
    }

    #[test]
    fn worker_octets_of_one_worker_differ() {
        let ids = generator(Origin { worker: 1, generation: 0 });
        let octets: BTreeSet<_> =
            (0..100).filter_map(|_| ids.generate()?.cid.as_quic().last().copied()).collect();
        assert!(octets.len() > 50, "{octets:?}");
    }

    #[test]
    fn cids_of_a_clients_choice_are_spread_evenly() {
        const COUNT: usize = 30_000;
        let mut counts = [0; 3];
        for _ in 0..COUNT {
            let mut id = [0; connection_id::LEN];
            random::fill(&mut id).unwrap();
            id[0] = 0xf3;
            counts[steering(3).worker_of(&long_header(&id))] += 1;
        }
        assert!(counts.iter().all(|count| (COUNT / 4..COUNT / 2).contains(count)), "{counts:?}");
    }

    fn drain(socket: &Socket) -> Vec<Vec<u8>> {
        let mut receiver = Receiver::new(GROUPS_MAX);
        let mut datagrams = Vec::new();
        let mut take = |group: Group<'_>| {
            datagrams.extend(group.into_datagrams().map(|datagram| datagram.to_vec()));
        };
        while receiver.receive(socket, &mut take).unwrap() == Received::Full {}
        datagrams
    }

    /// Returns datagrams with IDs that begin with this octet.
    fn shapes(first: u8) -> impl Iterator<Item = Vec<u8>> {
        let mut id = [0; connection_id::LEN];
        random::fill(&mut id).unwrap();
        id[0] = first;
        let generated = generator(Origin { worker: first % 3, generation: 0 }).generate().unwrap();
        let generated = generated.cid.as_quic().into_owned();
        let long = [1, 8, 19, 20].map(|length| long_header(&id[..length]));
        let short = [short_header(&id), short_header(&generated), long_header(&generated)];
        let cut = [2, 12, 16, 20].map(|length| short_header(&id)[..length].to_vec());
        long.into_iter().chain(short).chain(cut)
    }

    #[test]
    fn kernel_program_matches_worker_of() {
        const WORKERS: u16 = 3;
        let steering = steering(WORKERS);
        let address = "127.0.0.1:0".parse().unwrap();
        let sockets = socket::bind_group(address, WORKERS).unwrap();
        steering.attach(&sockets[0]).unwrap();
        let address = sockets[0].local_addr();

        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent: BTreeSet<_> = (0..=255).flat_map(shapes).collect();
        let mut received = BTreeSet::new();
        let sent_and_short: Vec<_> = sent.iter().cloned().chain([vec![0x40], vec![0xc0]]).collect();
        // As many as the sockets have room for.
        for datagrams in sent_and_short.chunks(100) {
            for datagram in datagrams {
                client.send_to(datagram, address).unwrap();
            }
            for (worker, socket) in sockets.iter().enumerate() {
                for datagram in drain(socket) {
                    assert_eq!(steering.worker_of(&datagram), worker, "{datagram:02x?}");
                    received.insert(datagram);
                }
            }
        }
        assert!(sent.is_subset(&received));
        assert_eq!(received.len(), sent.len() + 2);
    }
}
