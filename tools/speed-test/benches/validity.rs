//! Validity of the simulator: the same downloads by real processes over link-emulator, and simulated.
//!
//!     make validity-check
//!
//! Method: slow start, and Careful Resume with parameters that were put into the store, over the paths
//! of [`cases`]; medians of a few downloads by edge-server and edge-client, and of as many seeds of the
//! simulator. Two figures tell of this machine, for each kind of download:
//!
//! - jitter, which the simulator is given: twice the mean by which packets left the emulator late, both
//!   directions together, since jitter is drawn evenly from 0 on;
//! - host time, which is added to the simulated time: by how much the first byte comes later than simulated.
//!   The simulator has no processor, which signs and verifies in the handshake. It must be less than a
//!   quarter of the RTT: more would be a round trip that the simulator lacks.
//!
//! Downloads that this machine disturbed are made again once, and do not count if they are disturbed
//! again. The emulator does not see that client or server were late: what is apart is measured once more.
//!
//! Passes when each median time is within [`TIME_TOLERANCE`] of the simulated one, and where both lose more
//! than [`LOST_PACKETS_MIN`] packets, the medians of these are within a factor of [`LOST_FACTOR`].

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use clap::Parser;
use report::bound::bdp_bytes;
use report::qlog;
use report::stats::median;
use sim::outcome::FlowOutcome;
use sim::scenario::Scenario;
use speed_test::client_report::ClientReport;
use speed_test::emulator_report::EmulatorReport;
use speed_test::path::parse_own_path;
use speed_test::path::parse_path;
use speed_test::path::PathSpec;
use speed_test::process::Programs;
use speed_test::process::Running;

/// By what share a median time may differ.
const TIME_TOLERANCE: f64 = 0.03;

/// Most of the host time, as a part of the RTT.
const HOST_RTT_PART: f64 = 0.25;

/// With fewer losses, their ratio says nothing.
const LOST_PACKETS_MIN: f64 = 20.0;

/// By what factor the lost packets may differ.
const LOST_FACTOR: f64 = 1.5;

/// The client's address, and its subnet and the server's address in the store.
const CLIENT: &str = "127.77.1.1";
const SUBNET: &str = "127.77.1.0/24";
const SENDER: &str = "127.0.0.1";

/// Time for one download.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compares the simulator with real processes.
#[derive(Debug, Parser)]
#[command(name = "validity")]
struct ValidityArgs {
    /// Number of downloads of each kind, and of seeds
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,

    /// Only the paths whose names contain this
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,

