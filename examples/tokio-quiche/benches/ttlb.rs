//! Time to the last byte of a second download: the server on tokio-quiche beside edge-server, on the
//! same path in the same run. Prints one line a download, and the ratio of the medians.

#[path = "../tests/service/mod.rs"]
mod service;

use std::path::Path;
use std::process::Command;

use service::tokio_quiche_server;
use service::tool;
use service::Service;

const ROUNDS: usize = 5;

fn main() {
    let mut edge = vec![];
    let mut tokio = vec![];
    for round in 1..=ROUNDS {
        edge.push(second_ttlb_ms("edge-server", round, edge_server));
        tokio.push(second_ttlb_ms("tokio-quiche", round, tokio_quiche_server));
    }
    let (edge, tokio) = (median(edge), median(tokio));
    println!("medians: edge-server {edge} ms, tokio-quiche {tokio} ms, ratio {:.3}", tokio / edge);
}

/// Downloads twice from a server with an empty store. Returns the time of the second download.
fn second_ttlb_ms(name: &str, round: usize, server: impl FnOnce(&Path, &Path) -> Command) -> f64 {
    let service = Service::start(server);
    let [first, second] = [(); 2].map(|()| ttlb_ms(&service.download()));
    // Before the next one starts.
    drop(service.server);
    println!("{name}, round {round}: first {first} ms, second {second} ms");
    second
}

fn edge_server(folder: &Path, store: &Path) -> Command {
    let mut command = Command::new(tool("edge-server"));
    command.args(["--listen", "127.0.0.1:0", "--workers", "1", "--root"]).arg(folder);
    command.arg("--store").arg(store);
    command
}

fn ttlb_ms(json: &str) -> f64 {
    let (_, rest) = json.split_once("\"ttlb_ms\":").expect("the client prints ttlb_ms");
    let number = rest.split([',', '}']).next().expect("a number");
    number.trim().parse().expect("a number")
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
