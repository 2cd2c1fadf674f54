//! Pacing of a jump, measured by the arrival times of its packets on the path.
//!
//!     cargo bench -p edge-server --bench jump_pacing [-- --runs 5]
//!
//! Method: the release server sends an object over link-emulator to a client, with saved parameters
//! of one bandwidth-delay product in its store. The emulator records the kernel's time stamp of
//! each packet. The server's qlog names the packets of the unvalidated phase, the jump_cwnd and the
//! RTT.
//!
//! Passes if, on every path, the bytes in any 1/8 RTT between the first and the last packet of the
//! phase are within 10 % or 2 packets of jump_cwnd / 8 (RFC 9959, 3.3 and 4.3.2). Of each run the
//! fullest and the emptiest window count, of all runs the median. Scheduling delays of a busy
//! machine make the jump uneven, unless the bench runs with `chrt -r 1`. Needs the other programs:
//! `make build`.

#[path = "support/jump.rs"]
mod jump;
#[expect(dead_code, reason = "the process tests use the rest")]
#[path = "../tests/process/support/lab.rs"]
mod lab;
#[expect(dead_code, reason = "the process tests use the rest")]
#[path = "../tests/process/support/process.rs"]
mod process;
#[path = "support/windows.rs"]
mod windows;

use crate::jump::Jump;
use crate::lab::emulate;
use crate::lab::fetch;
use crate::lab::Planted;
use crate::lab::StoreFolder;
use crate::windows::Windows;
use anyhow::ensure;
use clap::Parser;
use std::process::ExitCode;

/// Length of a window, as a fraction of the RTT.
const RTT_DIVISOR: u64 = 8;

/// Largest error of the bytes in a window, relative or in bytes.
const ERROR_MAX: f64 = 0.1;
const ERROR_MAX_BYTES: f64 = 2.0 * 1350.0;

/// Measures how evenly a jump is paced.
#[derive(Clone, Debug, Parser)]
struct PacingOptions {
    /// Connections over each path; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,

    /// Passed by cargo to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// Emulated path and the size of the download over it.
struct EmulatedPath {
    name: &'static str,
    rate_mbps: u64,
    rtt_ms: u64,
    object_bytes: u64,
}

const PATHS: [EmulatedPath; 2] = [
    EmulatedPath { name: "500 Mbit/s, 50 ms", rate_mbps: 500, rtt_ms: 50, object_bytes: 6_250_000 },
    EmulatedPath {
        name: "GEO 50 Mbit/s, 600 ms",
        rate_mbps: 50,
        rtt_ms: 600,
        object_bytes: 3_750_000,
    },
];

impl EmulatedPath {
    fn bdp_bytes(&self) -> u64 {
        self.rate_mbps * self.rtt_ms * 1000 / 8
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = PacingOptions::parse();
    let mut passes = true;
    for path in &PATHS {
        println!(
            "{}: bytes in 1/{RTT_DIVISOR} RTT, as a share of jump_cwnd / {RTT_DIVISOR}",
            path.name
        );
        println!("{:<8} {:>8} {:>8} {:>8}", "", "min", "median", "max");
        let runs = (1..=options.runs).map(|run| measure(path, run));
        let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
        passes &= evaluate(&runs);
    }
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures one connection that jumps.
fn measure(path: &EmulatedPath, run: usize) -> anyhow::Result<Windows> {
    let folder = StoreFolder::new();
    folder.plant(Planted::new(path.bdp_bytes(), path.rtt_ms));
    let trace = folder.file("trace.csv");
    let (mut server, address) = folder.serve("qlog", &[]);
    let EmulatedPath { rate_mbps, rtt_ms, .. } = path;
    let (buffer_bytes, file) = (path.bdp_bytes(), trace.display());
    let mut emulator = emulate(
        address,
        &format!("--rate {rate_mbps} --rtt {rtt_ms} --buffer {buffer_bytes} --trace {file}"),
    );
    let (status, output) = fetch(emulator.address(), path.object_bytes).end();
    ensure!(status.success(), "the download failed: {output:?}");
    ensure!(server.stop().success(), "the server failed");
    ensure!(emulator.stop().success(), "the emulator failed, or its trace has gaps");

    let jump = Jump::new(&folder.qlog("qlog"), &std::fs::read_to_string(&trace)?)?;
    let windows =
        Windows::new(&jump.packets, jump.rtt_ns / RTT_DIVISOR, jump.jump_cwnd / RTT_DIVISOR)?;
    let shares = windows.shares();
    println!(
        "run {run:<4} {:>8.3} {:>8.3} {:>8.3}   jump_cwnd {} bytes, RTT {:.1} ms, {} packets, {}",
        shares[0],
        shares[1],
        shares[2],
        jump.jump_cwnd,
        jump.rtt_ns as f64 / 1e6,
        jump.packets.len(),
        windows.bursts(),
    );
    Ok(windows)
}

/// Prints the medians of the runs. Returns whether they are within the limit.
fn evaluate(runs: &[Windows]) -> bool {
    let median = |of: fn(&Windows) -> f64| windows::median(runs.iter().map(of).collect());
    let shares = [median(|w| w.shares()[0]), median(|w| w.shares()[1]), median(|w| w.shares()[2])];
    let expected_bytes = median(|w| w.expected_bytes as f64);
    let error_max = ERROR_MAX.max(ERROR_MAX_BYTES / expected_bytes);
    let passes = shares.iter().all(|share| (share - 1.0).abs() <= error_max);
    let result = if passes { "within" } else { "FAILED: off by more than" };
    println!(
        "median   {:>8.3} {:>8.3} {:>8.3}   {result} {:.1} %\n",
        shares[0],
        shares[1],
        shares[2],
        error_max * 100.0
    );
    passes
}
