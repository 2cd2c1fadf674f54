//! Control group of `--resume-share`: its connections start slowly, and tell of the others nothing
//! but the jump.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use ab_test::Arm;
use serde_json::Value;

use super::client::Client;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;
use super::qlog::events;
use super::qlog::only_qlog;
use super::qlog::phases;
use crate::quic::secrets;
use crate::resume::arm::ArmDraw;

/// What a path holds that is as [`path()`].
const SAVED: Saved = Saved::new(250_000, 100);

const LOGGED: [&str; 3] = ["--speedtest", "--access-log", "-"];

fn path() -> Path {
    Path::new(20.0, 100, 250_000)
}

/// Returns a client in a subnet of its own that has this arm at a share of one half.
fn client_in(arm: Arm) -> IpAddr {
    let draw = ArmDraw::new(secrets::open(None).unwrap(), 0.5);
    let mut clients = (0..=u8::MAX).map(|subnet| Ipv4Addr::new(10, 0, subnet, 7).into());
    clients.find(|client| draw.draw(*client) == Some(arm)).unwrap()
}

/// Starts a server, half of whose clients may jump.
fn half(lab: &Lab) -> Server {
    lab.serve(&[&LOGGED[..], &["--resume-share", "0.5"]].concat())
}

/// Downloads so many bytes, as a client at this address.
fn download(server: &Server, client: IpAddr, path: &Path, bytes: u64) -> Client {
    let mut client = server.client().from(client).over(path).connect();
    client.get(&format!("/bytes/{bytes}"));
    client
}

/// Returns the log, once the last acknowledgements have arrived.
fn log(server: &Server) -> Vec<Value> {
    server.lab().advance(Duration::from_secs(2));
    server.log()
}

/// Returns what the last line of the log says of arm, possible jump, and jump.
fn last(server: &Server) -> (String, bool, bool) {
    let log = log(server);
    let resume = &log.last().unwrap()["resume"];
    let arm = resume["arm"].as_str().unwrap_or("none").to_owned();
    (arm, resume["could_jump"].as_bool().unwrap(), resume["jump_bytes"] != Value::Null)
}

fn said(arm: Arm, could_jump: bool, jumped: bool) -> (String, bool, bool) {
    (arm.name().to_owned(), could_jump, jumped)
}

#[test]
fn control_connection_neither_claims_nor_jumps() {
    let lab = Lab::new();
    lab.plant(SAVED);
    let args = ["--resume-share", "0", "--qlog-dir", "DIR/qlogs"];
    let server = lab.serve(&[&LOGGED[..], &args].concat());
    let mut client = server.client().over(&path()).connect();
    client.get("/bytes/600000");
    assert_eq!(server.metric("path_store_gets_total"), 1);
    assert_eq!(server.metric("path_store_claims_total"), 0);
    assert_eq!(server.metric("edge_server_resume_jumps_offered_total"), 0);
    client.close();
    server.stop();
    server.end();

    let (arm, could_jump, jumped) = last(&server);
    assert_eq!((arm.as_str(), could_jump, jumped), ("control", true, false));
    let qlog = only_qlog(&lab, "qlogs");
    let whats: Vec<_> = phases(&qlog).into_iter().map(|change| change.what).collect();
    assert_eq!(whats, ["normal: dry_run"]);
    let header = events(&qlog).next().unwrap();
    let description = header["trace"]["description"].as_str().unwrap();
    assert!(description.ends_with(", arm control"), "{header}");
}

// A dry run changes no packet: neither times nor sizes.
#[test]
fn control_connection_sends_as_without_saved_parameters() {
    let sent = |plant: bool, resume: &[&str]| {
        let lab = Lab::new();
        if plant {
            lab.plant(SAVED);
        }
        let server = lab.serve(&[&LOGGED[..], resume].concat());
        let mut client = server.client().over(&path()).connect();
        client.get("/bytes/600000");
        client.datagrams().1
    };
    let control = sent(true, &["--resume-share", "0"]);
    assert_eq!(control, sent(false, &[]));
    assert_ne!(control, sent(true, &[]));
}

#[test]
fn control_connection_saves_what_it_observes() {
    let lab = Lab::new();
    let server = lab.serve(&["--speedtest", "--resume-share", "0"]);
    download(&server, super::harness::CLIENT, &path(), 6_000_000).close();
    assert!(lab.held().is_some_and(|held| held.saved_cwnd > 200_000), "{:?}", lab.held());
}

// The conditions are those of a jump, in both arms.
#[test]
fn both_arms_tell_alike_whether_they_could_jump() {
    let longer = Path::new(20.0, 1001, 250_000);
    for (saved, path, bytes, could_jump) in [
        (Some(SAVED), path(), 600_000, true),
        // The whole response fits in the initial window.
        (Some(SAVED), path(), 9_000, false),
        (None, path(), 600_000, false),
        // RFC 9959, 4.2.1.
        (Some(SAVED), longer, 600_000, false),
        (Some(Saved::new(20_000, 100)), path(), 600_000, false),
    ] {
        for arm in Arm::ALL {
            let lab = Lab::new();
            let client = client_in(arm);
            if let Some(saved) = saved {
                lab.plant_for(client, saved);
            }
            let server = half(&lab);
            download(&server, client, &path, bytes);
            let jumped = could_jump && arm == Arm::Resume;
            assert_eq!(last(&server), said(arm, could_jump, jumped), "{saved:?} {bytes}");
        }
    }
}

