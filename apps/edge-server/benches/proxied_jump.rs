//! Jumps of responses from an origin, uncached and cached, beside those of files.
//!
//!     cargo bench -p edge-server --bench proxied_jump [-- --rounds 5]
//!
//! Method: the release server sends 10 MB over an emulated GEO path, twice to a client: the second
//! visit jumps, as the access log tells. A file, an origin's response and one from the cache follow each other in each
//! round, each from a new server with a new store. Passes if the median time to the last byte of second
//! visits is within 3 % of the file's. Needs the other programs: `make build`.

#[expect(dead_code, reason = "the process tests use the rest")]
#[path = "../tests/process/support/lab.rs"]
mod lab;
#[expect(dead_code, reason = "the process tests use the rest")]
#[path = "../tests/process/support/process.rs"]
mod process;
#[expect(dead_code, reason = "the process tests use the rest")]
#[path = "../tests/process/origin/scripted.rs"]
mod scripted;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use clap::Parser;
use serde_json::Value;

use crate::lab::emulate;
use crate::process::serve;
use crate::process::sibling;
use crate::scripted::Act;
use crate::scripted::ScriptedOrigin;

/// Path, and its queue of one bandwidth-delay product.
const GEO: &str = "--rate 50 --rtt 600 --buffer 3750000";

const OBJECT_BYTES: usize = 10_000_000;

/// Largest ratio of the time to that of a file.
const RATIO_MAX: f64 = 1.03;

/// What is downloaded. The file is first.
const SUBJECTS: [(&str, &str); 3] =
    [("file", "/object"), ("from an origin", "/app/object"), ("cached", "/kept/object")];

/// Measures second visits over a GEO path.
#[derive(Clone, Debug, Parser)]
struct ProxiedJumpOptions {
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Passed by cargo to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = ProxiedJumpOptions::parse();
    let object: Vec<u8> = (0..OBJECT_BYTES).map(|at| (at * at / 7) as u8).collect();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncache-control: max-age=3600\r\ncontent-length: {OBJECT_BYTES}\r\n\r\n"
    );
    let root = tempfile::tempdir()?;
    fs::write(root.path().join("object"), &object)?;
    let origin = ScriptedOrigin::start(move |_| {
        vec![Act::Send(head.clone().into_bytes()), Act::Send(object.clone())]
    });
    let mut times = SUBJECTS.map(|_| Vec::new());
    for _ in 0..options.rounds {
        for ((name, path), times) in SUBJECTS.iter().zip(&mut times) {
            let ms = second_visit(root.path(), origin.address, path).context(*name)?;
            println!("{name}: {ms:.0} ms");
            times.push(ms);
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let mut passes = true;
    for ((name, _), median) in SUBJECTS.iter().zip(medians) {
        let ratio = median / medians[0];
        passes &= ratio <= RATIO_MAX;
        println!("{name}: median {median:.0} ms, {ratio:.3} of a file, limit {RATIO_MAX}");
    }
    println!("{}", if passes { "passed" } else { "FAILED" });
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Downloads twice from a new server. Returns the time of the second download, which jumped, in ms.
fn second_visit(root: &Path, origin: SocketAddr, path: &str) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("edge.toml");
    let rule = |path: &str, more: &str| {
        format!("[[host.origin]]\npath = '{path}'\nurl = 'http://{origin}'\n{more}")
    };
    let rules = ["[[host]]\n", &rule("/app/**", ""), &rule("/kept/**", "cache = true\n")];
    fs::write(&config, rules.concat())?;
    let (store, log) = (dir.path().join("paths.db"), dir.path().join("access.log"));
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let (config, store, log) = (shown(&config), shown(&store), shown(&log));
    let args = ["--config", &config, "--store", &store, "--access-log", &log];
    let (mut server, address) = serve(root, &args);
    let mut emulator = emulate(address, GEO);
    let url = format!("https://{}{path}", emulator.address());
    let mut client = Command::new(sibling("edge-client"));
    let client = client.args([&url, "--insecure", "--json", "--repeat", "2", "--interval", "1"]);
    let output = client.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(server.stop().success(), "the server failed");
    let downloads = records(&output.stdout)?;
    let requests = records(&fs::read(log)?)?;
    let ([_, second], [_, request]) = (&downloads[..], &requests[..]) else {
        anyhow::bail!("{} downloads, {} requests", downloads.len(), requests.len());
    };
    ensure!(second["bytes"] == OBJECT_BYTES, "{second}");
    ensure!(request["resume"]["jump_bytes"].is_u64(), "the second visit did not jump: {request}");
    let expected = if path.starts_with("/kept/") { "hit".into() } else { Value::Null };
    ensure!(request["cache"] == expected, "not from the cache: {request}");
    second["ttlb_ms"].as_f64().context("no time")
}

fn records(lines: &[u8]) -> anyhow::Result<Vec<Value>> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}
