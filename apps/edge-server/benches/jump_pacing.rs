//! Pacing of a jump's packets, as the path sees it.
//!
//!     cargo bench -p edge-server --bench jump_pacing [-- --runs 5]
//!
//! Method: the release server sends an object over link-emulator to a client,
//! with a set of one bandwidth-delay product planted in its store. The emulator
//! writes the kernel's time stamp of each packet; the server's qlog tells which
//! packets it sent in the unvalidated phase, its jump_cwnd and its RTT.
//!
//! Passes when, on every path, the bytes in any 1/8 RTT between the first and
//! the last packet of the phase are within 10 % or 2 packets of jump_cwnd / 8
//! (RFC 9959, 3.3 and 4.3.2): the fullest and the emptiest of all windows, the
//! median of the runs. The machine's part in it is the time that a process waits
//! for a processor: on a busy one the jump is as uneven as that, unless the bench
//! runs with `chrt -r 1`. Needs the other programs: `make build`.

#[path = "../tests/process/support/jump.rs"]
mod jump;
#[expect(dead_code, reason = "the tests of the process use the rest")]
#[path = "../tests/process/support/lab.rs"]
mod lab;
#[expect(dead_code, reason = "the tests of the process use the rest")]
#[path = "../tests/process/support/process.rs"]
mod process;
#[path = "../tests/process/support/windows.rs"]
mod windows;

use crate::jump::Jump;
use crate::lab::emulate;
use crate::lab::fetch;
use crate::lab::Lab;
use crate::lab::Planted;
use crate::windows::Windows;
use anyhow::ensure;
use clap::Parser;
use std::process::ExitCode;

/// Windows of this share of the RTT are looked at.
const RTT_DIVISOR: u64 = 8;

/// How far the bytes of a window may be off.
const ERROR_MAX: f64 = 0.1;
const ERROR_MAX_BYTES: f64 = 2.0 * 1350.0;

/// Measures how evenly a jump leaves.
#[derive(Clone, Debug, Parser)]
struct Cli {
    /// Connections over each path; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,

    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// An emulated path, and what is downloaded over it.
struct Path {
    name: &'static str,
    rate_mbps: u64,
    rtt_ms: u64,
    object_bytes: u64,
}

const PATHS: [Path; 2] = [
    Path { name: "500 Mbit/s, 50 ms", rate_mbps: 500, rtt_ms: 50, object_bytes: 6_250_000 },
    Path { name: "GEO 50 Mbit/s, 600 ms", rate_mbps: 50, rtt_ms: 600, object_bytes: 3_750_000 },
];

impl Path {
    fn bdp_bytes(&self) -> u64 {
        self.rate_mbps * self.rtt_ms * 1000 / 8
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut good = true;
    for path in &PATHS {
        println!(
            "{}: bytes in 1/{RTT_DIVISOR} RTT, as a share of jump_cwnd / {RTT_DIVISOR}",
            path.name
        );
        println!("{:<8} {:>8} {:>8} {:>8}", "", "min", "median", "max");
        let runs = (1..=cli.runs).map(|run| measure(path, run));
        let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
        good &= judge(&runs);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One connection that jumps.
fn measure(path: &Path, run: usize) -> anyhow::Result<Windows> {
    let lab = Lab::new();
    lab.plant(Planted::new(path.bdp_bytes(), path.rtt_ms));
    let trace = lab.file("trace.csv");
    let (mut server, address) = lab.serve("qlog", &[]);
    let Path { rate_mbps, rtt_ms, .. } = path;
    let (buffer_bytes, file) = (path.bdp_bytes(), trace.display());
    let mut emulator = emulate(
        address,
        &format!("--rate {rate_mbps} --rtt {rtt_ms} --buffer {buffer_bytes} --trace {file}"),
    );
    let (status, said) = fetch(emulator.address(), path.object_bytes).end();
    ensure!(status.success(), "the download failed: {said:?}");
    ensure!(server.stop().success(), "the server failed");
    ensure!(emulator.stop().success(), "the emulator failed, or its trace has gaps");

    let seen = Jump::new(&lab.qlog("qlog"), &std::fs::read_to_string(&trace)?)?;
    let windows =
        Windows::new(&seen.packets, seen.rtt_ns / RTT_DIVISOR, seen.jump_cwnd / RTT_DIVISOR)?;
    let shares = windows.shares();
    println!(
        "run {run:<4} {:>8.3} {:>8.3} {:>8.3}   jump_cwnd {} bytes, RTT {:.1} ms, {} packets, {}",
        shares[0],
        shares[1],
        shares[2],
        seen.jump_cwnd,
        seen.rtt_ns as f64 / 1e6,
        seen.packets.len(),
        windows.bursts(),
    );
    Ok(windows)
}

/// Prints the medians of the runs, and whether they are within the bound.
fn judge(runs: &[Windows]) -> bool {
    let median = |of: fn(&Windows) -> f64| windows::median(runs.iter().map(of).collect());
    let shares = [median(|w| w.shares()[0]), median(|w| w.shares()[1]), median(|w| w.shares()[2])];
    let expected_bytes = median(|w| w.expected_bytes as f64);
    let error_max = ERROR_MAX.max(ERROR_MAX_BYTES / expected_bytes);
    let good = shares.iter().all(|share| (share - 1.0).abs() <= error_max);
    let verdict = if good { "within" } else { "FAILED: off by more than" };
    println!(
        "median   {:>8.3} {:>8.3} {:>8.3}   {verdict} {:.1} %\n",
        shares[0],
        shares[1],
        shares[2],
        error_max * 100.0
    );
    good
}