    /// Folder of the programs
    #[arg(long, value_name = "DIR", default_value = "target/release")]
    programs: PathBuf,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A path, and what the store knows of it.
struct Case {
    path: PathSpec,
    saved_cwnd_bdp: f64,
}

/// Median figures of one kind of download.
struct Medians {
    ttfb_ms: f64,
    ttlb_ms: f64,
    lost_packets: f64,
}

/// One real download.
struct RealDownload {
    ttfb_ms: f64,
    ttlb_ms: f64,
    lost_packets: u64,
    /// By how much its packets left the emulator late, on average, both ways.
    late_ms: f64,
    is_disturbed: bool,
}

fn main() -> ExitCode {
    match run(&ValidityArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("validity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &ValidityArgs) -> anyhow::Result<()> {
    // Cargo runs benches in the package's folder.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = Programs::in_folder(&root.join(&args.programs))?;
    println!(
        "{:58} {:14} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6} {:>9} {:>7} {:>4}",
        "",
        "",
        "real ms",
        "sim ms",
        "ratio",
        "lost",
        "sim",
        "ratio",
        "jitter ms",
        "host ms",
        "runs"
    );
    let mut failures = Vec::new();
    for case in cases()? {
        if case.path.title.contains(&args.only) {
            for mode in ["slow-start", "careful-resume"] {
                let apart = compare(args, &programs, &case, mode)?;
                if !apart.is_empty() {
                    println!("once more, since a busy moment may be the reason:");
                    failures.extend(compare(args, &programs, &case, mode)?);
                }
            }
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    println!("all times within {:.0} %", TIME_TOLERANCE * 100.0);
    Ok(())
}

/// Returns speed-test's paths but the longest download, and paths that drop packets: a small buffer, and a
/// jump that the path does not hold.
fn cases() -> anyhow::Result<Vec<Case>> {
    let named = ["500M", "LEO", "GEO", "GEO-1MB", "fibre", "5G", "LEO-150M", "terrestrial"];
    let own =
        [("100,60,0.25bdp,10bdp", 1.0), ("100,60,0.5bdp,10bdp", 1.0), ("100,60,0.25bdp,5MB", 3.0)];
    let named = named.map(|name| (parse_path(name), 1.0));
    let own = own.map(|(path, saved_cwnd_bdp)| (parse_own_path(path), saved_cwnd_bdp));
    let cases = named.into_iter().chain(own).map(|(path, saved_cwnd_bdp)| {
        let mut path = path.map_err(anyhow::Error::msg)?;
        if saved_cwnd_bdp > 1.0 {
            path.title = format!("{}, saved {saved_cwnd_bdp} BDP", path.title).into();
        }
        Ok(Case { path, saved_cwnd_bdp })
    });
    cases.collect()
}

/// Prints a line of the table. Returns what is apart.
fn compare(
    args: &ValidityArgs,
    programs: &Programs,
    case: &Case,
    mode: &str,
) -> anyhow::Result<Vec<String>> {
    let what = format!("{}, {mode}", case.path.title);
    let download = || undisturbed(programs, case, mode).with_context(|| what.clone());
    let all: Vec<_> = (0..args.runs).map(|_| download()).collect::<anyhow::Result<_>>()?;
    let valid: Vec<_> = all.into_iter().filter(|download| !download.is_disturbed).collect();
    let of = |figure: &dyn Fn(&RealDownload) -> f64| median(valid.iter().map(figure));
    let (Some(late_ms), Some(ttfb_ms), Some(ttlb_ms), Some(lost_packets)) = (
        of(&|d| d.late_ms),
        of(&|d| d.ttfb_ms),
        of(&|d| d.ttlb_ms),
        of(&|d| d.lost_packets as f64),
    ) else {
        return Ok(vec![format!("{what}: this machine disturbed every run")]);
    };
    let real = Medians { ttfb_ms, ttlb_ms, lost_packets };
    let jitter_ms = 2.0 * late_ms;
    let simulated = simulate(args, case, mode, jitter_ms).with_context(|| what.clone())?;
    let host_ms = real.ttfb_ms - simulated.ttfb_ms;
    let ratio = real.ttlb_ms / (simulated.ttlb_ms + host_ms);
    let both_lose = real.lost_packets.min(simulated.lost_packets) > LOST_PACKETS_MIN;
    let lost_ratio = both_lose.then_some(real.lost_packets / simulated.lost_packets);
    println!(
        "{:58} {mode:14} {:>8.1} {:>8.1} {ratio:>6.3} {:>6.0} {:>6.0} {:>6} {jitter_ms:>9.2} \
         {host_ms:>7.1} {:>4}",
        case.path.title,
        real.ttlb_ms,
        simulated.ttlb_ms,
        real.lost_packets,
        simulated.lost_packets,
        lost_ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        valid.len(),
    );
    let mut apart = Vec::new();
    if !(0.0..HOST_RTT_PART * case.path.rtt_ms).contains(&host_ms) {
        apart.push(format!("{what}: first bytes are apart by {host_ms:+.1} ms"));
    }
    if (ratio - 1.0).abs() > TIME_TOLERANCE {
        apart.push(format!("{what}: times are apart by {:+.1} %", (ratio - 1.0) * 100.0));
    }
    if lost_ratio.is_some_and(|ratio| ratio.max(1.0 / ratio) > LOST_FACTOR) {
        apart.push(format!("{what}: losses are apart"));
    }
    Ok(apart)
}

/// Simulates the downloads.
fn simulate(
    args: &ValidityArgs,
    case: &Case,
    mode: &str,
    jitter_ms: f64,
) -> anyhow::Result<Medians> {
    let Case { path, saved_cwnd_bdp } = case;
    let scenario: Scenario = serde_json::from_value(serde_json::json!({
        "path": {
            "rate_mbps": path.rate_mbps,
            "rtt_ms": path.rtt_ms,
            "buffer_bdp": path.buffer_bytes() as f64 / bdp_bytes(path.rate_mbps, path.rtt_ms),
            "jitter_ms": jitter_ms,
        },
        "flow": [{
            "mode": mode,
            "object_bytes": path.object_bytes,
            "saved": { "cwnd_bdp": saved_cwnd_bdp },
        }],
    }))?;
    let runs = (1..=args.runs).map(|seed| Ok(sim::world::run(&scenario, seed.into())?.flows));
    let flows = runs.collect::<anyhow::Result<Vec<_>>>()?.concat();
    let of =
        |figure: &dyn Fn(&FlowOutcome) -> f64| median(flows.iter().map(figure)).context("no runs");
    Ok(Medians {
        ttfb_ms: of(&|flow| flow.ttfb_ms)?,
        ttlb_ms: of(&|flow| flow.ttlb_ms)?,
        lost_packets: of(&|flow| flow.lost_packets as f64)?,
    })
}

/// Downloads once more if this machine disturbed the first download.
fn undisturbed(programs: &Programs, case: &Case, mode: &str) -> anyhow::Result<RealDownload> {
    match download(programs, case, mode)? {
        disturbed if disturbed.is_disturbed => download(programs, case, mode),
        fine => Ok(fine),
    }
}

/// Downloads with processes of their own, as speed-test does, and with a store that knows the path.
fn download(programs: &Programs, case: &Case, mode: &str) -> anyhow::Result<RealDownload> {
    let path = &case.path;
    let folder = tempfile::tempdir()?;
    let stop = Arc::new(AtomicBool::new(false));
    let resumes = mode == "careful-resume";
    let store = folder.path().join("paths.db");
    let logs = folder.path().join("qlog");
    fs::create_dir(&logs)?;
    let mut command = Command::new(&programs.server);
    command.args(["--listen", "127.0.0.1:0", "--speedtest", "--root"]).arg(folder.path());
    command.args(["--cc", "cubic", "--pmtud", "off", "--drain", "0"]);
    command.args(["--resume", if resumes { "on" } else { "off" }]);
    command.arg("--store").arg(&store).arg("--qlog-dir").arg(&logs);
    let mut server = Running::start(&mut command, &stop)?;
    let server_address = server.listening_on()?;
    if resumes {
        save(programs, case, &store, &stop)?;
    }
    let mut emulator = Running::start(&mut emulator(programs, path, server_address), &stop)?;
    let address = emulator.listening_on()?;

    let url = format!("https://speed.test/bytes/{}", path.object_bytes);
    let mut command = Command::new(&programs.client);
    command.args([&url, "--json", "--insecure", "--local", CLIENT]);
    command.args(["--connect", &address.to_string()]);
    let report = Running::start(&mut command, &stop)?.finish(PATIENCE)?;
    let ClientReport { ttfb_ms, ttlb_ms, .. } = ClientReport::parse(&report, path.object_bytes)?;
    // The end of the connection is on its way to the server.
    thread::sleep(Duration::from_secs_f64(path.rtt_ms / 1000.0));
    server.stop()?;
    let emulated = EmulatorReport::parse(&emulator.stop_anyhow()?).context("no totals")?;
    let log = fs::read_dir(&logs)?.next().context("no qlog")??;
    Ok(RealDownload {
        ttfb_ms,
        ttlb_ms,
        lost_packets: qlog::read(&log.path())?.lost_packets(),
        late_ms: emulated.mean_late_ms(),
        is_disturbed: emulated.is_disturbed(),
    })
}

fn emulator(programs: &Programs, path: &PathSpec, server: SocketAddr) -> Command {
    let mut command = Command::new(&programs.emulator);
    command.args(["--listen", "127.0.0.1:0", "--to", &server.to_string()]);
    command.args(["--rate", &path.rate_mbps.to_string(), "--rtt", &path.rtt_ms.to_string()]);
    command.args(["--buffer", &path.buffer_bytes().to_string()]);
    command
}

/// Puts the parameters into the store, which the server has created.
fn save(
    programs: &Programs,
    case: &Case,
    store: &Path,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let PathSpec { rate_mbps, rtt_ms, .. } = case.path;
    let cwnd_bytes = (case.saved_cwnd_bdp * bdp_bytes(rate_mbps, rtt_ms)) as u64;
    let mut command = Command::new(programs.server.with_file_name("path-store"));
    command.arg("--store").arg(store).args(["put", SUBNET, "--sender", SENDER]);
    command.args(["--cwnd", &cwnd_bytes.to_string(), "--rtt", &rtt_ms.to_string()]);
    Running::start(&mut command, stop)?.finish(PATIENCE).map(drop)
}
