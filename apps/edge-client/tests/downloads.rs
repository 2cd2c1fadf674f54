//! Downloads by the binary from a server in this process.

mod support;

use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use serde_json::Value;
use support::pattern;
use support::Server;

fn client(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-client"));
    command
        .args(args)
        .env_remove("RUST_LOG")
        .env_remove("SSL_CERT_FILE")
        .env_remove("SSL_CERT_DIR");
    command
}

fn run(args: &[&str]) -> Output {
    client(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn json_lines(output: &Output) -> Vec<Value> {
    let lines = stdout(output).lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Checks for exit code `code` and one line on stderr with all `words`.
#[track_caller]
fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    assert_eq!(stderr(output).lines().count(), 1, "{}", stderr(output));
    for word in words {
        assert!(stderr(output).contains(word), "{word}: {}", stderr(output));
    }
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn download_prints_one_summary_line() {
    let server = Server::start();
    let output = run(&[&server.url("/bytes/300000"), "--insecure"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert_eq!(stdout(&output).lines().count(), 1);
    assert!(stdout(&output).starts_with("300000 bytes in "));

    let seen = server.stop();
    assert_eq!(seen.closed, 1, "the client says goodbye");
}

#[test]
fn body_arrives_unchanged_in_file_and_on_stdout() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    let url = server.url("/bytes/300000");

    let output = run(&[&url, "--insecure", "-o", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read(&file).unwrap() == pattern(300_000));
    assert_eq!(files(dir.path()), 1);

    let output = run(&[&url, "--insecure", "-o", "-"]);
    assert!(output.status.success());
    assert!(output.stdout == pattern(300_000));
    assert!(stderr(&output).starts_with("300000 bytes in "));
}

#[test]
fn empty_body_is_a_complete_download() {
    let server = Server::start();
    let output = run(&[&server.url("/bytes/0"), "--insecure", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let line = &json_lines(&output)[0];
    assert_eq!(line["bytes"], 0);
    assert!(line["ttlb_ms"].is_f64());
}

#[test]
fn repeat_is_a_new_connection_and_a_json_line() {
    let server = Server::start();
    let url = server.url("/bytes/20000");
    let output = run(&[
        &url,
        "--insecure",
        "--json",
        "--repeat",
        "3",
        "--interval",
        "0.01",
        "--local",
        "127.0.2.1",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert_eq!(line["url"], url);
        assert_eq!(line["status"], 200);
        assert_eq!(line["bytes"], 20_000);
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(number("min_rtt_ms") > 0.0);
        assert!(number("ttfb_ms") >= number("min_rtt_ms"));
        assert!(number("ttlb_ms") >= number("ttfb_ms"));
        assert!(number("goodput_mbps") > 0.0);
        assert_eq!(line.get("error"), None);
    }

    let mut seen = server.stop();
    assert!(seen.clients.iter().all(|c| c.ip().to_string() == "127.0.2.1"));
    seen.clients.sort();
    seen.clients.dedup();
    assert_eq!(seen.clients.len(), 3, "a socket for each");
    assert_eq!(seen.id_bytes, [0; 3], "which needs no connection ID");
    assert_eq!(seen.resumed, 0);
    assert_eq!(seen.windows, [(1 << 30, 1 << 30); 3], "never the limit");
}

#[test]
fn connect_overrides_the_address_but_not_the_name() {
    let server = Server::start();
    let addr = server.addr.to_string();
    let output = run(&["https://no-such-host.invalid/bytes/10", "--insecure", "--connect", &addr]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(server.stop().authorities, ["no-such-host.invalid"]);
}

#[test]
fn certificate_must_be_trusted_and_for_the_host() {
    let server = Server::start();
    let addr = server.addr.to_string();
    let by_name = server.url("/bytes/10");
    let by_address = format!("https://{addr}/bytes/10");
    let trusting = |url: &str| {
        client(&[url, "--connect", &addr])
            .env("SSL_CERT_FILE", &server.certificate)
            .output()
            .unwrap()
    };
    for url in [&by_name, &by_address] {
        let output = trusting(url);
        assert!(output.status.success(), "{url}: {}", stderr(&output));

        let words = ["localhost", "not trusted", "--insecure"];
        assert_fails(&run(&[&by_name]), 1, &words);
    }

    for other in ["https://example.org/bytes/10", "https://127.0.0.9/bytes/10"] {
        let words = ["not trusted", "mismatch", "--insecure"];
        assert_fails(&trusting(other), 1, &words);
    }
    assert_eq!(server.stop().authorities.len(), 2, "asked trusted hosts only");
}

#[test]
fn error_names_unusable_ca_file() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for file in [&empty, &dir.path().join("none.pem")] {
        let output = client(&["https://localhost:1/"]).env("SSL_CERT_FILE", file).output().unwrap();
        assert_fails(&output, 1, &["SSL_CERT_FILE", file.to_str().unwrap()]);
    }
}

#[test]
fn error_status_fails_and_writes_no_file() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    for (path, status) in [("/missing", 404), ("/moved", 301)] {
        let url = server.url(path);
        let args = [&url, "--insecure", "--json", "-o", file.to_str().unwrap()];
        let output = run(&args);
        assert_fails(&output, 1, &[&url, &status.to_string()]);
        let lines = json_lines(&output);
        assert_eq!(lines[0]["status"], status);
        assert!(lines[0]["error"].is_string());
        assert_eq!(files(dir.path()), 0);
    }
}

#[test]
fn broken_body_fails_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    // How much came before the silence depends on what the network lost.
    let silence: &[&str] = &["stopped responding after", "of 100000 bytes"];
    let table: [(&str, &[&str]); 5] = [
        ("/short/100000", &["ended after 100000 of 100001 bytes"]),
        ("/reset/100000", &["gave up after"]),
        ("/close/100000", &["out of order"]),
        ("/silent/100000", silence),
        ("/vanish/100000", silence),
    ];
    for (path, words) in table {
        let server = Server::start();
        let url = server.url(path);
        let output = run(&[
            &url,
            "--insecure",
            "--json",
            "--idle-timeout",
            "0.5",
            "-o",
            file.to_str().unwrap(),
        ]);
        assert_fails(&output, 1, &[&[url.as_str()], words].concat());
        let line = &json_lines(&output)[0];
        assert_eq!(line["status"], 200, "{path}");
        assert!(line["ttlb_ms"].is_null(), "{path}");
        assert_eq!(files(dir.path()), 0, "{path}");
    }
}

#[test]
fn first_failure_ends_the_run() {
    let server = Server::start();
    let url = server.url("/missing");
    let output = run(&[&url, "--insecure", "--json", "--repeat", "3"]);
    assert_fails(&output, 1, &["404"]);
    assert_eq!(json_lines(&output).len(), 1);
}

#[test]
fn closed_port_is_reported_at_once() {
    let server = Server::start();
    let (url, addr) = (server.url("/"), server.addr.to_string());
    server.stop();
    let output = run(&[&url, "--json"]);
    assert_fails(&output, 1, &[&url, &addr, "nothing listens"]);
    let line = &json_lines(&output)[0];
    assert_eq!(line["status"], 0);
    assert_eq!(line["bytes"], 0);
    assert!(line["error"].is_string());
}

#[test]
fn silent_port_is_given_up() {
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = deaf.local_addr().unwrap().to_string();
    let url = format!("https://{addr}/");
    for limit in ["--connect-timeout", "--idle-timeout"] {
        let output = run(&[&url, limit, "0.2"]);
        assert_fails(&output, 1, &[&url, "no response"]);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn error_names_unreachable_host() {
    let table: [(&[&str], &str); 3] = [
        (&["https://no-such-host.invalid/"], "no-such-host.invalid"),
        (&["https://127.0.0.1:1/", "--local", "192.0.2.1"], "192.0.2.1"),
        (&["https://127.0.0.1:1/", "-o", "/no/such/file"], "/no/such/file"),
    ];
    for (args, word) in table {
        assert_fails(&run(args), 1, &[word]);
    }
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    let table: [(&[&str], &str); 4] = [
        (&[], "<URL>"),
        (&["http://localhost/"], "https://"),
        (&["https:///file"], "'https:///file'"),
        (&["https://localhost/", "--frobnicate"], "'--frobnicate'"),
    ];
    for (args, word) in table {
        let output = run(args);
        assert_fails(&output, 2, &[word]);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn interrupt_stops_at_once_with_one_line() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    let url = server.url("/silent/100000");
    let mut child = client(&[&url, "--insecure", "-o", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();

    // The file is opened after the signal handler is in place.
    while files(dir.path()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());

    let output = child.wait_with_output().unwrap();
    assert_fails(&output, 1, &[&url, "interrupted"]);
    assert_eq!(files(dir.path()), 0);
}

#[test]
fn load_makes_its_requests_on_its_connections() {
    let server = Server::start();
    let body = ring::digest::digest(&ring::digest::SHA256, &pattern(3_000));
    let sha256 = hex::encode(body);
    let url = server.url("/bytes/3000");
    let output = run(&[
        &url,
        "--insecure",
        "--json",
        "--requests=40",
        "--clients=4",
        "--streams=3",
        "--per-connection=5",
        "--sha256",
        &sha256,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let [summary] = &json_lines(&output)[..] else { panic!("{}", stdout(&output)) };
    assert_eq!(summary["requests"], 40);
    assert_eq!(summary["failed"], 0);
    assert_eq!(summary["bytes"], 40 * 3_000);
    assert_eq!(summary["connections"], 8);
    assert!(summary["ttlb_ms"]["p50"].as_f64().unwrap() > 0.0);

    let seen = server.stop();
    assert_eq!((seen.clients.len(), seen.closed), (8, 8));
    assert_eq!(seen.authorities.len(), 40);
}

#[test]
fn requests_of_one_moment_share_packets() {
    let server = Server::start();
    let url = server.url("/bytes/100");
    let output = run(&[&url, "--insecure", "--json", "--requests=40", "--streams=10"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(server.stop().max_requests_per_packet > 1);
}

#[test]
fn load_counts_failures_and_goes_on() {
    let wrong = "0".repeat(64);
    for (path, more, connections, words) in [
        ("/bytes/10", vec!["--sha256", &wrong], 2, "another SHA-256"),
        ("/short/10", vec![], 2, "after 10 bytes"),
        ("/reset/1000", vec![], 2, "gave up"),
        ("/nowhere", vec![], 2, "answered 404"),
        ("/close/1000", vec!["--per-connection=1"], 6, "closed the connection"),
        ("/silent/1000", vec!["--idle-timeout=0.5"], 2, "no response"),
    ] {
        let server = Server::start();
        let url = server.url(path);
        let args = [&[&url, "--insecure", "--json", "--requests=6", "--clients=2"], &more[..]];
        let output = run(&args.concat());
        assert_fails(&output, 1, &["6 of 6 requests failed", words]);
        let [summary] = &json_lines(&output)[..] else { panic!("{}", stdout(&output)) };
        assert_eq!((&summary["failed"], &summary["bytes"]), (&6.into(), &0.into()), "{path}");
        assert_eq!(summary["connections"], connections, "{path}");
    }
}

#[test]
fn load_without_server_ends() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", nobody.local_addr().unwrap());
    let args = [&url, "--insecure", "--requests=4", "--clients=2", "--connect-timeout=0.3"];
    assert_fails(&run(&args), 1, &["4 of 4 requests failed", "no response"]);
}
