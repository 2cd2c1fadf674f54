//! Search for sequences of takeovers and other events after which a connection is lost whose
//! process lives, or nobody answers.
//!
//! A failure prints the seed; `TAKEOVER_SEED=` runs that sequence alone.

use std::env;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use boring::ssl::SslStream;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::support::client::UdpClient;
use crate::support::process::Running;
use crate::support::tcp_client;
use crate::support::tcp_client::TcpClient;
use crate::support::tcp_client::Version;
use crate::takeover::get;
use crate::takeover::patient_client;
use crate::takeover::Line;
use crate::takeover::LONG;
use crate::takeover::LONG_BYTES;

/// Seeds of the sequences that each test runs, and of those that take too long for every day.
const SEEDS: Range<u64> = 1..5;
const MANY_SEEDS: Range<u64> = 1000..2000;
const EVENTS: usize = 12;

/// Sequences at a time: most of one is waiting for old servers to end.
const LANES: usize = 6;
const GENERATIONS_MAX: usize = 5;
const MISCARRIAGE_MS_MAX: u64 = 200;

/// Bytes that each download continues by after an event.
const CONTINUATION: usize = 20_000;

/// Server processes of one line, and their clients.
struct Fleet {
    line: Line,

    /// The oldest first. The last one serves.
    servers: Vec<ServerProcess>,
}

struct ServerProcess {
    process: Running,
    downloads: Vec<Download>,
    is_paused: bool,
    is_draining: bool,
}

struct Download {
    client: DownloadClient,
    received: usize,
}

enum DownloadClient {
    Quic { client: Box<UdpClient>, stream: u64 },
    Tcp(SslStream<TcpStream>),
}

/// What happens to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    StartDownload,
    StartTcpDownload,
    FinishDownload(usize),
    TakeOver,

    /// A new process is killed so many milliseconds after its start, before, in, or after its
    /// takeover.
    Miscarry(u64),

    /// A new process takes over, and is killed at once.
    DieAtOnce,

    /// SIGKILL for this server.
    Kill(usize),

    /// SIGSTOP for an old server, or SIGCONT.
    Pause(usize),
    GoOn(usize),

    /// SIGTERM for an old server, which has clients.
    Drain(usize),
}

impl ServerProcess {
    fn new(process: Running) -> Self {
        Self { process, downloads: Vec::new(), is_paused: false, is_draining: false }
    }

    /// Returns whether the server serves again if those after it die: one that has clients over TCP
    /// alone has ended its event loops.
    fn can_serve(&self) -> bool {
        !self.is_paused && !self.is_draining && self.downloads.iter().any(Download::is_quic)
    }
}

impl Download {
    fn start(line: &Line) -> Self {
        let mut client = Box::new(patient_client(line.address));
        let stream = client.request("GET", LONG);
        Self::begin(DownloadClient::Quic { client, stream })
    }

    fn start_tcp(line: &Line) -> Self {
        let mut stream = tcp_client::open(line.address, b"\x08http/1.1");
        write!(stream, "GET {LONG} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut header = Vec::new();
        while !header.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            header.extend(byte);
        }
        assert!(header.starts_with(b"HTTP/1.1 200 "), "{}", header.escape_ascii());
        Self::begin(DownloadClient::Tcp(stream))
    }

    fn begin(client: DownloadClient) -> Self {
        let mut download = Self { client, received: 0 };
        download.go_on();
        download
    }

    fn is_quic(&self) -> bool {
        matches!(self.client, DownloadClient::Quic { .. })
    }

    fn go_on(&mut self) {
        let bytes = CONTINUATION.min(LONG_BYTES - self.received);
        self.received += bytes;
        match &mut self.client {
            DownloadClient::Quic { client, stream } => client.receive(*stream, self.received),
            DownloadClient::Tcp(stream) => stream.read_exact(&mut vec![0; bytes]).unwrap(),
        }
    }

    fn finish(self) {
        match self.client {
            DownloadClient::Quic { mut client, stream } => {
                assert_eq!(client.response(stream).body.len(), LONG_BYTES);
                client.close();
            }
            DownloadClient::Tcp(mut stream) => {
                stream.read_exact(&mut vec![0; LONG_BYTES - self.received]).unwrap();
            }
        }
    }
}

impl Fleet {
    fn start() -> Self {
        let (line, first) = Line::begin();
        Self { line, servers: vec![ServerProcess::new(first)] }
    }

