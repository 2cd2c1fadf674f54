//! Initial flood: goodput of downloads while Initial packets arrive from forged addresses.
//!
//!     cargo bench -p edge-server --bench initial_flood [-- --rate 50000 --seconds 30]
//!
//! Method: clients download over link-emulator, so that the path is the bottleneck and the server
//! has processor time to spare. In the second of two runs, a thread sends Initial packets from
//! unused addresses in 500 subnets as soon as the clients' handshakes are complete. At the end,
//! when the flood's handshakes have timed out, a client without a token connects.
//!
//! Passes if the downloads keep 70 % of their goodput, the server's memory stays within the limit
//! for half-open connections, and the server sends Retry during the flood and not at the end.
//! Flood, path, clients and server share the machine's cores. Needs the other programs: `make
//! build`.

#[path = "../tests/process/support/client.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod client;
#[path = "support/downloads.rs"]
mod downloads;
#[path = "../tests/process/support/flood.rs"]
mod flood;
#[path = "../tests/process/support/metrics.rs"]
mod metrics;
#[path = "../tests/process/support/process.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod process;

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use clap::Parser;

use crate::client::UdpClient;
use crate::downloads::emulated_path;
use crate::downloads::measure_goodput;
use crate::downloads::CLIENTS;
use crate::flood::Ammunition;
use crate::process::serve;

/// Smallest share of the goodput that passes.
const GOODPUT_SHARE_MIN: f64 = 0.7;

/// Limits on memory growth: for each half-open connection, and for everything else.
const HALF_OPEN_KIB_MAX: usize = 160;
const OTHER_KIB_MAX: usize = 32 << 10;

/// Number of distinct packets in the flood.
const PACKETS: u32 = 8000;

/// Handshakes that a worker accepts by default before it sends Retry.
const HALF_OPEN: usize = 1000;

const RETRIES: &str = "edge_server_retries_total";
const HANDSHAKES: &str = "edge_server_handshakes_total{outcome=\"completed\"}";

/// Measures downloads without and with a flood of Initial packets.
#[derive(Clone, Debug, Parser)]
struct FloodOptions {
    /// Initial packets a second
    #[arg(long, default_value_t = 50_000)]
    rate: u64,

    /// Duration of the downloads without the flood
    #[arg(long, default_value_t = 30)]
    seconds: u64,

    /// Event loops of the server
    #[arg(long, default_value_t = 1)]
    workers: usize,

    /// Passed by cargo to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = FloodOptions::parse();
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("index.html"), "home")?;
    let workers = options.workers.to_string();
    let args =
        ["--speedtest", "--resume", "off", "--metrics", "127.0.0.1:0", "--workers", &workers];
    let (mut server, address) = serve(dir.path(), &args);
    let metrics_at = server.metrics_address();
    let (_emulator, path) = emulated_path(address);

    let alone = measure_goodput(path, options.seconds, || ())?;
    let before_kib = server.memory_kib("VmHWM");
    ensure!(metrics::read(metrics_at, RETRIES) == 0, "there was no flood");
    let ammunition = Ammunition::new(address, PACKETS);
    let completed = metrics::read(metrics_at, HANDSHAKES);
    let mut flood = None;
    let flooded = measure_goodput(path, options.seconds, || {
        let all = completed + CLIENTS as u64;
        metrics::wait_until(metrics_at, HANDSHAKES, |completed| completed == all);
        flood = Some((ammunition.fire(address, options.rate), quiche::clock::now()));
    })?;
    let (flood, on_start) = flood.context("no flood")?;
    let per_second = flood.end() as f64 / (quiche::clock::now() - on_start).as_secs_f64();
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    let retries = metrics::read(metrics_at, RETRIES);
    let dropped = metrics::read(metrics_at, "edge_server_socket_drops_total");

    metrics::wait_until(metrics_at, "edge_server_connections_open", |open| open == 0);
    let retries_before = metrics::read(metrics_at, RETRIES);
    let home = UdpClient::connect(address).get("/").body;
    let retries_again = metrics::read(metrics_at, RETRIES) > retries_before;
    ensure!(home == b"home" && server.stop().success(), "the server failed");

    let growth_kib_max = OTHER_KIB_MAX + options.workers * HALF_OPEN * HALF_OPEN_KIB_MAX;
    let kept = flooded / alone;
    println!(
        "{CLIENTS} downloads: {alone:.1} Mbit/s alone, {flooded:.1} Mbit/s during the flood: \
         {kept:.2}"
    );
    println!(
        "{per_second:.0} Initials a second, {retries} Retry packets, {dropped} dropped by the kernel"
    );
    println!(
        "the server's peak memory: {before_kib} KiB before the flood, {growth_kib} KiB more after it"
    );
    println!("afterwards Retry {}", if retries_again { "continues" } else { "has stopped" });
    let passes =
        kept >= GOODPUT_SHARE_MIN && growth_kib <= growth_kib_max && retries > 0 && !retries_again;
    println!("{}", if passes { "passed" } else { "FAILED" });
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