// Who holds the claim depends on the arms: it must not decide who is compared.
#[test]
fn connection_without_a_claim_could_jump() {
    let lab = Lab::new();
    let client = client_in(Arm::Resume);
    lab.plant_for(client, SAVED);
    let server = half(&lab);
    let mut connections = [(); 2].map(|()| server.client().from(client).over(&path()).connect());
    let streams = connections.each_mut().map(|c| c.request("GET", "/bytes/200000"));
    for (connection, stream) in connections.iter_mut().zip(streams) {
        connection.response(stream);
    }
    let log = log(&server);
    let jumps = log.iter().filter(|line| line["resume"]["jump_bytes"] != Value::Null);
    assert_eq!((log.len(), jumps.count()), (2, 1), "{log:?}");
    assert!(log.iter().all(|line| line["resume"]["could_jump"] == true), "{log:?}");
}

#[test]
fn only_responses_under_way_at_the_jump_could_jump() {
    for arm in Arm::ALL {
        let lab = Lab::new();
        let client = client_in(arm);
        lab.plant_for(client, SAVED);
        let server = half(&lab);
        let mut client = server.client().from(client).over(&path()).connect();
        client.get("/bytes/10");
        assert_eq!(last(&server), said(arm, false, false));
        client.get("/bytes/600000");
        let jumps = arm == Arm::Resume;
        assert_eq!(last(&server), said(arm, true, jumps));
        client.get("/bytes/600000");
        assert_eq!(last(&server), said(arm, false, jumps));
    }
}

#[test]
fn metrics_compare_both_arms() {
    let lab = Lab::new();
    let server = half(&lab);
    for arm in Arm::ALL {
        let client = client_in(arm);
        lab.plant_for(client, SAVED);
        let mut connection = download(&server, client, &path(), 600_000);
        connection.close();
    }
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    for arm in Arm::ALL.map(Arm::name) {
        let count =
            |name: &str| server.metric(&format!("edge_server_arm_{name}_total{{arm=\"{arm}\"}}"));
        assert_eq!((count("connections"), count("could_jump")), (1, 1), "{arm}");
        assert_eq!((count("retreats"), count("bytes_lost")), (0, 0), "{arm}");
        assert!((600_000..700_000).contains(&count("bytes")), "{arm}: {}", count("bytes"));
        let labels = format!("arm=\"{arm}\",size=\"300kB-1MB\"");
        let name = format!("edge_server_arm_response_seconds_count{{{labels}}}");
        assert_eq!(server.metric(&name), 1, "{arm}");
    }
}

// The jump is twice what the path carries.
#[test]
fn retreat_is_counted_in_its_arm() {
    let lab = Lab::new();
    let client = client_in(Arm::Resume);
    lab.plant_for(client, Saved::new(500_000, 100));
    let server = half(&lab);
    download(&server, client, &Path::new(10.0, 100, 30_000), 600_000).close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    let count =
        |name: &str| server.metric(&format!("edge_server_arm_{name}_total{{arm=\"resume\"}}"));
    assert_eq!(count("retreats"), 1);
    assert!(count("bytes_lost") > 0);
}

#[test]
fn connections_of_one_client_have_one_arm_whatever_happens() {
    let lab = Lab::new();
    let arms = |server: &Server| {
        let addresses = (0..20).map(|host| IpAddr::from([10, 1, 1, host]));
        let of = |client| {
            server.client().from(client).connect().get("/");
            last(server).0
        };
        addresses.map(of).collect::<Vec<_>>()
    };
    let one = half(&lab);
    let before = arms(&one);
    assert!(before.iter().any(|arm| arm == "resume") && before.iter().any(|arm| arm == "control"));
    lab.advance(Duration::from_secs(86_000));
    assert_eq!(arms(&one), before);
    // Another server, with another random secret.
    assert_eq!(arms(&half(&lab)), before);
}

#[test]
fn reload_changes_the_share_for_new_connections() {
    let server = Server::start(&LOGGED);
    for (share, arm) in [(None, "none"), (Some("0"), "control"), (Some("0.999999"), "resume")] {
        let share = share.map_or(Vec::new(), |share| vec!["--resume-share", share]);
        server.reload(&[&LOGGED[..], &share].concat());
        server.connect().get("/");
        assert_eq!(last(&server).0, arm);
    }
}

#[test]
fn clients_without_careful_resume_have_no_arm() {
    for args in [["--resume", "off"], ["--resume-except", "198.51.100.0/24"]] {
        let args = [&LOGGED[..], &["--resume-share", "0.5"], &args].concat();
        let server = Server::start(&args);
        server.connect().get("/");
        assert_eq!(log(&server)[0]["resume"], Value::Null, "{args:?}");
        assert_eq!(server.metric("edge_server_arm_connections_total"), 0);
    }
}