    fn newest(&self) -> usize {
        self.servers.len() - 1
    }

    /// Returns the events that may happen now. Without a process that can serve, an outage is no
    /// fault.
    fn possible(&self, random: &mut Pcg64) -> Vec<Event> {
        let newest = self.newest();
        let mut events = vec![Event::StartDownload, Event::StartTcpDownload];
        if self.servers.len() < GENERATIONS_MAX {
            events.extend([Event::TakeOver; 3]);
        }
        events.extend([Event::Miscarry(random.next_u64() % MISCARRIAGE_MS_MAX); 3]);
        events.extend([Event::DieAtOnce; 2]);
        if newest > 0 && self.servers[newest - 1].can_serve() {
            events.extend([Event::Kill(newest); 2]);
        }
        for (index, server) in self.servers.iter().enumerate() {
            let is_old = index < newest;
            let has_downloads = !server.downloads.is_empty() && !server.is_paused;
            events.extend(has_downloads.then_some(Event::FinishDownload(index)));
            events.extend(is_old.then_some(Event::Kill(index)));
            events.extend((is_old && !server.is_paused).then_some(Event::Pause(index)));
            events.extend(server.is_paused.then_some(Event::GoOn(index)));
            let may_drain = is_old && has_downloads && !server.is_draining;
            events.extend(may_drain.then_some(Event::Drain(index)));
        }
        events
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::StartDownload => {
                let newest = self.newest();
                self.servers[newest].downloads.push(Download::start(&self.line));
            }
            Event::StartTcpDownload => {
                let newest = self.newest();
                self.servers[newest].downloads.push(Download::start_tcp(&self.line));
            }
            Event::FinishDownload(index) => self.servers[index].downloads.remove(0).finish(),
            Event::TakeOver => self.servers.push(ServerProcess::new(self.line.succeed())),
            Event::Miscarry(after_ms) => {
                let mut process = Running::start(&mut self.line.command());
                thread::sleep(Duration::from_millis(after_ms));
                process.kill();
            }
            Event::DieAtOnce => self.line.succeed().kill(),
            Event::Kill(index) => self.servers.remove(index).process.kill(),
            Event::Pause(index) => {
                self.servers[index].process.pause();
                self.servers[index].is_paused = true;
            }
            Event::GoOn(index) => {
                self.servers[index].process.go_on();
                self.servers[index].is_paused = false;
            }
            Event::Drain(index) => {
                self.servers[index].process.ask_to_drain();
                self.servers[index].is_draining = true;
            }
        }
    }

    /// Waits for the end of old servers without clients.
    fn await_ends(&mut self) {
        for index in (0..self.newest()).rev() {
            let server = &mut self.servers[index];
            if server.downloads.is_empty() && !server.is_paused {
                assert!(server.process.end().0.success());
                self.servers.remove(index);
            }
        }
    }

    /// Fails if a download does not continue, or a new client gets no response.
    fn check(&mut self) {
        for server in self.servers.iter_mut().filter(|server| !server.is_paused) {
            server.downloads.iter_mut().for_each(Download::go_on);
        }
        assert_eq!(get(self.line.address, 5), 5);
        for version in [Version::Http11, Version::Http2] {
            let mut client = TcpClient::connect(self.line.address, "localhost", version);
            assert_eq!(client.get("localhost", "/bytes/5", &[]).body().len(), 5, "{version:?}");
        }
    }
}

fn run(seed: u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut fleet = Fleet::start();
    for _ in 0..EVENTS {
        let possible = fleet.possible(&mut random);
        let event = possible[random.next_u64() as usize % possible.len()];
        eprintln!("seed {seed}: {event:?}");
        fleet.apply(event);
        fleet.await_ends();
        fleet.check();
    }
}

fn run_all(seeds: Range<u64>) {
    let seeds = &Mutex::new(seeds);
    let next = || seeds.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(move || std::iter::from_fn(next).for_each(run));
        }
    });
}

#[test]
fn no_sequence_of_takeovers_loses_a_client() {
    match env::var("TAKEOVER_SEED") {
        Ok(seed) => run(seed.parse().unwrap()),
        Err(_) => run_all(SEEDS),
    }
}

#[test]
#[ignore = "takes half an hour"]
fn no_sequence_of_a_thousand_loses_a_client() {
    run_all(MANY_SEEDS);
}
