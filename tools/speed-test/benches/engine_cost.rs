//! Cost of Careful Resume to a connection without saved parameters: 100 MB between
//! two connections in memory and virtual time, with everything off, with pacing
//! alone, with the engine on, and with ECN as well.
//!
//! The congestion window alone limits the server, through a bottleneck that
//! loses nothing and delivers every packet by itself. So each way does the same
//! congestion control on the same ACKs: slow start until HyStart++ sees the
//! queue, then congestion avoidance.
//!
//! Counts instructions, which do not drift: run by `scripts/engine-cost.sh`
//! under callgrind, once each way. Only what the two connections do counts, in
//! [`server_side()`] and [`client_side()`].

use std::collections::VecDeque;
use std::time::Duration;

use quiche::careful_resume::CarefulResumeConfig;
use quiche::clock;
use quiche::clock::Simulation;
use quiche::ecn::Codepoint;
use quiche::ecn::EcnConfig;
use quiche::test_utils::Pipe;
use quiche::Connection;
use quiche::RecvInfo;

const OBJECT_BYTES: usize = 100_000_000;
const ONE_WAY: Duration = Duration::from_millis(10);

/// Of the bottleneck: 100 Mbit/s.
const NANOS_PER_BYTE: u64 = 80;

/// Flow-control window of the client, larger than the congestion window.
const WINDOW_BYTES: u64 = 1 << 30;

/// A datagram on its way.
struct Datagram {
    arrival: Duration,
    ecn: Codepoint,
    bytes: Vec<u8>,
}

type InFlight = VecDeque<Datagram>;

struct Transfer {
    time: Simulation,
    pipe: Pipe,
    has_ecn: bool,
    down: InFlight,
    up: InFlight,
    bottleneck_free: Duration,
    client_timer: Option<Duration>,
    server_timer: Option<Duration>,
    body: Vec<u8>,
    scratch: Vec<u8>,
    unwritten: usize,
    requested: bool,
    received: bool,
    packets: u64,
    acks: u64,
}

/// Returns the settings of edge-server, with SWS avoidance: most packets would be small without
/// it.
fn config(mode: &str) -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).expect("supported");
    config.set_application_protos(&[b"cost"]).expect("short");
    config.set_initial_max_data(WINDOW_BYTES);
    config.set_initial_max_stream_data_bidi_local(WINDOW_BYTES);
    config.set_initial_max_stream_data_bidi_remote(WINDOW_BYTES);
    config.set_max_connection_window(WINDOW_BYTES);
    config.set_max_stream_window(WINDOW_BYTES);
    config.set_initial_max_streams_bidi(1);
    config.verify_peer(false);
    config.set_sws_avoidance(true);
    config.set_ecn((mode == "ecn").then(EcnConfig::default));
    match mode {
        "off" => (),
        "paced" => config.set_reno_cubic_pacing(true),
        _ => config.set_careful_resume(CarefulResumeConfig::default()).expect("CUBIC"),
    }
    config
}

/// Runs `ask` on the server's connection: callgrind counts in here.
#[inline(never)]
fn server_side<R>(ask: impl FnOnce() -> R) -> R {
    // Lest the compiler takes both for one function.
    std::hint::black_box("server");
    ask()
}

/// Runs `ask` on the client's connection: callgrind does not count in here.
#[inline(never)]
fn client_side<R>(ask: impl FnOnce() -> R) -> R {
    std::hint::black_box("client");
    ask()
}

impl Transfer {
    fn new(mode: &str) -> Self {
        let time = start_at_full_second();
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .expect("a key can be made");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        std::fs::write(&cert, certificate.cert.pem()).expect("writable");
        std::fs::write(&key, certificate.signing_key.serialize_pem()).expect("writable");

        let mut config = config(mode);
        config.load_cert_chain_from_pem_file(&cert).expect("just made");
        config.load_priv_key_from_pem_file(&key).expect("just made");

        Self {
            time,
            pipe: Pipe::with_config(&mut config).expect("valid"),
            has_ecn: mode == "ecn",
            down: InFlight::new(),
            up: InFlight::new(),
            bottleneck_free: Duration::ZERO,
            client_timer: Some(Duration::ZERO),
            server_timer: Some(Duration::ZERO),
            body: vec![7; 64 << 10],
            scratch: vec![0; 1 << 16],
            unwritten: OBJECT_BYTES,
            requested: false,
            received: false,
            packets: 0,
            acks: 0,
        }
    }

    /// Processes each end when a packet has arrived or a timer has expired, as if
    /// it were alone in its process.
    fn run(&mut self) {
        while !self.received {
            let now = self.time.elapsed();
            if is_due(self.client_timer, now) || is_due(first(&self.down), now) {
                self.client_turn(now);
            }
            if is_due(self.server_timer, now) || is_due(first(&self.up), now) {
                self.server_turn(now);
            }
            let timers = [self.client_timer, self.server_timer, first(&self.down), first(&self.up)];
            let next = timers.into_iter().flatten().min();
            self.time.advance_to(next.expect("something is under way"));
        }
    }

