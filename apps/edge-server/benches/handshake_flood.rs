//! Handshake flood: goodput of downloads over HTTP/3 while clients over TCP do nothing but handshakes.
//!
//!     cargo bench -p edge-server --bench handshake_flood [-- --rate 2000 --rounds 5]
//!
//! Method: as that of initial_flood. Rounds with and without the flood follow each other. Passes if
//! the median round keeps 95 % of its goodput, and a client over TCP is served at the end. Needs the
//! other programs: `make build`.

#[path = "support/downloads.rs"]
mod downloads;
#[path = "../tests/process/support/process.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod process;

use std::net::SocketAddr;
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;
use clap::Parser;
use quiche::clock;

use crate::downloads::emulated_path;
use crate::downloads::measure_goodput;
use crate::downloads::CLIENTS;
use crate::process::serve;

/// Smallest share of the goodput that passes.
const GOODPUT_SHARE_MIN: f64 = 0.95;

/// Threads of the flood.
const THREADS: u64 = 4;

/// Measures downloads without and with a flood of TLS handshakes over TCP.
#[derive(Clone, Debug, Parser)]
struct FloodOptions {
    /// Handshakes a second
    #[arg(long, default_value_t = 2000)]
    rate: u64,

    /// Duration of the downloads of a round, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,

    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Passed by cargo to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// Does a handshake, and leaves. Returns whether the server took part.
fn handshake(server: SocketAddr, connector: &SslConnector) -> bool {
    let configuration = connector.configure().map(|settings| settings.verify_hostname(false));
    let stream = TcpStream::connect(server);
    configuration
        .ok()
        .zip(stream.ok())
        .is_some_and(|(settings, stream)| settings.connect("localhost", stream).is_ok())
}

/// Does so many handshakes a second, as far as the machine can, until it is over.
fn flood(server: SocketAddr, per_second: u64, is_over: &AtomicBool, done: &AtomicU64) {
    let mut connector = SslConnector::builder(SslMethod::tls()).expect("no memory for TLS");
    connector.set_verify(SslVerifyMode::NONE);
    let connector = connector.build();
    let pause = Duration::from_secs(THREADS).div_f64(per_second as f64);
    let mut next = clock::now();
    while !is_over.load(Ordering::Relaxed) {
        done.fetch_add(u64::from(handshake(server, &connector)), Ordering::Relaxed);
        next = (next + pause).max(clock::now());
        thread::sleep(next.saturating_duration_since(clock::now()));
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = FloodOptions::parse();
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("index.html"), "home")?;
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--resume", "off"]);
    let (_emulator, path) = emulated_path(address);
    let done = AtomicU64::new(0);
    let mut shares = Vec::new();
    for _ in 0..options.rounds {
        let alone = measure_goodput(path, options.seconds, || ())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let before = done.load(Ordering::Relaxed);
        let started = clock::now();
        let flooded = thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| flood(address, options.rate, &is_over, &done));
            }
            let flooded = measure_goodput(path, options.seconds, || ());
            is_over.store(true, Ordering::Relaxed);
            flooded
        })?;
        let handshakes = (done.load(Ordering::Relaxed) - before) as f64;
        let per_second = handshakes / (clock::now() - started).as_secs_f64();
        println!(
            "{CLIENTS} downloads: {alone:.1} Mbit/s alone, {flooded:.1} Mbit/s beside {per_second:.0} \
             handshakes a second: {:.3}",
            flooded / alone
        );
        shares.push(flooded / alone);
    }
    shares.sort_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    let mut connector = SslConnector::builder(SslMethod::tls())?;
    connector.set_verify(SslVerifyMode::NONE);
    let is_served = handshake(address, &connector.build());
    let passes = median >= GOODPUT_SHARE_MIN && is_served && server.stop().success();
    println!(
        "median {median:.3}, limit {GOODPUT_SHARE_MIN}: {}",
        if passes { "passed" } else { "FAILED" }
    );
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
