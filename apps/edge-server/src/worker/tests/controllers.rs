//! Congestion controllers of hosts, selected in the handshake: each connection has that of its
//! server name, and all else that the options say.

use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use super::client::ResumptionData;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;

/// What the path holds.
const SAVED: Saved = Saved::new(250_000, 100);
const OBJECT_BYTES: u64 = 600_000;

const HOSTS: &str = r#"
    [[host]]
    names = ["bbr2.example"]
    cc = "bbr2"

    [[host]]
    names = ["reno.example", "*.reno.example"]
    cc = "reno"

    [[host]]
    names = ["other.example"]
"#;

const ARGS: [&str; 7] =
    ["--speedtest", "--config", "DIR/edge.toml", "--access-log", "log", "--secrets", "DIR/secrets"];

fn path() -> Path {
    Path::new(20.0, 100, 250_000)
}

fn configure(lab: &Lab, toml: &str) {
    lab.write("edge.toml", toml);
}

fn lab() -> Lab {
    let lab = Lab::new();
    configure(&lab, HOSTS);
    lab.write("secrets", "5e".repeat(32));
    lab
}

fn serve(lab: &Lab, more: &[&str]) -> Server {
    lab.serve(&[&ARGS, more].concat())
}

fn fetch(client: &mut Client, bytes: u64) {
    assert_eq!(client.get(&format!("/bytes/{bytes}")).body.len() as u64, bytes);
}

/// Returns the last line of the access log, once the client has acknowledged its response.
fn last_line(server: &Server) -> Value {
    server.lab().advance(Duration::from_secs(1));
    serde_json::from_str(server.log_lines().last().unwrap()).unwrap()
}

/// Returns the controller of a connection to a host, as the access log tells it.
fn controller_of(server: &Server, name: Option<&str>) -> String {
    let mut client = server.client().named(name).connect();
    fetch(&mut client, 1000);
    let [info] = &server.connections()[..] else { panic!("one connection") };
    let line = last_line(server);
    assert_eq!(line["cc"].as_str(), info.cc);
    client.close();
    server.lab().advance(Duration::from_secs(10));
    line["cc"].as_str().unwrap().to_owned()
}

#[test]
fn host_has_its_own_controller() {
    let lab = lab();
    let without_names = format!("{HOSTS}\n[[host]]\ncc = 'bbr2'\n");
    for (toml, args, expected) in [
        (HOSTS, &[][..], ["bbr2", "reno", "reno", "cubic", "cubic", "cubic"]),
        (HOSTS, &["--cc", "reno"], ["bbr2", "reno", "reno", "reno", "reno", "reno"]),
        (&without_names, &["--cc", "cubic"], ["bbr2", "reno", "reno", "bbr2", "bbr2", "bbr2"]),
        ("", &["--cc", "bbr2"], ["bbr2"; 6]),
    ] {
        configure(&lab, toml);
        let server = serve(&lab, args);
        let names = ["bbr2.example", "reno.example", "a.Reno.example", "other.example", "x"];
        let names = names.into_iter().map(Some).chain([None]);
        let found: Vec<_> = names.map(|name| controller_of(&server, name)).collect();
        assert_eq!(found, expected, "{toml} {args:?}");
    }
}

#[test]
fn reload_changes_controllers_of_new_connections() {
    let lab = lab();
    let server = serve(&lab, &[]);
    let mut before = server.client().named(Some("bbr2.example")).connect();
    configure(&lab, &HOSTS.replace("cc = \"bbr2\"", "cc = \"reno\""));
    server.reload(&ARGS);

    fetch(&mut before, 1000);
    assert_eq!(last_line(&server)["cc"], "bbr2", "of a connection that was there");
    before.close();
    lab.advance(Duration::from_secs(10));
    assert_eq!(controller_of(&server, Some("bbr2.example")), "reno");
}

// Half of the saved window, whatever the controller is that the server began with.
#[test]
fn every_host_jumps_with_its_own_controller() {
    let names = [("bbr2.example", "bbr2"), ("reno.example", "reno"), ("other.example", "cubic")];
    for (name, controller) in names {
        for cc in ["cubic", "bbr2"] {
            let lab = lab();
            lab.plant(SAVED);
            let server = serve(&lab, &["--cc", cc]);
            let mut client = server.client().named(Some(name)).over(&path()).connect();
            fetch(&mut client, OBJECT_BYTES);
            let line = last_line(&server);
            let expected = if controller == "cubic" { cc } else { controller };
            assert_eq!(line["cc"], expected, "{name}");
            assert_eq!(line["resume"]["jump_bytes"], SAVED.cwnd_bytes / 2, "{line}");
            assert_eq!(line["resume"]["retreat"], false, "{line}");
        }
    }
}

/// Returns the line of the access log of a client that comes again with all that its first
/// connection left, and the time of its download.
fn second_visit(name: &str, args: &[&str], early: bool) -> (Value, Duration) {
    let lab = lab();
    let server = serve(&lab, args);
    let mut first = server.client().named(Some(name)).over(&path()).connect();
    fetch(&mut first, 10 * OBJECT_BYTES);
    let memory = first.resumption_data();
    first.close();
    lab.advance(Duration::from_secs(10));

    let start = lab.now();
    let client = server.client().named(Some(name)).over(&path()).with(&memory);
    let mut client = if early { client.connect_early() } else { client.connect() };
    assert!(early || client.is_resumed());
    fetch(&mut client, OBJECT_BYTES);
    let time = lab.now() - start;
    (last_line(&server), time)
}

// The ClientHello comes with the early data: the choice is made before anything is sent.
#[test]
fn resumed_session_and_early_data_have_the_controller_of_the_host() {
    for name in ["bbr2.example", "reno.example", "other.example"] {
        let controller = name.replace(".example", "").replace("other", "cubic");
        let early_data = ["--early-data", "on"];
        let [late, early] = [false, true].map(|early| second_visit(name, &early_data, early));
        for (line, _) in [&late, &early] {
            assert_eq!(line["cc"], controller, "{line}");
            assert!(line["resume"]["jump_bytes"].is_number(), "{line}");
            assert_eq!(line["resume"]["source"], "token", "{line}");
        }
        let told =
            [&late, &early].map(|(line, _)| line.get("early_data").is_some_and(|v| v == true));
        assert_eq!(told, [false, true]);
        assert!(early.1 < late.1, "{name}: {early:?} {late:?}");
    }
}

/// How often the server's first flight is sent to a client whose token tells a long RTT.
fn first_flights(name: &str) -> usize {
    let lab = lab();
    let path = Path::new(20.0, 1200, 3_000_000);
    let server = serve(&lab, &[]);
    let mut first = server.client().named(Some(name)).over(&path).connect();
    fetch(&mut first, 10 * OBJECT_BYTES);
    let memory = ResumptionData { session: None, ..first.resumption_data() };
    first.close();
    lab.advance(Duration::from_secs(30));

    let client = server.client().named(Some(name)).over(&path).with(&memory).connect();
    let (_, down) = client.datagrams();
    let first_at = down[0].at;
    let before_answer = Duration::from_millis(1190);
    down.iter().filter(|datagram| datagram.at < first_at + before_answer).count()
}

// The RTT that the token tells is there before the ClientHello is read.
#[test]
fn long_initial_rtt_outlives_the_choice_of_a_controller() {
    let configured = first_flights("other.example");
    for name in ["bbr2.example", "reno.example"] {
        assert_eq!(first_flights(name), configured, "{name}");
    }
}
