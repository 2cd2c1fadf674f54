//! Stalled origin: goodput of downloads over HTTP/3 while 500 requests wait for an origin that never
//! responds.
//!
//!     cargo bench -p edge-server --bench stalled_origin [-- --requests 500 --rounds 5]
//!
//! Method: as that of initial_flood. Rounds with and without the requests follow each other. Passes if
//! the median round keeps 95 % of its goodput. Needs the other programs: `make build`.

#[path = "support/downloads.rs"]
mod downloads;
#[path = "../tests/process/support/process.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod process;
#[path = "../tests/process/support/waiting.rs"]
mod waiting;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;

use crate::downloads::emulated_path;
use crate::downloads::measure_goodput;
use crate::downloads::CLIENTS;
use crate::process::serve;
use crate::waiting::StalledOrigin;
use crate::waiting::WaitingRequests;

/// Smallest share of the goodput that passes.
const GOODPUT_SHARE_MIN: f64 = 0.95;

const NAP: Duration = Duration::from_millis(20);

/// Measures downloads without and with requests that wait for an origin.
#[derive(Clone, Debug, Parser)]
struct StalledOriginOptions {
    /// Requests that wait
    #[arg(long, default_value_t = 500)]
    requests: usize,

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

fn main() -> anyhow::Result<ExitCode> {
    let options = StalledOriginOptions::parse();
    let origin = StalledOrigin::start();
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("index.html"), "home")?;
    let config = dir.path().join("edge.toml");
    let rule = format!(
        "[[host]]\n[[host.origin]]\npath = '/app/**'\nurl = 'http://{}'\nrequests-max = {}\n\
         header-timeout = 3600\n",
        origin.address,
        4 * options.requests
    );
    std::fs::write(&config, rule)?;
    let config = config.to_string_lossy();
    let more = ["--speedtest", "--resume", "off", "--tcp", "on", "--config", &config];
    let (mut server, address) = serve(dir.path(), &more);
    let (_emulator, path) = emulated_path(address);
    let mut shares = Vec::new();
    for _ in 0..options.rounds {
        let alone = measure_goodput(path, options.seconds, || ())?;
        let before = origin.requests();
        let waiting = WaitingRequests::send(address, "/app/", options.requests);
        while origin.requests() < before + options.requests {
            thread::sleep(NAP);
        }
        let beside = measure_goodput(path, options.seconds, || ())?;
        drop(waiting);
        println!(
            "{CLIENTS} downloads: {alone:.1} Mbit/s alone, {beside:.1} Mbit/s beside {} requests that \
             wait: {:.3}",
            origin.requests() - before,
            beside / alone
        );
        shares.push(beside / alone);
    }
    shares.sort_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    let passes = median >= GOODPUT_SHARE_MIN && server.stop().success();
    println!(
        "median {median:.3}, limit {GOODPUT_SHARE_MIN}: {}",
        if passes { "passed" } else { "FAILED" }
    );
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
