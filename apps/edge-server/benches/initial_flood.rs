//! Downloads beside a flood of first packets from forged addresses.
//!
//!     cargo bench -p edge-server --bench initial_flood [-- --rate 50000 --seconds 30]
//!
//! Method: clients download over link-emulator, so that the path is the bottleneck while
//! the server has time to spare; once alone, and once while a thread, as soon as their
//! handshakes are complete, sends Initial packets from addresses of 500 subnets that are
//! not there. A client without a token comes at the end, when the flood's handshakes have
//! had their time.
//!
//! Passes when the downloads keep 70 % of their goodput, the server's memory stays within
//! what its half-open connections may take, and Retry was asked for during the flood
//! and is not any more at the end. Sender, path, clients and server share
//! the machine's cores. Needs the other programs: `make build`.

#[path = "../tests/process/support/client.rs"]
#[expect(dead_code, reason = "the tests of the process use the rest")]
mod client;
#[path = "../tests/process/support/flood.rs"]
mod flood;
#[path = "../tests/process/support/forger.rs"]
mod forger;
#[path = "../tests/process/support/metrics.rs"]
mod metrics;
#[path = "../tests/process/support/process.rs"]
#[expect(dead_code, reason = "the tests of the process use the rest")]
mod process;

use std::net::SocketAddr;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;

use anyhow::ensure;
use anyhow::Context;
use clap::Parser;
use serde_json::Value;

use crate::client::Client;
use crate::flood::Ammunition;
use crate::process::serve;
use crate::process::sibling;
use crate::process::Running;

/// The path of the downloads.
const RATE_MBPS: u64 = 100;
const PATH: [&str; 6] = ["--rate", "100", "--rtt", "40", "--buffer", "500000"];
const CLIENTS: usize = 4;

/// What is left of the goodput at least.
const KEPT_MIN: f64 = 0.7;

/// What the server may take: this much for each half-open connection, and for the rest.
const HALF_OPEN_KIB_MAX: usize = 160;
const OTHER_KIB_MAX: usize = 32 << 10;

/// Different packets of the flood, and what a worker takes of them by default.
const PACKETS: u32 = 8000;
const HALF_OPEN: usize = 1000;

const RETRIES: &str = "edge_server_retries_total";
const HANDSHAKES: &str = "edge_server_handshakes_total{outcome=\"completed\"}";

/// Downloads alone, and amid a flood.
#[derive(Clone, Debug, Parser)]
struct Cli {
    /// Initial packets a second
    #[arg(long, default_value_t = 50_000)]
    rate: u64,

    /// How long the downloads take alone
    #[arg(long, default_value_t = 30)]
    seconds: u64,

    /// Event loops of the server
    #[arg(long, default_value_t = 1)]
    workers: usize,

    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// The sum of what clients get side by side over the path, in Mbit/s. Something else begins
/// once they have begun.
fn download(path: SocketAddr, seconds: u64, begun: impl FnOnce()) -> anyhow::Result<f64> {
    let bytes = RATE_MBPS * seconds * 1_000_000 / 8 / CLIENTS as u64;
    let url = format!("https://{path}/bytes/{bytes}");
    let start = || {
        let mut command = Command::new(sibling("edge-client"));
        command.args([&url, "--insecure", "--json"]).stdout(Stdio::piped()).spawn()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| start()).collect::<Result<_, _>>()?;
    begun();
    let goodput = |client: std::process::Child| {
        let output = client.wait_with_output()?;
        ensure!(output.status.success(), "a download failed");
        let line: Value = serde_json::from_slice(&output.stdout)?;
        line["goodput_mbps"].as_f64().context("no goodput")
    };
    clients.into_iter().map(goodput).sum()
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("index.html"), "home")?;
    let workers = cli.workers.to_string();
    let args =
        ["--speedtest", "--resume", "off", "--metrics", "127.0.0.1:0", "--workers", &workers];
    let (mut server, address) = serve(dir.path(), &args);
    let metrics_at = server.metrics_address();
    let to = address.to_string();
    let mut emulator = Command::new(sibling("link-emulator"));
    let emulator = emulator.args(["--listen", "127.0.0.1:0", "--to", &to]).args(PATH);
    let mut emulator = Running::start(emulator);
    let path = emulator.address();

    let alone = download(path, cli.seconds, || ())?;
    let before_kib = server.memory_kib("VmHWM");
    ensure!(metrics::read(metrics_at, RETRIES) == 0, "there was no flood");
    let ammunition = Ammunition::new(address, PACKETS);
    let completed = metrics::read(metrics_at, HANDSHAKES);
    let mut flood = None;
    let amid = download(path, cli.seconds, || {
        let all = completed + CLIENTS as u64;
        metrics::wait_until(metrics_at, HANDSHAKES, |completed| completed == all);
        flood = Some((ammunition.fire(address, cli.rate), quiche::clock::now()));
    })?;
    let (flood, begun) = flood.context("no flood")?;
    let per_second = flood.end() as f64 / (quiche::clock::now() - begun).as_secs_f64();
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    let retries = metrics::read(metrics_at, RETRIES);
    let dropped = metrics::read(metrics_at, "edge_server_socket_drops_total");

    metrics::wait_until(metrics_at, "edge_server_connections_open", |open| open == 0);
    let late = metrics::read(metrics_at, RETRIES);
    let home = Client::connect(address).get("/").body;
    let goes_on = metrics::read(metrics_at, RETRIES) > late;
    ensure!(home == b"home" && server.stop().success(), "the server failed");

    let growth_kib_max = OTHER_KIB_MAX + cli.workers * HALF_OPEN * HALF_OPEN_KIB_MAX;
    let kept = amid / alone;
    println!(
        "{CLIENTS} downloads: {alone:.1} Mbit/s alone, {amid:.1} Mbit/s amid the flood: {kept:.2}"
    );
    println!("{per_second:.0} Initials a second, {retries} Retry packets, {dropped} dropped by the kernel");
    println!("the server's memory: {before_kib} KiB at most before, {growth_kib} KiB more in it");
    println!("afterwards Retry {}", if goes_on { "goes on" } else { "is over" });
    let good = kept >= KEPT_MIN && growth_kib <= growth_kib_max && retries > 0 && !goes_on;
    println!("{}", if good { "passed" } else { "FAILED" });
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
