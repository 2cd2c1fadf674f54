//! Load of 2,000 concurrent clients, and the memory of an idle connection.
//!
//!     cargo bench -p edge-server --bench load [-- --connections 2000 --seconds 120]
//!
//! Method: edge-client's load mode downloads over link-emulator, which loses 1 % of the packets,
//! and compares every body with its SHA-256. After a sixth of the time the server reloads its
//! configuration (SIGHUP), after a third another one takes over. Then, on a fresh server, as many
//! connections download once each, acknowledge everything and stay idle; each sends another request
//! at the end.
//!
//! Passes if no request fails, the second server's memory does not grow in the last half of the
//! load, and an idle connection takes at most 40 kB. Needs the other programs: `make build`.

#[path = "../tests/process/support/client.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod client;
#[path = "../tests/process/support/process.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod process;

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use clap::Parser;
use ring::digest;
use rustix::process::Resource;
use rustix::process::Rlimit;
use serde_json::Value;

use crate::client::ClientLimits;
use crate::client::UdpClient;
use crate::process::server_command;
use crate::process::sibling;
use crate::process::Running;

/// Path of the load. Its buffer holds the initial windows of all clients.
const RATE_MBPS: u64 = 400;
const PATH: [&str; 8] = ["--rate", "400", "--rtt", "40", "--buffer", "40000000", "--loss", "0.01"];

/// Handshake timeout of both endpoints, in seconds: all clients connect at once, which fills the
/// buffer, and some lose several packets in a row.
const HANDSHAKE_TIMEOUT_S: &str = "30";

const OBJECT_BYTES: usize = 100_000;

/// Share of the path's rate that bodies get if the machine keeps up.
const GOODPUT_SHARE: f64 = 0.9;

/// Growth of memory that passes: windows open and close.
const GROWTH_MAX: f64 = 0.1;

const IDLE_BYTES_MAX: usize = 40_000;

/// Connections before the measurement, which make the server allocate its shared memory.
const WARM_UP_CONNECTIONS: usize = 8;

/// Idle time after which the server has released the memory of idle connections.
const IDLE_TIME: Duration = Duration::from_secs(6);

/// Idle timeout of the measured connections.
const IDLE_TIMEOUT_S: u64 = 600;

/// Number of threads that open connections.
const THREADS: usize = 8;

/// Interval of memory samples, and the number of samples for each printed line.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const SAMPLES_PER_LINE: usize = 10;

/// Loads a server with many clients, then leaves as many connections idle.
#[derive(Clone, Debug, Parser)]
struct LoadOptions {
    /// Concurrent clients; few clients have a larger share each of the server's fixed memory
    #[arg(long, default_value_t = 2000)]
    connections: usize,

    /// Duration of the load if the machine keeps up
    #[arg(long, default_value_t = 120)]
    seconds: u64,

    /// Passed by cargo to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// Files that the servers serve and share.
struct Home {
    dir: tempfile::TempDir,
    sha256: String,
}

impl Home {
    fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let object: Vec<u8> = (0..OBJECT_BYTES).map(|n| ((n * n) >> 7) as u8).collect();
        fs::write(dir.path().join("object"), &object)?;
        fs::write(dir.path().join("secrets"), "5e".repeat(32))?;
        let digest = digest::digest(&digest::SHA256, &object);
        let sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { dir, sha256 })
    }

    fn path(&self, name: &str) -> String {
        Path::join(self.dir.path(), name).to_string_lossy().into_owned()
    }

    /// Starts a server on an address.
    fn serve(&self, listen: SocketAddr, more: &[&str]) -> Running {
        let (root, secrets) = (self.path(""), self.path("secrets"));
        let listen = listen.to_string();
        let args = ["--listen", &listen, "--root", &root, "--secrets", &secrets];
        Running::start(&mut server_command(&[&args, more].concat()))
    }
}

/// Result of a load.
struct Load {
    summary: Value,

    /// The second server's memory in the last half, while all clients are active, in KiB.
    memory_kib: Vec<usize>,
}

