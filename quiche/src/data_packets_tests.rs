//! Data-only packets: identical to those of the general path.

use super::*;
use crate::clock::Simulation;
use crate::test_utils::decode_pkt;
use crate::test_utils::Pipe;
use bytes::Bytes;
use std::collections::VecDeque;

const ONE_WAY: Duration = Duration::from_millis(10);
const SEEDS: std::ops::Range<u64> = 1..41;
const STEPS: usize = 300;
const PACKETS_A_STEP: u64 = 12;
const WRITE_MAX: u64 = 12_000;

/// In bytes; the handshake does not tell.
const PATH_MTU: usize = 1300;

/// Buffers as an application gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given;

impl BufFactory for Given {
    type Buf = Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> Bytes {
        Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

fn below(n: u64) -> u64 {
    rand::rand_u64_uniform(n)
}

fn one_in(n: u64) -> bool {
    below(n) == 0
}

fn config() -> Config {
    let control = ["cubic", "bbr2_gcongestion"][usize::from(one_in(3))];
    let mut config = Pipe::default_config(control).unwrap();
    config.set_initial_max_data(200_000);
    config.set_initial_max_stream_data_bidi_local(60_000);
    config.set_initial_max_stream_data_bidi_remote(60_000);
    config.set_initial_max_streams_bidi(4);
    config.set_active_connection_id_limit(4);
    config.set_coalesce_streams(one_in(2));
    config.set_sws_avoidance(one_in(2));
    config.set_reno_cubic_pacing(one_in(2));
    if one_in(3) {
        config.discover_pmtu(true);
        config.set_max_send_udp_payload_size(1400);
    }
    config.enable_dgram(true, 10, 10);
    config
}

/// How a server sends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// No packet is made as one of data alone.
    Otherwise,

    OneByOne,
    Batches,
}

#[derive(Debug, PartialEq)]
struct PacketRecord {
    length: usize,

    /// How long an application would have waited before it sent this one.
    wait: Duration,

    frames: Vec<frame::Frame>,
}

#[derive(Default)]
struct Made {
    packets: Vec<PacketRecord>,

    /// What the server knows after each step.
    stats: Vec<String>,

    /// Packets of data alone, and those that followed another in a run.
    data_alone: usize,
    followers: usize,
}

/// A server that does this and that.
struct ServerRun {
    pipe: Pipe<Given>,
    time: Simulation,

    way: Way,

    /// The first of the streams that the server writes to.
    stream: u64,

    arriving: VecDeque<Vec<u8>>,
    made: Made,
}

impl ServerRun {
    fn new(seed: u64, way: Way) -> Self {
        let time = Simulation::start(seed, Duration::from_secs(1_000_000));
        let mut pipe = Pipe::with_config_and_buf(&mut config()).unwrap();
        pipe.handshake().unwrap();
        pipe.advance().unwrap();
        let path = pipe.server.paths.get_active_mut().unwrap();
        if let Some(pmtud) = &mut path.pmtud {
            *pmtud = pmtud::Pmtud::new(1400, 3);
        }
        Self {
            pipe,
            time,
            way,
            stream: 1,
            arriving: VecDeque::new(),
            made: Made::default(),
        }
    }

    fn go(mut self) -> Made {
        for _ in 0..STEPS {
            self.act();
            let mut left = below(PACKETS_A_STEP) as usize;
            while left > 0 {
                match self.send(left) {
                    0 => break,
                    sent => left -= sent,
                }
            }
            let server = &self.pipe.server;
            let path = server.path_stats().next();
            self.made
                .stats
                .push(format!("{:?} {path:?}", server.stats()));
            if one_in(3) {
                self.pass_time();
            }
        }
        self.made
    }

