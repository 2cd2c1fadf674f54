//! Speed test: what a client learns of its connection, and what it may ask of it.

use serde_json::Value;

use super::client::Client;
use super::codes::H3_NO_ERROR;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;

/// Some round trips more than a jump takes.
const DOWNLOAD: &str = "/bytes/1000000";
const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

fn connect(server: &Server) -> Client {
    server.client().over(&Path::new(20.0, 100, 250_000)).connect()
}

fn status(client: &mut Client) -> Value {
    serde_json::from_slice(&client.get("/speedtest/status").body).unwrap()
}

fn close(client: &mut Client) {
    let stream = client.post("/speedtest/close", Vec::new(), &[SAME_ORIGIN]);
    assert_eq!(client.response(stream).status(), "200");
}

#[test]
fn speedtest_status_tells_of_the_jump_of_a_second_visit() {
    let server = Server::start(&["--speedtest"]);
    let mut first = connect(&server);
    let before = status(&mut first);
    assert_eq!((&before["outcome"], &before["jump_cwnd"]), (&"undecided".into(), &Value::Null));
    assert!((100.0..110.0).contains(&before["rtt_ms"].as_f64().unwrap()), "{before}");
    first.get(DOWNLOAD);
    let after = status(&mut first);
    assert_eq!((&after["outcome"], &after["trigger"]), (&"no_jump".into(), &"no_saved_set".into()));
    assert_eq!(after["connection"], before["connection"]);
    close(&mut first);

    let mut second = connect(&server);
    second.get(DOWNLOAD);
    let after = status(&mut second);
    assert_eq!(after["outcome"], "validated", "{after}");
    assert_ne!(after["connection"], before["connection"]);
    let number = |name: &str| after[name].as_f64().unwrap();
    assert_eq!(number("jump_cwnd"), (number("saved_cwnd") / 2.0).floor());
    let windows = number("jump_cwnd") / number("initial_window");
    let trips = (windows + 2.0).log2() - 2.0;
    assert!((number("round_trips_saved") - trips).abs() < 0.2, "{after}, not {trips}");
}

// RFC 9959, 4.2: a client may know better.
#[test]
fn speedtest_download_without_a_jump_is_observed_all_the_same() {
    let lab = Lab::new();
    lab.plant(Saved::new(100_000, 100));
    let server = lab.serve(&["--speedtest"]);
    let mut control = connect(&server);
    control.get(&format!("{DOWNLOAD}?resume=off"));
    // Later ones neither.
    control.get(DOWNLOAD);
    assert_eq!(status(&mut control)["outcome"], "declined");
    assert_eq!(server.metric("edge_server_resume_jumps_offered_total"), 0);
    close(&mut control);
    assert!(lab.held().unwrap().saved_cwnd > 100_000);

    let mut other = connect(&server);
    other.get(DOWNLOAD);
    assert_eq!(status(&mut other)["outcome"], "validated");
}

#[test]
fn speedtest_close_sends_the_client_to_a_new_connection() {
    let server = Server::start(&["--speedtest"]);
    let mut client = connect(&server);
    client.get(DOWNLOAD);
    assert_eq!(server.lab().held(), None, "it is too early");
    let stream = client.post("/speedtest/close", Vec::new(), &[SAME_ORIGIN]);
    // It comes with the response or before, never after.
    assert_eq!(client.response(stream).status(), "200");
    assert_eq!(client.goaways(0).len(), 1);
    assert!(server.lab().held().is_some());
    assert_eq!(client.closed(), H3_NO_ERROR);
}

#[test]
fn server_timing_tells_pages_of_the_origin_of_the_jump() {
    let lab = Lab::new();
    lab.plant(Saved::new(250_000, 100));
    lab.write("edge.toml", "[[host]]\nserver-timing = true");
    let server = lab.serve(&["--speedtest", "--config", "DIR/edge.toml"]);
    let mut client = connect(&server);
    let early = client.get_with("/", &[SAME_ORIGIN]);
    assert!(early.headers["server-timing"].starts_with("resume;desc=\"outcome=undecided\", rtt"));
    client.get(DOWNLOAD);
    let late = client.get_with("/", &[SAME_ORIGIN]);
    let expected = "resume;desc=\"outcome=validated&trigger=last_unvalidated_packet_acknowledged\
                    &source=store&saved_cwnd=250000&saved_rtt_ms=100&jump_cwnd=125000&round_trips_saved=";
    let timing = &late.headers["server-timing"];
    assert!(timing.starts_with(expected), "{timing}");
    assert!(!client.get("/").headers.contains_key("server-timing"));
}

// It takes nine round trips for that; a receive window of 64 KiB at first would add two.
#[test]
fn receive_window_does_not_limit_the_slow_start_of_an_upload() {
    let lab = Lab::new();
    let server = lab.serve(&["--speedtest"]);
    let mut client = server.client().over(&Path::new(100.0, 600, 8_000_000)).connect();
    let start = lab.now();
    let stream = client.post("/upload", vec![7; 4_000_000], &[]);
    assert_eq!(client.response(stream).body, b"4000000\n");
    let round_trips = (lab.now() - start).as_secs_f64() / 0.6;
    assert!(round_trips < 10.0, "{round_trips} round trips");
}
