//! Downloads over an emulated path that is their bottleneck, so that the server has processor time to
//! spare.

use std::net::SocketAddr;
use std::process::Command;
use std::process::Stdio;

use anyhow::ensure;
use anyhow::Context;
use serde_json::Value;

use crate::process::sibling;
use crate::process::Running;

const RATE_MBPS: u64 = 100;
const PATH: [&str; 6] = ["--rate", "100", "--rtt", "40", "--buffer", "500000"];

/// Clients that download at a time.
pub const CLIENTS: usize = 4;

/// Starts link-emulator before a server. Returns the address of the path.
pub fn emulated_path(server: SocketAddr) -> (Running, SocketAddr) {
    let to = server.to_string();
    let mut emulator = Command::new(sibling("link-emulator"));
    let emulator = emulator.args(["--listen", "127.0.0.1:0", "--to", &to]).args(PATH);
    let mut emulator = Running::start(emulator);
    let path = emulator.address();
    (emulator, path)
}

/// Returns the goodput of all clients together, in Mbit/s. Calls `on_start` once they have started.
///
/// # Errors
///
/// A download failed.
pub fn measure_goodput(
    path: SocketAddr,
    seconds: u64,
    on_start: impl FnOnce(),
) -> anyhow::Result<f64> {
    let bytes = RATE_MBPS * seconds * 1_000_000 / 8 / CLIENTS as u64;
    let url = format!("https://{path}/bytes/{bytes}");
    let start = || {
        let mut command = Command::new(sibling("edge-client"));
        command.args([&url, "--insecure", "--json"]).stdout(Stdio::piped()).spawn()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| start()).collect::<Result<_, _>>()?;
    on_start();
    let goodput = |client: std::process::Child| {
        let output = client.wait_with_output()?;
        ensure!(output.status.success(), "a download failed");
        let line: Value = serde_json::from_slice(&output.stdout)?;
        line["goodput_mbps"].as_f64().context("no goodput")
    };
    clients.into_iter().map(goodput).sum()
}
