//! Gain that the access log of a server with a control group tells, against the gain that speed-test
//! measures: many clients, each with an address of its own, over the same emulated LEO path.
//!
//! Each client downloads twice on new connections: what speed-test calls the first connection, and
//! the object. Half of the clients may jump in the second download.
//!
//! - **Gain**: the confidence interval of the median difference, widened by the error of speed-test's few
//!   runs, holds the difference of speed-test's medians. A control connection does what speed-test
//!   calls the first visit from an empty store.
//! - **No gain**: the first downloads are alike in both arms. The interval of their ratio, widened by
//!   half a per cent, holds 1.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ab_test::Gain;
use ab_test::Interval;
use ab_test::LogLine;
use ab_test::Response;
use ab_test::Samples;
use ab_test::Settings;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use clap::Parser;
use report::record::Download;
use report::record::Mode;
use report::stats::mean;
use report::stats::median;
use speed_test::client_report::ClientReport;
use speed_test::path::parse_path;
use speed_test::path::PathSpec;
use speed_test::process::Programs;
use speed_test::process::Running;
use speed_test::runner;
use speed_test::runner::Plan;

/// Share of clients that may jump.
const SHARE: f64 = 0.5;

/// By how much the interval of equal arms may miss 1: what happens on this machine happens to both
/// arms, but not at the same time.
const ALIKE: f64 = 0.005;

/// Time for one download.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compares the gain that an access log tells with speed-test's.
#[derive(Debug, Parser)]
#[command(name = "gain")]
struct GainCheckArgs {
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 1000)]
    clients: u32,

    /// Number of clients at a time, each with an emulated path of its own
    #[arg(long, value_name = "N", default_value_t = 3)]
    lanes: u32,

    /// Runs of speed-test for each mode
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,

    /// Folder of the programs
    #[arg(long, value_name = "DIR", default_value = "target/release")]
    programs: PathBuf,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&GainCheckArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gain: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &GainCheckArgs) -> anyhow::Result<()> {
    // Cargo runs benches in the package's folder.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = Programs::in_folder(&root.join(&args.programs))?;
    let path = parse_path("LEO").map_err(anyhow::Error::msg)?;
    let measured = speed_test(args, &programs, path.clone())?;
    println!("speed-test: {measured:?}");

    let responses = serve_clients(args, &programs, &path)?;
    let jumps: Vec<_> = responses.iter().filter(|response| response.could_jump).copied().collect();
    let firsts = responses.iter().filter(|response| !response.could_jump);
    let alike: Vec<_> = firsts.map(|first| Response { could_jump: true, ..*first }).collect();

    let (_, difference_ms) = median_gain(&jumps)?;
    println!("second downloads, difference of medians in ms: {difference_ms:?}");
    let Interval { low, high, .. } = difference_ms;
    let error = measured.error_ms;
    let is_same = (low - error..=high + error).contains(&measured.difference_ms);
    ensure!(is_same, "the access log tells another gain than speed-test");

    let (ratio, _) = median_gain(&alike)?;
    println!("first downloads, alike in both arms, ratio of medians: {ratio:?}");
    let is_alike = (ratio.low - ALIKE..=ratio.high + ALIKE).contains(&1.0);
    ensure!(is_alike, "the access log tells a gain where there is none");
    Ok(())
}

/// Difference that speed-test measures between Careful Resume and slow start.
#[derive(Clone, Copy, Debug)]
struct Measured {
    difference_ms: f64,

    /// How far it may be from that of endless runs.
    error_ms: f64,
}

fn speed_test(
    args: &GainCheckArgs,
    programs: &Programs,
    path: PathSpec,
) -> anyhow::Result<Measured> {
    let results = tempfile::tempdir()?;
    let plan = Plan {
        paths: vec![path],
        runs: args.runs,
        cc: "cubic".into(),
        pristine_server: None,
        early_data: false,
        results: results.path().to_owned(),
    };
    let downloads = runner::run(&plan, programs, &Arc::new(AtomicBool::new(false)))?;
    let times = |is_wanted: &dyn Fn(&Download) -> bool| -> Vec<f64> {
        downloads.iter().filter(|d| is_wanted(d) && !d.is_disturbed()).map(|d| d.ttlb_ms).collect()
    };
    let resumed = times(&|d| d.mode == Mode::CarefulResume);
    let slow = times(&|d| d.mode == Mode::Visit && d.visit == Some(1));
    println!("speed-test, ms: Careful Resume {resumed:?}, first visits {slow:?}");
    let of = |times: &[f64]| {
        let estimates = median(times.iter().copied()).zip(mean(times));
        estimates.context("no undisturbed run")
    };
    let ((resumed_ms, resumed), (slow_ms, slow)) = (of(&resumed)?, of(&slow)?);
    let error_ms = resumed.error.hypot(slow.error);
    Ok(Measured { difference_ms: resumed_ms - slow_ms, error_ms })
}

