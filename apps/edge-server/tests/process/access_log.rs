//! Access log: its file and standard output. What its lines tell is tested in memory:
//! `worker/tests/access_log.rs`.

use std::fs;
use std::fs::File;
use std::process::Stdio;

use crate::support::client::UdpClient;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

#[test]
fn access_log_file_is_reopened_upon_signals() {
    let dir = tempfile::tempdir().unwrap();
    let (log, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let config = dir.path().join("edge.toml");
    fs::write(&config, "").unwrap();
    let args = ["--access-log", log.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    let mut client = UdpClient::connect(address);
    client.get("/one");
    fs::rename(&log, &moved).unwrap();
    server.ask_to_reopen_logs();
    while !log.exists() {
        client.get("/two");
    }
    fs::rename(&log, &moved).unwrap();
    // Whether or not there is something new to be read.
    fs::write(&config, "nonsense").unwrap();
    server.ask_to_reload();
    server.wait_for("cannot reload");
    client.get("/three");
    client.close();
    assert!(server.stop().success());
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.lines().last().unwrap().contains(r#""path":"/three""#), "{text}");
    assert!(moved.exists());
}

#[test]
fn access_log_goes_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let output = dir.path().join("output");
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--speedtest"];
    let log = ["--access-log", "-", "--access-log-format", "common"];
    let command = &mut server_command(&[&args[..], &log].concat());
    let mut server = Running::start_to(command, Stdio::from(File::create(&output).unwrap()));
    let mut client = UdpClient::connect(server.address());
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