/// Runs a load with a reload and a hot restart.
fn load(home: &Home, options: &LoadOptions) -> anyhow::Result<Load> {
    let any = "127.0.0.1:0".parse()?;
    let takeover = home.path("takeover.sock");
    let more = ["--takeover", &takeover, "--handshake-timeout", HANDSHAKE_TIMEOUT_S];
    let start_server = |listen| home.serve(listen, &more);
    let mut server = start_server(any);
    let address = server.address();
    let to = address.to_string();
    let mut emulator = Command::new(sibling("link-emulator"));
    let emulator = emulator.args(["--listen", "127.0.0.1:0", "--to", &to]).args(PATH);
    let mut emulator = Running::start(emulator);
    let mut clients = start_clients(emulator.address(), home, options)?;

    let started = quiche::clock::now();
    let length = Duration::from_secs(options.seconds);
    let (mut reload_at, mut restart_at) = (Some(length / 6), Some(length / 3));
    let mut memory_kib = Vec::new();
    let mut old = None;
    for sample in 1.. {
        thread::sleep(SAMPLE_INTERVAL);
        let elapsed = quiche::clock::now() - started;
        let print_event = |what: &str| println!("after {:3} s: {what}", elapsed.as_secs());
        if reload_at.take_if(|at| *at <= elapsed).is_some() {
            server.ask_to_reload();
            print_event(&server.wait_for("reloaded"));
        }
        if restart_at.take_if(|at| *at <= elapsed).is_some() {
            old = Some(std::mem::replace(&mut server, start_server(address)));
            print_event(&server.wait_for("took over"));
        }
        let kib = server.memory_kib("VmRSS");
        if sample % SAMPLES_PER_LINE == 0 {
            print_event(&format!("the server uses {kib} KiB"));
        }
        if clients.try_wait()?.is_some() {
            break;
        }
        // Before the first clients finish.
        if (length / 2..length * 9 / 10).contains(&elapsed) {
            memory_kib.push(kib);
        }
    }
    let mut summary = String::new();
    clients.stdout.take().context("no output")?.read_to_string(&mut summary)?;
    let mut old = old.context("the load ended before the restart")?;
    ensure!(old.end().0.success(), "the first server failed");
    ensure!(server.stop().success(), "the second server failed");
    Ok(Load { summary: serde_json::from_str(&summary)?, memory_kib })
}

/// Starts clients with as many requests as the path carries in the time.
fn start_clients(path: SocketAddr, home: &Home, options: &LoadOptions) -> anyhow::Result<Child> {
    let bytes = (RATE_MBPS * options.seconds * 1_000_000 / 8) as f64 * GOODPUT_SHARE;
    let requests = (bytes as usize / OBJECT_BYTES).to_string();
    let clients = options.connections.to_string();
    let mut command = Command::new(sibling("edge-client"));
    command.args([&format!("https://{path}/object"), "--insecure", "--json"]);
    command.args(["--requests", &requests, "--clients", &clients]);
    command.args(["--sha256", &home.sha256, "--connect-timeout", HANDSHAKE_TIMEOUT_S]);
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

/// Returns the relative growth of memory from the first fifth of the samples to the last.
fn growth(memory_kib: &[usize]) -> Option<f64> {
    let fifth = memory_kib.len() / 5;
    let median = |part: &[usize]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map(|kib| *kib as f64)
    };
    let (first, last) = (&memory_kib[..fifth], &memory_kib[memory_kib.len() - fifth..]);
    Some(median(last)? / median(first)? - 1.0)
}

/// Measures the memory of an idle connection, in bytes.
fn idle_bytes(home: &Home, connections: usize) -> anyhow::Result<usize> {
    let timeout = IDLE_TIMEOUT_S.to_string();
    let mut server = home.serve("127.0.0.1:0".parse()?, &["--idle-timeout", &timeout]);
    let address = server.address();
    for mut client in open(address, WARM_UP_CONNECTIONS) {
        client.close();
    }
    thread::sleep(IDLE_TIME);
    let before = server.memory_kib("VmRSS");
    let mut clients = open(address, connections);
    thread::sleep(IDLE_TIME);
    let kib = server.memory_kib("VmRSS") - before;
    for client in &mut clients {
        ensure!(client.get("/object").body.len() == OBJECT_BYTES, "an idle connection was lost");
    }
    ensure!(server.stop().success(), "the server failed");
    Ok(kib * 1024 / connections)
}

/// Opens connections and downloads once on each.
fn open(address: SocketAddr, count: usize) -> Vec<UdpClient> {
    let limits = ClientLimits {
        idle_timeout: Duration::from_secs(IDLE_TIMEOUT_S),
        ..ClientLimits::default()
    };
    let open_one = || {
        let mut client = UdpClient::connect_with(address, limits);
        assert_eq!(client.get("/object").body.len(), OBJECT_BYTES);
        client.settle();
        client
    };
    thread::scope(|scope| {
        let share = |thread| (thread..count).step_by(THREADS);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || share(thread).map(|_| open_one()).collect()))
            .collect();
        let opened = threads.into_iter().map(|thread| thread.join().expect("connections"));
        opened.flat_map(|clients: Vec<UdpClient>| clients).collect()
    })
}

/// Raises the limit on open files: each connection has a socket.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

fn main() -> anyhow::Result<ExitCode> {
    let options = LoadOptions::parse();
    raise_file_limit();
    let home = Home::new()?;

    let Load { summary, memory_kib } = load(&home, &options)?;
    println!("{summary}");
    let count = |what: &str| summary[what].as_u64().context("no summary");
    let complete = count("bytes")? == count("requests")? * OBJECT_BYTES as u64;
    let succeeded = count("failed")? == 0 && complete;
    let growth = growth(&memory_kib).context("the load was too short to sample its memory")?;
    println!("memory grew by {:.1} % in the last half", growth * 100.0);
    let idle = idle_bytes(&home, options.connections)?;
    println!("an idle connection takes {idle} bytes");

    let passes = succeeded && growth <= GROWTH_MAX && idle <= IDLE_BYTES_MAX;
    println!("{}", if passes { "passed" } else { "FAILED" });
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
