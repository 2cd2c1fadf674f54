//! Client, access log, metrics and qlog each count the same downloads, and tell the
//! same of them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::support::lab::emulate;
use crate::support::lab::Lab;
use crate::support::lab::Planted;
use crate::support::metrics;
use crate::support::process::sibling;

/// Clients on a path that carries every jump, each with a subnet of its own.
const GOOD_PATH: &str = "--rate 200 --rtt 40 --buffer 4000000";
const GOOD_CLIENTS: u8 = 3;
const GOOD_DOWNLOADS: usize = 30;

/// Clients on a path that does not carry the jump of the set that is saved for it.
/// It carries a quarter of it: a busy machine sends less than the jump allows.
const NARROW_PATH: &str = "--rate 5 --rtt 100 --buffer 20000";
const NARROW_SET: Planted = Planted::new(500_000, 100);
const NARROW_CLIENTS: u8 = 10;

const DOWNLOADS: usize = GOOD_CLIENTS as usize * GOOD_DOWNLOADS + NARROW_CLIENTS as usize;
const BYTES: u64 = 400_000;

/// What one of them says, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    downloads: u64,
    bytes: u64,
    jumps: u64,
    retreats: u64,
    packets_sent: u64,
    packets_lost: u64,
}

fn good_client(subnet: u8) -> String {
    format!("127.0.{}.1", 1 + subnet)
}

fn narrow_client(subnet: u8) -> String {
    format!("127.0.{}.1", 100 + subnet)
}

/// Downloads so often from an address. Returns how many bytes came in each.
fn download(through: SocketAddr, from: &str, times: usize) -> Vec<u64> {
    let url = format!("https://{through}/bytes/{BYTES}");
    let times = times.to_string();
    let mut command = Command::new(sibling("edge-client"));
    command.args([&url, "--insecure", "--json", "--local", from, "--repeat", &times]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["bytes"].as_u64().unwrap()).collect()
}

fn of_clients(good: SocketAddr, narrow: SocketAddr) -> (u64, u64) {
    let clients = (0..GOOD_CLIENTS)
        .map(|subnet| thread::spawn(move || download(good, &good_client(subnet), GOOD_DOWNLOADS)));
    let clients: Vec<_> = clients.collect();
    let narrow = (0..NARROW_CLIENTS).flat_map(|subnet| download(narrow, &narrow_client(subnet), 1));
    let mut came: Vec<_> = narrow.collect();
    came.extend(clients.into_iter().flat_map(|client| client.join().unwrap()));
    (came.len() as u64, came.iter().sum())
}

fn of_metrics(at: SocketAddr) -> Account {
    let read = |name: &str| metrics::read(at, &format!("edge_server_{name}"));
    assert_eq!(read("connections_total"), DOWNLOADS as u64);
    assert_eq!(read("handshakes_total{outcome=\"completed\"}"), DOWNLOADS as u64);
    assert_eq!(read("resume_jumps_taken_total"), read("resume_set_age_seconds_count"));
    Account {
        downloads: read("responses_total{status=\"200\",complete=\"true\"}"),
        bytes: read("response_bytes_total"),
        jumps: read("resume_jumps_taken_total"),
        retreats: read("resume_phases_total{phase=\"safe_retreat\""),
        packets_sent: read("packets_total{direction=\"sent\"}"),
        packets_lost: read("packets_lost_total"),
    }
}

fn of_log(log: &Path, qlogs: &Path) -> Account {
    let mut account = Account::default();
    for line in fs::read_to_string(log).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["status"], &line["complete"]), (&200.into(), &true.into()), "{line}");
        let resume = &line["resume"];
        let retreated = resume["retreat"].as_bool().unwrap();
        let is_narrow = line["client"].as_str().unwrap().starts_with("127.0.10");
        account.downloads += 1;
        account.bytes += line["bytes"].as_u64().unwrap();
        account.jumps += u64::from(!resume["jump_bytes"].is_null());
        account.retreats += u64::from(retreated);

        let qlog = qlogs.join(format!("{}.sqlog", line["connection"].as_str().unwrap()));
        let qlog = of_qlog(&fs::read_to_string(qlog).unwrap());
        assert_eq!(qlog.jumps == 1, !resume["jump_bytes"].is_null(), "{line}");
        assert_eq!(qlog.retreats == 1, retreated, "{line}");
        assert!(retreated || !is_narrow || qlog.jumps == 0, "{line}");
        account.packets_sent += qlog.packets_sent;
        account.packets_lost += qlog.packets_lost;
    }
    account
}

fn of_qlog(qlog: &str) -> Account {
    let count = |text: &str| qlog.matches(text).count() as u64;
    Account {
        jumps: count("\"new\":\"unvalidated\""),
        retreats: count("\"new\":\"safe_retreat\""),
        packets_sent: count("\"name\":\"quic:packet_sent\""),
        packets_lost: lost_packets(qlog),
        ..Account::default()
    }
}

/// The last total that the qlog has.
fn lost_packets(qlog: &str) -> u64 {
    let total = |record: &str| {
        let event: Value = serde_json::from_str(record).ok()?;
        event["data"]["cf_lost_packets"]["total"].as_u64()
    };
    let records = qlog.split('\u{1e}').filter(|record| record.contains("cf_lost_packets"));
    records.filter_map(total).max().unwrap_or_default()
}

#[test]
fn client_log_metrics_and_qlog_agree_on_a_hundred_downloads() {
    let lab = Lab::new();
    for subnet in 0..NARROW_CLIENTS {
        lab.plant_for(narrow_client(subnet).parse().unwrap(), NARROW_SET);
    }
    let log = lab.file("access.log");
    let args = ["--workers", "2", "--metrics", "127.0.0.1:0", "--access-log"];
    let (mut server, address) = lab.serve("qlogs", &[&args[..], &[log.to_str().unwrap()]].concat());
    let pages = server.metrics_address();
    let (mut good, mut narrow) = (emulate(address, GOOD_PATH), emulate(address, NARROW_PATH));
    let (downloads, bytes) = of_clients(good.address(), narrow.address());
    assert_eq!((downloads, bytes), (DOWNLOADS as u64, DOWNLOADS as u64 * BYTES));

    metrics::wait_until(pages, "edge_server_connections_open", |open| open == 0);
    let of_metrics = of_metrics(pages);
    assert!(server.stop().success());
    let of_log = of_log(&log, &lab.file("qlogs"));
    assert_eq!(of_metrics, of_log);
    assert_eq!((of_log.downloads, of_log.bytes), (downloads, bytes));
    assert!(of_log.retreats >= NARROW_CLIENTS.into(), "{of_log:?}");
    assert!(of_log.jumps > of_log.retreats, "{of_log:?}");
    assert!(of_log.packets_lost > 0, "{of_log:?}");
    assert_eq!(fs::read_dir(lab.file("qlogs")).unwrap().count(), DOWNLOADS);
}