/// Returns what the server logs of all clients.
fn serve_clients(
    args: &GainCheckArgs,
    programs: &Programs,
    path: &PathSpec,
) -> anyhow::Result<Vec<Response>> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("access.log");
    let stop = Arc::new(AtomicBool::new(false));
    let mut command = Command::new(&programs.server);
    command.args(["--listen", "127.0.0.1:0", "--speedtest", "--root"]).arg(folder.path());
    command.arg("--store").arg(folder.path().join("paths.db")).arg("--access-log").arg(&log);
    command.args(["--resume-share", &SHARE.to_string(), "--drain", "0"]);
    // As speed-test does.
    command.args(["--cc", "cubic", "--pmtud", "off"]);
    let mut server = Running::start(&mut command, &stop)?;
    let address = server.listening_on()?;

    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        let lanes = (0..args.lanes)
            .map(|_| scope.spawn(|| serve_lane(args, programs, path, address, &next, &stop)));
        let lanes: Vec<_> = lanes.collect();
        lanes.into_iter().try_for_each(|lane| match lane.join() {
            Ok(result) => result,
            Err(_) => bail!("a lane panicked"),
        })
    })?;
    server.stop()?;

    let text = std::fs::read_to_string(&log)?;
    let responses = text.lines().map(|line| match line.parse() {
        Ok(LogLine::Compared(response)) => Ok(response),
        _ => bail!("not compared: {line}"),
    });
    responses.collect()
}

/// Lets one client after the other download over an emulated path.
fn serve_lane(
    args: &GainCheckArgs,
    programs: &Programs,
    path: &PathSpec,
    server: SocketAddr,
    next: &AtomicU32,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut emulator = Command::new(&programs.emulator);
    emulator.args(["--listen", "127.0.0.1:0", "--to", &server.to_string()]);
    emulator.args(["--rate", &path.rate_mbps.to_string(), "--rtt", &path.rtt_ms.to_string()]);
    emulator.args(["--buffer", &path.buffer_bytes().to_string()]);
    let mut emulator = Running::start(&mut emulator, stop)?;
    let address = emulator.listening_on()?;
    loop {
        let client = next.fetch_add(1, Ordering::Relaxed);
        if client >= args.clients {
            return emulator.stop_anyhow().map(drop);
        }
        if client.is_multiple_of(100) {
            println!("client {client}");
        }
        for bytes in [path.first_bytes(), path.object_bytes] {
            let url = format!("https://speed.test/bytes/{bytes}");
            let mut command = Command::new(&programs.client);
            command.args([&url, "--json", "--insecure", "--connect", &address.to_string()]);
            command.args(["--local", &own_address(client).to_string()]);
            let report = Running::start(&mut command, stop)?.finish(PATIENCE)?;
            ClientReport::parse(&report, bytes)?;
            // The end of the connection is on its way to the server.
            thread::sleep(Duration::from_secs_f64(path.rtt_ms / 1000.0));
        }
    }
}

/// Returns the address of a client, in a subnet of its own.
fn own_address(client: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + (client << 8))
}

/// Returns the intervals of the ratio and of the difference in ms of medians.
fn median_gain(responses: &[Response]) -> anyhow::Result<(Interval, Interval)> {
    let mut samples = Samples::default();
    responses.iter().for_each(|response| samples.add(LogLine::Compared(*response)));
    let gain = Gain::new(&samples, Settings { share: Some(SHARE), seed: 1 });
    let arms = gain.arms.context("no clients")?;
    println!("{} clients may jump, {} are control, p = {:.3}", arms.resume, arms.control, arms.p);
    ensure!(arms.is_plausible(), "the arms do not fit the share");
    let [class] = &gain.classes[..] else { bail!("{} size classes", gain.classes.len()) };
    let median = class.median().context("the sample is too small; raise --clients")?;
    Ok((median.ratio, median.difference_ms))
}
