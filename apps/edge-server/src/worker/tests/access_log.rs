//! Access log: a line for each response, with what became of it.

use std::fs::File;
use std::time::Duration;

use serde_json::Value;

use super::client::ClientLimits;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;
use super::qlog::only_qlog;
use super::qlog::phases;

/// The lines' paths, statuses, bytes, and whether the client had all of them.
fn briefs(lines: &[Value]) -> Vec<(String, u64, u64, bool)> {
    let brief = |line: &Value| {
        (
            line["path"].as_str().unwrap().to_owned(),
            line["status"].as_u64().unwrap(),
            line["bytes"].as_u64().unwrap(),
            line["complete"].as_bool().unwrap(),
        )
    };
    lines.iter().map(brief).collect()
}

#[test]
fn access_log_has_a_line_for_every_response() {
    let server = Server::start(&["--speedtest", "--access-log", "-"]);
    let mut client = server.connect();
    client.get_with("/bytes/5?q", &[("user-agent", "test \"1\""), ("referer", "https://b/")]);
    let head = client.request("HEAD", "/bytes/7");
    client.response(head);
    let upload = client.post("/upload", vec![7; 100_000], &[]);
    assert_eq!(client.response(upload).body, b"100000\n");
    client.get_with("/bytes/100", &[("range", "bytes=0-9")]);
    assert_eq!(client.get("/missing").status(), "404");
    assert_eq!(client.get("nowhere").status(), "400");
    let refused = client.request("BREW", "/pot");
    assert_eq!(client.response(refused).status(), "501");
    let port = client.address().port();
    client.close();

    let limits =
        ClientLimits { idle_timeout: Duration::from_millis(500), ..ClientLimits::default() };
    let mut vanishing = server.client().granting(limits).connect();
    let stream = vanishing.request("GET", "/bytes/90000000");
    vanishing.receive(stream, 100_000);
    vanishing.vanish();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);

    let lines = server.log();
    let briefs = briefs(&lines);
    let line = |path: &str, status, bytes| (path.to_owned(), status, bytes, true);
    let expected = [
        line("/bytes/5?q", 200, 5),
        line("/bytes/7", 200, 0),
        line("/upload", 200, 7),
        line("/bytes/100", 206, 10),
        line("/missing", 404, 14),
        line("nowhere", 400, 16),
        line("/pot", 501, 20),
    ];
    assert_eq!(briefs[..7], expected);
    let [(path, 200, bytes, false)] = &briefs[7..] else { panic!("{briefs:?}") };
    assert!(path == "/bytes/90000000" && (100_000..90_000_000).contains(bytes), "{briefs:?}");

    let first = &lines[0];
    assert_eq!((&first["method"], &first["host"]), (&"GET".into(), &"localhost".into()));
    assert_eq!((&first["client"], &first["port"]), (&"198.51.100.1".into(), &port.into()));
    assert_eq!(first["referer"], "https://b/");
    assert_eq!(first["user_agent"], "test \"1\"");
    assert_eq!(lines[1]["user_agent"], Value::Null);
    assert_eq!(first["resume"]["retreat"], false);
    assert_ne!(first["connection"], lines[7]["connection"]);
}

#[test]
fn access_log_tells_responses_that_were_cut_short() {
    let lab = Lab::new();
    lab.write("www/large", vec![1; 90_000_000]);
    let server = lab.serve(&["--speedtest", "--access-log", "-"]);
    let mut client = server.connect();
    let upload = client.post("/upload", vec![7; 10], &[("content-length", "11")]);
    assert!(client.response(upload).reset.is_some());
    let stream = client.request("GET", "/large");
    client.receive(stream, 10_000);
    File::options().write(true).open(lab.file("www/large")).unwrap().set_len(10).unwrap();
    assert!(client.response(stream).reset.is_some());
    // Its connection ends while it is under way.
    let stream = client.request("GET", "/bytes/90000000");
    client.receive(stream, 10_000);
    server.stop();
    server.end();

    let briefs = briefs(&server.log());
    let statuses: Vec<_> =
        briefs.iter().map(|(path, status, _, complete)| (&path[..], *status, *complete)).collect();
    let expected =
        [("/upload", 499, false), ("/large", 200, false), ("/bytes/90000000", 200, false)];
    assert_eq!(statuses, expected);
}

#[test]
fn access_log_tells_what_careful_resume_did() {
    let narrow = (Path::new(10.0, 100, 30_000), 500_000, true);
    let good = (Path::new(20.0, 100, 250_000), 250_000, false);
    for (path, saved_cwnd, retreats) in [good, narrow] {
        let lab = Lab::new();
        lab.plant(Saved::new(saved_cwnd, 100));
        let args = ["--speedtest", "--access-log", "-", "--qlog-dir", "DIR/qlogs"];
        let server = lab.serve(&args);
        let mut client = server.client().over(&path).connect();
        client.get("/bytes/600000");
        client.close();
        server.wait_for_metric("edge_server_connections_open", |open| open == 0);
        server.stop();
        server.end();

        let lines = server.log();
        assert_eq!(briefs(&lines), [("/bytes/600000".to_owned(), 200, 600_000, true)]);
        let resume = &lines[0]["resume"];
        let jump = phases(&only_qlog(&lab, "qlogs"))[1].cwnd_bytes;
        assert_eq!((&resume["jump_bytes"], &resume["retreat"]), (&jump.into(), &retreats.into()));
        let trigger =
            if retreats { "exit_recovery" } else { "last_unvalidated_packet_acknowledged" };
        assert_eq!((&resume["phase"], &resume["trigger"]), (&"normal".into(), &trigger.into()));
        let connection = lines[0]["connection"].as_str().unwrap();
        assert!(lab.file(&format!("qlogs/{connection}.sqlog")).exists());
    }
}

#[test]
fn access_log_common_line_has_the_usual_fields() {
    let args = ["--speedtest", "--access-log", "-", "--access-log-format", "common"];
    let server = Server::start(&args);
    let mut client = server.connect();
    client.get("/bytes/5");
    client.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    let lines = server.log_lines();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("198.51.100.1 - - [01/Jan/2026:00:00:00 +0000] "), "{line}");
    let fields = "] \"GET /bytes/5 HTTP/3\" 200 5 \"-\" \"-\" \"localhost\" 0.";
    assert!(line.contains(fields), "{line}");
}