    /// The server, or its client, does one thing.
    fn act(&mut self) {
        let id = self.stream + 4 * below(4);
        let Pipe { client, server } = &mut self.pipe;
        // Some of it is refused, in both runs alike.
        match below(18) {
            0..8 => {
                let data = vec![id as u8; below(WRITE_MAX) as usize];
                let _ = server.stream_send_zc(id, data.into(), one_in(20));
            },
            8 => {
                let _ = server.stream_send(id, &[7; 64], false);
            },
            9 => {
                let urgency = below(8) as u8;
                let _ = server.stream_priority(id, urgency, one_in(2));
            },
            10 => {
                let _ = client.stream_send(4 * below(4), &[7; 900], one_in(9));
            },
            11 => {
                for id in server.readable() {
                    let _ = server.stream_recv(id, &mut [0; 10_000]);
                }
            },
            12 if one_in(4) => {
                let _ = server.stream_shutdown(id, Shutdown::Write, 7);
            },
            13 if one_in(4) => {
                let _ = server.stream_shutdown(id, Shutdown::Read, 7);
            },
            14 => {
                let _ = server.dgram_send(&[7; 900]);
            },
            15 if one_in(3) => {
                let mut scid = [0; 16];
                rand::rand_bytes(&mut scid);
                let scid = ConnectionId::from_ref(&scid);
                let _ = server.new_scid(&scid, 7, true);
            },
            16 if one_in(3) => server.send_ack_eliciting().unwrap(),
            17 => {
                let _ = client.stream_shutdown(id, Shutdown::Read, 7);
            },
            _ => (),
        }
        if self.pipe.server.stream_finished(self.stream) {
            self.stream += 4;
        }
    }

    /// Returns the number of packets.
    fn send(&mut self, packets_max: usize) -> usize {
        let server = &mut self.pipe.server;
        let path = server.paths.get_active_path_id().unwrap();
        self.made.data_alone +=
            usize::from(server.is_data_alone_due(path).unwrap());
        if self.way == Way::Otherwise {
            server.ack_eliciting_sent = false;
        }
        let release = server.get_next_release_time().unwrap();
        let now = clock::now();
        let wait = release.time(now).map_or(Duration::ZERO, |at| at - now);
        let packets_max = if self.way == Way::Batches {
            packets_max
        } else {
            1
        };
        let mut out = vec![0; packets_max * 1500];
        let Ok(batch) = server.send_batch(&mut out, packets_max, now) else {
            return 0;
        };
        let packets = out[..batch.len].chunks(batch.packet_len);
        let count = packets.len();
        assert!(count <= packets_max);
        self.made.followers += count - 1;
        for (index, packet) in packets.enumerate() {
            // Later packets of the batch need not wait.
            let wait = if index == 0 { wait } else { Duration::ZERO };
            self.leaves(packet.to_vec(), wait);
        }
        count
    }

    fn leaves(&mut self, packet: Vec<u8>, wait: Duration) {
        let mut decoded = packet.clone();
        self.made.packets.push(PacketRecord {
            length: packet.len(),
            wait,
            frames: decode_pkt(&mut self.pipe.client, &mut decoded).unwrap(),
        });
        if packet.len() <= PATH_MTU && !one_in(50) {
            self.arriving.push_back(packet);
        }
    }