    fn client_turn(&mut self, now: Duration) {
        let info = RecvInfo { from: Pipe::server_addr(), to: Pipe::client_addr() };
        let client = &mut self.pipe.client;
        while is_due(first(&self.down), now) {
            let mut datagram = self.down.pop_front().expect("just seen");
            client_side(|| receive(client, &mut datagram, info, self.has_ecn));
        }
        if is_due(self.client_timer, now) {
            client_side(|| client.on_timeout());
        }
        while let Ok((_, fin)) = client_side(|| client.stream_recv(0, &mut self.scratch)) {
            self.received |= fin;
        }
        if client.is_established() && !self.requested {
            self.requested = true;
            client.stream_send(0, b"get", true).expect("first bytes");
        }
        while let Ok((len, _)) = client_side(|| client.send(&mut self.scratch[..1350])) {
            self.up.push_back(Datagram {
                arrival: now + ONE_WAY,
                ecn: client_side(|| codepoint(client, self.has_ecn)),
                bytes: self.scratch[..len].to_vec(),
            });
            self.acks += 1;
        }
        self.client_timer = client_side(|| client.timeout()).map(|left| now + left);
    }

    fn server_turn(&mut self, now: Duration) {
        let info = RecvInfo { from: Pipe::client_addr(), to: Pipe::server_addr() };
        let server = &mut self.pipe.server;
        while is_due(first(&self.up), now) {
            let mut datagram = self.up.pop_front().expect("just seen");
            server_side(|| receive(server, &mut datagram, info, self.has_ecn));
        }
        if server_side(|| server.timeout()).is_some_and(|left| left.is_zero()) {
            server_side(|| server.on_timeout());
        }
        while self.write() | self.send(now) {}
        let timeout = server_side(|| self.pipe.server.timeout());
        let release = self.release().map(|at| at - clock::now());
        self.server_timer = timeout.into_iter().chain(release).min().map(|left| now + left);
    }

    /// Sends until nothing is left or the next packet is not due. False if
    /// nothing was sent.
    fn send(&mut self, now: Duration) -> bool {
        let before = self.packets;
        while self.release().is_none() {
            let buf = &mut self.scratch[..1350];
            let server = &mut self.pipe.server;
            let Ok((len, _)) = server_side(|| server.send(buf)) else { break };
            let serialised = Duration::from_nanos(len as u64 * NANOS_PER_BYTE);
            self.bottleneck_free = self.bottleneck_free.max(now) + serialised;
            self.down.push_back(Datagram {
                arrival: self.bottleneck_free + ONE_WAY,
                ecn: server_side(|| codepoint(server, self.has_ecn)),
                bytes: buf[..len].to_vec(),
            });
            self.packets += 1;
        }
        self.packets > before
    }

    fn write(&mut self) -> bool {
        let server = &mut self.pipe.server;
        let room = server_side(|| server.stream_capacity(0)).unwrap_or(0);
        let len = room.min(self.unwritten).min(self.body.len());
        if len == 0 {
            return false;
        }
        let fin = len == self.unwritten;
        let part = &self.body[..len];
        let written = server_side(|| server.stream_send(0, part, fin)).expect("room");
        self.unwritten -= written;
        written > 0
    }

    fn release(&self) -> Option<std::time::Instant> {
        server_side(|| self.pipe.server.get_next_release_time())?.time(clock::now())
    }
}

/// Starts the simulation just after a full second of the real clock: how many carries calculating
/// with its times takes depends on the fraction, up to a tenth of a percent of all instructions.
fn start_at_full_second() -> Simulation {
    loop {
        let time = Simulation::start(1, Duration::from_secs(1));
        // The only way to see an instant's fraction: "Instant { tv_sec: 1, tv_nsec: 2 }".
        let shown = format!("{:?}", clock::now());
        let nanos = shown.trim_end_matches(" }").rsplit(' ').next().and_then(|n| n.parse().ok());
        if Duration::from_nanos(nanos.unwrap_or(0)) < Duration::from_millis(5) {
            return time;
        }
    }
}

/// Has `to` receive a datagram, with its codepoint if it has ECN.
fn receive(to: &mut Connection, datagram: &mut Datagram, info: RecvInfo, has_ecn: bool) {
    let bytes = &mut datagram.bytes;
    let received = match has_ecn {
        true => to.recv_ecn(bytes, info, datagram.ecn),
        false => to.recv(bytes, info),
    };
    received.expect("valid packet");
}

/// Returns the codepoint of the datagram that `by` wrote last.
fn codepoint(by: &Connection, has_ecn: bool) -> Codepoint {
    match has_ecn {
        true => by.sent_ecn(),
        false => Codepoint::NotEct,
    }
}

/// Returns when the first packet arrives.
fn first(in_flight: &InFlight) -> Option<Duration> {
    in_flight.front().map(|datagram| datagram.arrival)
}

fn is_due(at: Option<Duration>, now: Duration) -> bool {
    at.is_some_and(|at| at <= now)
}

fn main() {
    let modes = ["off", "paced", "on", "ecn"];
    let mode = std::env::args().find(|arg| modes.contains(&arg.as_str()));
    let Some(mode) = mode else {
        // As `cargo test` or `cargo bench` start it.
        return println!("engine_cost: run `make engine-cost`");
    };
    let mut transfer = Transfer::new(&mode);
    transfer.run();
    let stats = transfer.pipe.server.path_stats().next().expect("one path");
    println!(
        "{} packets, {} ACKs, {} lost, {:.0} ms of virtual time",
        transfer.packets,
        transfer.acks,
        stats.lost,
        transfer.time.elapsed().as_secs_f64() * 1e3
    );
}
