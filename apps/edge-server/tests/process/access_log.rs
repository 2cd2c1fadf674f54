//! The access log: a line for each response, with what became of it.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::lab::emulate;
use crate::support::lab::fetch;
use crate::support::lab::Lab;
use crate::support::lab::Planted;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

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
fn every_response_has_a_line_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let args = ["--speedtest", "--workers", "2", "--access-log", log.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    let mut client = Client::connect(address);
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
    client.close();

    let limits = Limits { idle_timeout_ms: 500, ..Limits::default() };
    let mut vanishing = Client::connect_with(address, limits);
    let stream = vanishing.request("GET", "/bytes/90000000");
    vanishing.receive(stream, 100_000);
    drop(vanishing);
    server.wait_for_another("connection is over", 1);
    assert!(server.stop().success());

    let lines = lines(&log);
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
    assert_eq!((&first["client"], &first["referer"]), (&"127.0.0.1".into(), &"https://b/".into()));
    assert_eq!(first["user_agent"], "test \"1\"");
    assert_eq!(lines[1]["user_agent"], Value::Null);
    assert_eq!(first["resume"]["retreat"], false);
    assert_ne!(first["connection"], lines[7]["connection"]);
    let shown = format!("{}: connection from 127.0.0.1:{}", first["connection"], first["port"]);
    server.wait_for(&shown.replace('"', ""));
}

#[test]
fn requests_that_the_client_takes_back_or_that_the_server_gives_up_are_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    fs::write(dir.path().join("large"), vec![1; 90_000_000]).unwrap();
    let args = ["--speedtest", "--access-log", log.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    let mut client = Client::connect(address);
    // One without a response is none to tell of.
    let upload = client.post("/upload", vec![7; 10], &[("content-length", "11")]);
    assert!(client.response(upload).reset.is_some());
    let stream = client.request("GET", "/large");
    client.receive(stream, 10_000);
    File::options().write(true).open(dir.path().join("large")).unwrap().set_len(10).unwrap();
    assert!(client.response(stream).reset.is_some());
    // Its connection ends while it is under way.
    let stream = client.request("GET", "/bytes/90000000");
    client.receive(stream, 10_000);
    assert!(server.stop().success());

    let briefs = briefs(&lines(&log));
    let paths: Vec<_> = briefs.iter().map(|(path, ..)| path.as_str()).collect();
    assert_eq!(paths, ["/large", "/bytes/90000000"]);
    assert!(
        briefs.iter().all(|(_, status, _, complete)| *status == 200 && !complete),
        "{briefs:?}"
    );
}

#[test]
fn a_download_tells_what_careful_resume_did() {
    let narrow = ("--rate 10 --rtt 100 --buffer 30000", 500_000, true);
    let good = ("--rate 20 --rtt 100 --buffer 250000", 250_000, false);
    for (path, saved_cwnd, retreats) in [good, narrow] {
        let lab = Lab::new();
        lab.plant(Planted::new(saved_cwnd, 100));
        let log = lab.file("access.log");
        let (mut server, address) = lab.serve("run", &["--access-log", log.to_str().unwrap()]);
        let mut emulator = emulate(address, path);
        assert!(fetch(emulator.address(), 600_000).end().0.success());
        server.wait_for("connection is over");
        assert!(server.stop().success());
        assert!(emulator.stop().success());

        let lines = lines(&log);
        assert_eq!(briefs(&lines), [("/bytes/600000".to_owned(), 200, 600_000, true)]);
        let resume = &lines[0]["resume"];
        let jump = lab.phases("run")[1].cwnd_bytes;
        assert_eq!((&resume["jump_bytes"], &resume["retreat"]), (&jump.into(), &retreats.into()));
        let trigger =
            if retreats { "exit_recovery" } else { "last_unvalidated_packet_acknowledged" };
        assert_eq!((&resume["phase"], &resume["trigger"]), (&"normal".into(), &trigger.into()));
        assert!(lab.has_qlog("run", lines[0]["connection"].as_str().unwrap()));
    }
}

#[test]
fn the_file_is_opened_anew_upon_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let (log, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let config = dir.path().join("edge.toml");
    fs::write(&config, "").unwrap();
    let args = ["--access-log", log.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    let mut client = Client::connect(address);
    client.get("/one");
    fs::rename(&log, &moved).unwrap();
    // Whether or not there is something new to be read.
    fs::write(&config, "nonsense").unwrap();
    server.ask_to_reload();
    server.wait_for("cannot reload");
    client.get("/two");
    client.close();
    assert!(server.stop().success());
    assert_eq!(briefs(&lines(&log)).last().unwrap().0, "/two");
    assert!(moved.exists());
}

#[test]
fn common_lines_go_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let output = dir.path().join("output");
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--speedtest"];
    let log = ["--access-log", "-", "--access-log-format", "common"];
    let command = &mut server_command(&[&args[..], &log].concat());
    let mut server = Running::start_to(command, Stdio::from(File::create(&output).unwrap()));
    let mut client = Client::connect(server.address());
    client.get("/bytes/5");
    client.close();
    assert!(server.stop().success());
    let said = fs::read_to_string(output).unwrap();
    assert!(said.starts_with("127.0.0.1 - - ["), "{said}");
    assert!(
        said.contains("] \"GET /bytes/5 HTTP/3\" 200 5 \"-\" \"-\" \"localhost\" 0."),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}
