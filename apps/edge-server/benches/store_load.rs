//! Cost of the store under load: 200 new connections a second from 200 subnets, with each kind of
//! store and without.
//!
//!     cargo bench -p edge-server --bench store_load [-- --pairs 6 --seconds 8]
//!
//! Method: eight threads open connections at fixed times, each from the next subnet, and download
//! 50 kB. Every connection reads, claims and records its subnet's path state. Runs with a store
//! alternate with runs with `--resume off`. Processor time is that of the server process, including
//! its store thread and the pacing that Careful Resume needs.
//!
//! Passes if, for each kind of store, every download succeeds and the loss of throughput is at most
//! twice its standard error, or 1 %.

#[path = "../tests/process/support/client.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod client;
#[path = "../tests/process/support/process.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod process;
#[path = "../../path-store/tests/support/redis.rs"]
#[expect(dead_code, reason = "the store tests use the rest")]
mod redis;

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use clap::Parser;

use crate::client::ClientLimits;
use crate::client::UdpClient;
use crate::process::serve;
use crate::redis::RedisServer;

const SUBNETS: u32 = 200;
const CONNECTIONS_PER_S: u32 = 200;
const THREADS: u32 = 8;
const OBJECT_BYTES: usize = 50_000;

/// Largest delay of a download's end; beyond it the machine is too slow.
const LATE_MAX: Duration = Duration::from_secs(5);

/// Compares a server with a store to one without.
#[derive(Clone, Debug, Parser)]
struct StoreLoadOptions {
    /// Pairs of runs, for each kind of store
    #[arg(long, default_value_t = 6)]
    pairs: usize,

    /// Duration of a run
    #[arg(long, default_value_t = 8)]
    seconds: u32,

    /// Passed by cargo to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
struct RunResult {
    bytes_per_s: f64,

    /// Processor time of the server for each connection.
    cpu_us: f64,

    /// Time to the last byte: median and 99th percentile.
    p50_ms: f64,
    p99_ms: f64,
}

fn run(store: &[&str], seconds: u32) -> RunResult {
    let folder = tempfile::tempdir().expect("a folder");
    let more = [&["--speedtest"], store].concat();
    let (server, address) = serve(folder.path(), &more);
    // Fills the store before the measurement.
    drive(address, 1);
    let cpu_before = cpu_time(server.id());
    let start = quiche::clock::now();
    let mut times = drive(address, seconds);
    let elapsed = quiche::clock::now() - start;
    let cpu = cpu_time(server.id()) - cpu_before;

    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    RunResult {
        bytes_per_s: (times.len() * OBJECT_BYTES) as f64 / elapsed.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / times.len() as f64,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
    }
}

/// Returns the processor time of a process, all threads together.
fn cpu_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // The name, in parentheses, may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap_or(0));
    let per_s = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks.sum::<u64>() as f64 / per_s as f64)
}

/// Opens connections for `seconds`. Returns the duration of each download from its scheduled time.
fn drive(server: SocketAddr, seconds: u32) -> Vec<Duration> {
    let start = quiche::clock::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || drive_one(server, seconds, thread, start)))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("downloads")).collect()
    })
}

fn drive_one(server: SocketAddr, seconds: u32, thread: u32, start: Instant) -> Vec<Duration> {
    let limits = ClientLimits { idle_timeout: Duration::from_secs(30), ..ClientLimits::default() };
    let mine = (thread..CONNECTIONS_PER_S * seconds).step_by(THREADS as usize);
    mine.map(|n| {
        let due = start + Duration::from_secs(1) * n / CONNECTIONS_PER_S;
        std::thread::sleep(due.saturating_duration_since(quiche::clock::now()));
        let from = Ipv4Addr::from_bits(0x7f01_0001 + ((n % SUBNETS) << 8));
        let mut client = UdpClient::connect_from(from, server, limits);
        let body = client.get(&format!("/bytes/{OBJECT_BYTES}")).body;
        assert_eq!(body.len(), OBJECT_BYTES);
        client.close();
        let took = quiche::clock::now() - due;
        assert!(took < LATE_MAX, "the machine is too slow: {took:?}");
        took
    })
    .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the standard error of the mean.
fn error_of_mean(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0).max(1.0) / values.len() as f64).sqrt()
}

fn compare(name: &str, store: &[&str], options: &StoreLoadOptions) -> bool {
    let mut runs = Vec::new();
    for pair in 0..options.pairs {
        // The order alternates, so that warm-up effects cancel out.
        let with_first = pair % 2 == 0;
        let first = run(if with_first { store } else { &["--resume", "off"] }, options.seconds);
        let second = run(if with_first { &["--resume", "off"] } else { store }, options.seconds);
        runs.push(if with_first { (first, second) } else { (second, first) });
    }
    let ratios: Vec<f64> =
        runs.iter().map(|(with, without)| with.bytes_per_s / without.bytes_per_s - 1.0).collect();
    let cpu: Vec<f64> = runs.iter().map(|(with, without)| with.cpu_us - without.cpu_us).collect();
    let with: Vec<RunResult> = runs.iter().map(|(with, _)| *with).collect();
    let off: Vec<RunResult> = runs.iter().map(|(_, without)| *without).collect();
    let means = |runs: &[RunResult], of: fn(&RunResult) -> f64| {
        mean(&runs.iter().map(of).collect::<Vec<_>>())
    };
    let lost = -mean(&ratios);
    let error = error_of_mean(&ratios);
    println!(
        "| {name} | {:.2} MB/s | {:+.2} ± {:.2} % | {:.0} µs | {:+.0} ± {:.0} µs | {:.1}, off {:.1} | {:.1}, off {:.1} |",
        means(&with, |run| run.bytes_per_s) / 1e6,
        -lost * 1e2,
        error * 1e2,
        means(&with, |run| run.cpu_us),
        mean(&cpu),
        error_of_mean(&cpu),
        means(&with, |run| run.p50_ms),
        means(&off, |run| run.p50_ms),
        means(&with, |run| run.p99_ms),
        means(&off, |run| run.p99_ms),
    );
    lost <= (2.0 * error).max(0.01)
}

fn main() -> ExitCode {
    let options = StoreLoadOptions::parse();
    let folder = tempfile::tempdir().expect("a folder");
    let redis = RedisServer::start(&[]);
    let (file, url) = (folder.path().join("paths.db"), redis.url());
    let file = file.to_str().expect("a path of text");

    println!("| store | served | against off | processor a connection | more than off | median, ms | p99, ms |");
    println!("|---|---|---|---|---|---|---|");
    let mut passes = true;
    for (name, store) in [("memory", "memory:"), ("disk", file), ("redis", &url)] {
        passes &= compare(name, &["--store", store], &options);
    }
    println!("{}", if passes { "passed" } else { "FAILED: a store costs throughput" });

    if passes {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
