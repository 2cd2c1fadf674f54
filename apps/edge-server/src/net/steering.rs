//! Steering of packets to workers, by the first byte of the destination connection ID.
//!
//! In the server's IDs that byte names the worker. In a client's first packets it is random, which
//! spreads connections evenly. The kernel runs the same rule as a BPF program, so that a packet
//! reaches its worker even after the client's address has changed.

use std::io;
use std::os::fd::AsFd;

use nix::libc::sock_filter;
use nix::libc::sock_fprog;
use nix::libc::BPF_A;
use nix::libc::BPF_ABS;
use nix::libc::BPF_ALU;
use nix::libc::BPF_B;
use nix::libc::BPF_JMP;
use nix::libc::BPF_JSET;
use nix::libc::BPF_K;
use nix::libc::BPF_LD;
use nix::libc::BPF_MOD;
use nix::libc::BPF_RET;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;

use crate::config::WORKERS_MAX;
use crate::quic::header::LONG_HEADER;

/// Offsets of the destination connection ID: it follows the first byte, and in a long header also
/// the version and the ID's length (RFC 8999, 5).
const SHORT_HEADER_ID_OFFSET: u8 = 1;
const LONG_HEADER_ID_OFFSET: u8 = 6;

/// Steering rule for a number of workers.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    workers: u16,
}

impl Steering {
    /// Returns the rule for `workers`, from 1 to [`WORKERS_MAX`].
    pub fn new(workers: u16) -> Self {
        Self { workers: workers.clamp(1, WORKERS_MAX) }
    }

    /// Returns the worker of a datagram; 0 if it is too short to have a connection ID.
    pub fn worker_of(self, datagram: &[u8]) -> usize {
        let is_long = datagram.first().is_some_and(|first| first & LONG_HEADER != 0);
        let at = if is_long { LONG_HEADER_ID_OFFSET } else { SHORT_HEADER_ID_OFFSET };
        let byte = datagram.get(usize::from(at)).copied().unwrap_or_default();
        usize::from(u16::from(byte) % self.workers)
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
    fn program(self) -> [sock_filter; 8] {
        let plain = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
        let unless_long_skip = |jf: u8| sock_filter {
            code: (BPF_JMP | BPF_JSET | BPF_K) as u16,
            jt: 0,
            jf,
            k: LONG_HEADER.into(),
        };
        let load_byte = |at: u8| plain(BPF_LD | BPF_B | BPF_ABS, at.into());
        let modulo = plain(BPF_ALU | BPF_MOD | BPF_K, self.workers.into());
        let return_worker = plain(BPF_RET | BPF_A, 0);
        [
            load_byte(0),
            unless_long_skip(3),
            load_byte(LONG_HEADER_ID_OFFSET),
            modulo,
            return_worker,
            load_byte(SHORT_HEADER_ID_OFFSET),
            modulo,
            return_worker,
        ]
    }
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
    use crate::quic::connection_id::ConnectionIdGenerator;
    use crate::quic::connection_id::Origin;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;

    fn short_header(id: &[u8]) -> Vec<u8> {
        [&[0x40], id, &[0; 30]].concat()
    }

    fn long_header(id: &[u8]) -> Vec<u8> {
        [&[0xc0, 0, 0, 0, 1, id.len() as u8], id, &[0; 30]].concat()
    }

    #[test]
    fn first_cid_byte_selects_worker() {
        for (workers, byte, worker) in
            [(1, 77, 0), (2, 77, 1), (3, 77, 2), (256, 77, 77), (256, 255, 255), (5, 0, 0)]
        {
            let steering = Steering::new(workers);
            assert_eq!(steering.worker_of(&short_header(&[byte, 9])), worker);
            assert_eq!(steering.worker_of(&long_header(&[byte, 9])), worker);
        }
        for too_short in [&[][..], &[0x40], &[0xc0, 0, 0, 0, 1, 1]] {
            assert_eq!(Steering::new(3).worker_of(too_short), 0);
        }
    }

    #[test]
    fn generated_cid_selects_its_worker() {
        let steering = Steering::new(7);
        for worker in 0..7 {
            let origin = Origin { worker, generation: 1 };
            let id = ConnectionIdGenerator::new(origin, shared(&[ONE])).connection_id().unwrap();
            assert_eq!(steering.worker_of(&short_header(&id.as_quic())), usize::from(worker));
        }
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

    #[test]
    fn kernel_program_matches_worker_of() {
        const WORKERS: u16 = 3;
        let steering = Steering::new(WORKERS);
        let address = "127.0.0.1:0".parse().unwrap();
        let sockets = socket::bind_group(address, WORKERS).unwrap();
        steering.attach(&sockets[0]).unwrap();
        let address = sockets[0].local_addr();

        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent: BTreeSet<_> =
            (0..=255).flat_map(|b| [short_header(&[b]), long_header(&[b])]).collect();
        for datagram in sent.iter().chain([&vec![0x40], &vec![0xc0]]) {
            client.send_to(datagram, address).unwrap();
        }
        let mut received = BTreeSet::new();
        for (worker, socket) in sockets.iter().enumerate() {
            for datagram in drain(socket) {
                assert_eq!(steering.worker_of(&datagram), worker, "{datagram:02x?}");
                received.insert(datagram);
            }
        }
        assert!(sent.is_subset(&received));
        assert_eq!(received.len(), sent.len() + 2);
    }
}