    /// A round trip, in which all that is under way arrives and is read, or a
    /// time in which nothing does.
    fn pass_time(&mut self) {
        if one_in(8) {
            self.time.advance_to(self.time.elapsed() + 30 * ONE_WAY);
            return self.pipe.server.on_timeout();
        }
        self.time.advance_to(self.time.elapsed() + ONE_WAY);
        for mut packet in std::mem::take(&mut self.arriving) {
            self.pipe.client_recv(&mut packet).unwrap();
        }
        let client = &mut self.pipe.client;
        if one_in(2) {
            for id in client.readable() {
                let _ = client.stream_recv(id, &mut [0; 100_000]);
            }
        }
        self.time.advance_to(self.time.elapsed() + ONE_WAY);
        let mut packet = [0; 1500];
        while let Ok((length, _)) = self.pipe.client.send(&mut packet) {
            self.pipe.server_recv(&mut packet[..length]).unwrap();
        }
        self.pipe.client.on_timeout();
        self.pipe.server.on_timeout();
    }
}

#[test]
fn data_packets_equal_those_of_send_single() {
    let (mut sent, mut data_alone, mut followers) = (0, 0, 0);
    for seed in SEEDS {
        let otherwise = ServerRun::new(seed, Way::Otherwise).go();
        for way in [Way::OneByOne, Way::Batches] {
            let made = ServerRun::new(seed, way).go();
            let pairs = made.packets.iter().zip(&otherwise.packets);
            for (at, (one, other)) in pairs.enumerate() {
                assert_eq!(one, other, "packet {at}, seed {seed}, {way:?}");
            }
            assert_eq!(made.packets.len(), otherwise.packets.len());
            assert_eq!(made.stats, otherwise.stats, "seed {seed}, {way:?}");
            sent += made.packets.len();
            data_alone += made.data_alone;
            followers += made.followers;
        }
    }
    assert!(data_alone > sent / 4, "{data_alone} of {sent}");
    assert!(followers > sent / 20, "{followers} of {sent}");
}

type Change = fn(&mut Connection<Given>);

/// Other frames that can be due, or that keep packets from leaving.
const ELSE: &[(&str, Change)] = &[
    ("handshake", |server| server.handshake_confirmed = false),
    ("HANDSHAKE_DONE", |server| {
        server.handshake_done_sent = false;
    }),
    ("CONNECTION_CLOSE", |server| {
        server.close(true, 7, b"").unwrap();
    }),
    ("the idle timer", |server| server.ack_eliciting_sent = false),
    ("two paths", |server| {
        let to = "127.0.0.1:9".parse().unwrap();
        let path = unvalidated(to);
        server.paths.insert_path(path, true).unwrap();
    }),
    ("an unvalidated path", |server| {
        let to = server.paths.get_active().unwrap().peer_addr();
        server.paths = path::PathMap::new(unvalidated(to), 1, true);
    }),
    ("PING", |server| server.send_ack_eliciting().unwrap()),
    ("PATH_CHALLENGE", |server| {
        server.paths.get_active_mut().unwrap().request_validation();
    }),
    ("PATH_RESPONSE", |server| {
        server
            .paths
            .get_active_mut()
            .unwrap()
            .on_challenge_received([7; 8]);
    }),
    ("a probe of the MTU", |server| {
        let pmtud = pmtud::Pmtud::new(1500, 1);
        server.paths.get_active_mut().unwrap().pmtud = Some(pmtud);
    }),
    ("ACK", |server| {
        server.pkt_num_spaces[packet::Epoch::Application].ack_elicited = true;
    }),
    ("a skipped number", |server| {
        server.pkt_num_manager.skip_pn_counter = Some(0);
    }),
    ("CRYPTO", |server| {
        let crypto_ctx = &mut server.crypto_ctx[packet::Epoch::Application];
        crypto_ctx
            .crypto_stream
            .send
            .write(b"ticket", false)
            .unwrap();
    }),
    ("lost data", |server| {
        let ping = frame::Frame::Ping { mtu_probe: None };
        let path = server.paths.get_active_mut().unwrap();
        path.recovery
            .add_lost_frame(packet::Epoch::Application, ping);
    }),
    ("a probe", |server| {
        let path = server.paths.get_active_mut().unwrap();
        path.recovery.inc_loss_probes(packet::Epoch::Application);
    }),
    ("NEW_TOKEN", |server| {
        server.send_new_token(vec![7]).unwrap()
    }),
    ("MAX_DATA, consumed", |server| {
        server.flow_control.add_consumed(150_000);
    }),
    ("MAX_DATA, lost", |server| {
        server.should_send_max_data = true
    }),
    ("DATA_BLOCKED", |server| server.blocked_limit = Some(7)),
    ("STREAMS_BLOCKED, bidirectional", |server| {
        server.streams_blocked_bidi_state.blocked_at = Some(7);
    }),
    ("STREAMS_BLOCKED, unidirectional", |server| {
        server.streams_blocked_uni_state.blocked_at = Some(7);
    }),
    ("MAX_STREAMS, bidirectional, lost", |server| {
        server.should_send_max_streams_bidi = true;
    }),
    ("MAX_STREAMS, unidirectional, lost", |server| {
        server.should_send_max_streams_uni = true;
    }),
    ("MAX_STREAM_DATA", |server| {
        server.streams.insert_almost_full(1)
    }),
    ("STREAM_DATA_BLOCKED", |server| {
        server.streams.insert_blocked(1, 7)
    }),
    ("RESET_STREAM", |server| {
        server.streams.insert_reset(1, 7, 7)
    }),
    ("STOP_SENDING", |server| server.streams.insert_stopped(1, 7)),
    ("DATAGRAM", |server| server.dgram_send(&[7]).unwrap()),
    ("NEW_CONNECTION_ID", |server| {
        let scid = ConnectionId::from_ref(&[7; 16]);
        server.new_scid(&scid, 7, true).unwrap();
    }),
    ("MAX_STREAMS, bidirectional, used", |server| {
        use_up(server, 8)
    }),
    ("MAX_STREAMS, unidirectional, used", |server| {
        use_up(server, 10)
    }),
    ("the answer to a key update", |server| {
        let crypto_ctx = &mut server.crypto_ctx[packet::Epoch::Application];
        let open = crypto_ctx.crypto_open.as_ref().unwrap();
        crypto_ctx.key_update = Some(Box::new(packet::KeyUpdate {
            crypto_open: open.derive_next_packet_key().unwrap(),
            pn_on_update: 0,
            update_acked: false,
            timer: clock::now(),
        }));
    }),
    ("RETIRE_CONNECTION_ID", |server| {
        server.ids.mark_retire_dcid_seq(0, true).unwrap();
    }),
    #[cfg(feature = "qlog")]
    ("a log", |server| {
        server.set_qlog(Box::new(std::io::sink()), "".into(), "".into());
    }),
];

/// The client's streams up to this one are opened, and this one is over.
fn use_up(server: &mut Connection<Given>, stream: u64) {
    server.get_or_create_stream(stream, false).unwrap();
    server.streams.collect(stream, false);
}

fn unvalidated(to: SocketAddr) -> path::Path {
    let config = recovery::RecoveryConfig::from_config(&config());
    path::Path::new(Pipe::server_addr(), to, &config, 3, false, None)
}

#[test]
fn data_packets_wait_for_all_other_frames() {
    for (what, make_due) in ELSE {
        let mut pipe: Pipe<Given> =
            Pipe::with_config_and_buf(&mut config()).unwrap();
        pipe.handshake().unwrap();
        pipe.advance().unwrap();
        let server = &mut pipe.server;
        let path = server.paths.get_active_path_id().unwrap();
        server.paths.get_active_mut().unwrap().pmtud = None;
        assert!(!server.is_data_alone_due(path).unwrap());

        // The first packet after others came goes the long way.
        server
            .stream_send_zc(1, vec![7; 5000].into(), true)
            .unwrap();
        server.send(&mut [0; 1500]).unwrap();
        assert!(server.is_data_alone_due(path).unwrap());

        make_due(server);
        assert!(!server.is_data_alone_due(path).unwrap(), "{what}");
    }
}

// The last probe failed, and the recovery keeps its size.
#[test]
fn batch_is_as_long_with_a_known_mtu() {
    let mut config = Pipe::default_config("cubic").unwrap();
    config.set_initial_max_data(60_000);
    config.set_initial_max_stream_data_bidi_remote(60_000);
    let mut pipe: Pipe<Given> = Pipe::with_config_and_buf(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();

    let server = &mut pipe.server;
    let path = server.paths.get_active_mut().unwrap();
    let mut pmtud = pmtud::Pmtud::new(PATH_MTU + 1, 1);
    pmtud.successful_probe(PATH_MTU);
    pmtud.failed_probe(PATH_MTU + 1);
    path.pmtud = Some(pmtud);
    path.recovery.pmtud_update_max_datagram_size(PATH_MTU + 1);

    let data = vec![7; 8 * PATH_MTU];
    server.stream_send_zc(1, data.into(), true).unwrap();
    server.send(&mut [0; 1500]).unwrap();
    let mut out = [0; 5 * 1500];
    let batch = server.send_batch(&mut out, 4, clock::now()).unwrap();
    assert_eq!((batch.packet_len, batch.len), (PATH_MTU, 4 * PATH_MTU));
}

/// The codepoint of a batch is that of all of its packets: a test of the path
/// has marked all that it may with the third.
#[test]
fn batch_has_one_codepoint() {
    let mut config = Pipe::default_config("cubic").unwrap();
    config.set_initial_max_stream_data_bidi_local(60_000);
    config.set_initial_max_data(60_000);
    config.set_ecn(Some(Default::default()));
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    let path = pipe.server.paths.get_active_mut().unwrap();
    let mut ecn = ecn::PathEcn::new(Default::default());
    for pkt_num in 0..7 {
        ecn.begin_datagram();
        ecn.on_packet_sent(packet::Epoch::Initial, pkt_num);
    }
    *path.recovery.ecn_mut().unwrap() = ecn;
    pipe.client.stream_send(0, b"get", true).unwrap();
    let flight = test_utils::emit_flight(&mut pipe.client).unwrap();
    test_utils::process_flight(&mut pipe.server, flight).unwrap();
    pipe.server.stream_send(0, &[7; 10_000], true).unwrap();

    let mut out = [0; 20_000];
    let mut packets = vec![];
    let now = clock::now();
    while let Ok(batch) = pipe.server.send_batch(&mut out, 10, now) {
        let count = batch.len.div_ceil(batch.packet_len);
        packets.extend(vec![pipe.server.sent_ecn(); count]);
    }
    let marked = packets
        .iter()
        .take_while(|ecn| **ecn != ecn::Codepoint::NotEct);
    // The first has the ACK, and is none of a batch.
    assert_eq!(marked.count(), 3, "{packets:?}");
    assert!(packets.len() > 5, "{packets:?}");
}
