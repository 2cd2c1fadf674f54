//! Client, access log, metrics and qlog each count the same downloads, and tell the same of
//! them.

use std::fs;
use std::net::Ipv4Addr;

use serde_json::Value;

use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;
use super::qlog::events;

/// Clients on a path that carries every jump, each with a subnet of its own.
const GOOD_CLIENTS: u8 = 3;
const GOOD_DOWNLOADS: u8 = 30;

/// Clients on a path that does not carry the jump of what is saved for it.
const NARROW_CLIENTS: u8 = 10;
const NARROW_SAVED: Saved = Saved::new(500_000, 100);

const DOWNLOADS: u64 = GOOD_CLIENTS as u64 * GOOD_DOWNLOADS as u64 + NARROW_CLIENTS as u64;
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

fn good_client(subnet: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1 + subnet, 1)
}

fn narrow_client(subnet: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 100 + subnet, 1)
}

/// A download from an address.
fn download(server: &Server, path: &Path, from: Ipv4Addr) {
    let mut client = server.client().over(path).from(from).connect();
    assert_eq!(client.get(&format!("/bytes/{BYTES}")).body.len() as u64, BYTES);
    client.close();
}

fn of_metrics(server: &Server) -> Account {
    let read = |name: &str| server.metric(&format!("edge_server_{name}"));
    assert_eq!(read("connections_total"), DOWNLOADS);
    assert_eq!(read("handshakes_total{outcome=\"completed\"}"), DOWNLOADS);
    assert_eq!(read("resume_jumps_taken_total"), read("resume_set_age_seconds_count"));
    Account {
        downloads: read("responses_total{protocol=\"HTTP/3\",status=\"200\",complete=\"true\"}"),
        bytes: read("response_bytes_total"),
        jumps: read("resume_jumps_taken_total"),
        retreats: read("resume_phases_total{phase=\"safe_retreat\""),
        packets_sent: read("packets_total{direction=\"sent\"}"),
        packets_lost: read("packets_lost_total"),
    }
}

fn of_log(server: &Server) -> Account {
    let mut account = Account::default();
    for line in server.log() {
        assert_eq!((&line["status"], &line["complete"]), (&200.into(), &true.into()), "{line}");
        let resume = &line["resume"];
        let retreated = resume["retreat"].as_bool().unwrap();
        let is_narrow = line["client"].as_str().unwrap().starts_with("127.0.10");
        account.downloads += 1;
        account.bytes += line["bytes"].as_u64().unwrap();
        account.jumps += u64::from(!resume["jump_bytes"].is_null());
        account.retreats += u64::from(retreated);

        let qlog = format!("qlogs/{}.sqlog", line["connection"].as_str().unwrap());
        let qlog = of_qlog(&fs::read_to_string(server.lab().file(&qlog)).unwrap());
        assert_eq!(qlog.jumps == 1, !resume["jump_bytes"].is_null(), "{line}");
        assert_eq!(qlog.retreats == 1, retreated, "{line}");
        assert_eq!(is_narrow, retreated, "{line}");
        account.packets_sent += qlog.packets_sent;
        account.packets_lost += qlog.packets_lost;
    }
    account
}

fn of_qlog(qlog: &str) -> Account {
    let count = |text: &str| qlog.matches(text).count() as u64;
    let lost = |event: Value| event["data"]["cf_lost_packets"]["total"].as_u64();
    Account {
        jumps: count("\"new\":\"unvalidated\""),
        retreats: count("\"new\":\"safe_retreat\""),
        packets_sent: count("\"name\":\"quic:packet_sent\""),
        // The last total that the qlog has.
        packets_lost: events(qlog).filter_map(lost).max().unwrap_or_default(),
        ..Account::default()
    }
}

#[test]
fn accounts_of_a_hundred_downloads_agree() {
    let lab = Lab::new();
    for subnet in 0..NARROW_CLIENTS {
        lab.plant_for(narrow_client(subnet).into(), NARROW_SAVED);
    }
    let args = ["--speedtest", "--qlog-dir", "DIR/qlogs", "--access-log", "-"];
    let server = lab.serve(&args);
    let (good, narrow) = (Path::new(200.0, 40, 4_000_000), Path::new(5.0, 100, 20_000));
    for subnet in 0..NARROW_CLIENTS {
        download(&server, &narrow, narrow_client(subnet));
    }
    for _ in 0..GOOD_DOWNLOADS {
        for subnet in 0..GOOD_CLIENTS {
            download(&server, &good, good_client(subnet));
        }
    }
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    server.stop();
    server.end();

    let (of_metrics, of_log) = (of_metrics(&server), of_log(&server));
    assert_eq!(of_metrics, of_log);
    assert_eq!((of_log.downloads, of_log.bytes), (DOWNLOADS, DOWNLOADS * BYTES));
    assert_eq!(of_log.retreats, u64::from(NARROW_CLIENTS), "{of_log:?}");
    assert!(of_log.jumps > of_log.retreats, "{of_log:?}");
    assert!(of_log.packets_lost > 0, "{of_log:?}");
    assert_eq!(fs::read_dir(lab.file("qlogs")).unwrap().count() as u64, DOWNLOADS);
}
