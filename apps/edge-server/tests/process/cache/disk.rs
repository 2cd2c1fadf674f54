//! Folder of the cache: what a 304 changes there, and a disk that takes nothing.

use std::fs;
use std::process::Command;

use super::brief;
use super::expect;
use super::get;
use super::origin_of;
use super::reply;
use super::serve_by;
use super::serve_with;
use crate::origin::scripted::Act;
use crate::origin::scripted::ScriptedOrigin;
use crate::origin::wait_until;
use crate::support::metrics;
use crate::support::process::server_command;

#[test]
fn confirmed_response_is_fresh_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let body = "0123456789abcdef".repeat(100_000);
    let stale = reply("200 OK\r\ncache-control: max-age=0\r\netag: \"a\"", &body);
    let head = b"HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncache-control: max-age=3600\r\n\r\n";
    let origin = origin_of(&[("a", &[stale, vec![Act::Send(head.to_vec())]])]);
    let cache = dir.path().join("cache");
    let more = ["--cache-dir", cache.to_str().unwrap()];
    let has = |text: &str| {
        let files = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        let mut whole = files.filter(|path| path.extension().is_none());
        whole.any(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        })
    };
    let (mut server, address) = serve_with(dir.path(), origin.address, "", &more);
    expect(&get(address, "/app/a", &[]), 200, &body, "fwd=uri-miss; stored");
    wait_until("it is on disk", || has("max-age=0"));
    server.kill();
    // Its body is still being read when it is confirmed.
    let (mut server, address) = serve_with(dir.path(), origin.address, "", &more);
    expect(&get(address, "/app/a", &[]), 200, &body, "fwd=stale; fwd-status=304; stored");
    wait_until("it is written again", || has("max-age=3600"));
    server.kill();
    let (mut server, address) = serve_with(dir.path(), origin.address, "", &more);
    let only_kept = [("cache-control", "only-if-cached")];
    expect(&get(address, "/app/a", &only_kept), 200, &body, "hit");
    assert_eq!(brief(&get(address, "/app/none", &only_kept)).0, 504);
    expect(&get(address, "/app/a", &[]), 200, &body, "hit");
    assert_eq!(origin.requests("/app/a").len(), 2);
    assert!(server.stop().success());
}

#[test]
fn full_disk_costs_what_would_be_there_and_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let body = "0123456789abcdef".repeat(50_000);
    let (head, text) = ("200 OK\r\ncache-control: max-age=3600", body.clone());
    let origin = ScriptedOrigin::start(move |target| match target.contains("small") {
        true => reply(head, "small"),
        false => reply(head, &text),
    });
    let cache = dir.path().join("cache");
    // The system takes no more of a file than this, and says so as it does of a full disk.
    let limits = "trap '' XFSZ; ulimit -f 200 && exec \"$@\"";
    let start = |args: &[&str]| {
        let server = server_command(args);
        let mut command = Command::new("sh");
        command.args(["-c", limits, "sh"]).arg(server.get_program()).args(server.get_args());
        command
    };
    let options = ["--cache-dir", cache.to_str().unwrap(), "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve_by(start, dir.path(), origin.address, "", &options);
    for round in ["fwd=uri-miss; stored", "hit"] {
        for name in ["a", "b", "c"] {
            expect(&get(address, &format!("/app/{name}"), &[]), 200, &body, round);
        }
    }
    expect(&get(address, "/app/small", &[]), 200, "small", "fwd=uri-miss; stored");
    let files = || fs::read_dir(&cache).unwrap().count();
    wait_until("what is short is on disk", || files() == 2);
    server.wait_for("cannot write to --cache-dir");
    assert_eq!(server.count("cannot write to --cache-dir"), 1);
    let failures = "edge_server_cache_disk_write_failures_total{reason=\"refused\"}";
    assert_eq!(metrics::read(server.metrics_address(), failures), 3);
    assert!(server.stop().success());
}

#[test]
fn folder_that_another_server_has_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let origin = origin_of(&[("a", &[reply("200 OK\r\ncache-control: max-age=60", "a")])]);
    let cache = dir.path().join("cache");
    let options = ["--cache-dir", cache.to_str().unwrap()];
    let (mut first, _) = serve_with(dir.path(), origin.address, "", &options);
    let (mut second, address) = serve_with(dir.path(), origin.address, "", &options);
    let told = format!("--cache-dir {}: another process has it; ", cache.display());
    second.wait_for(&told);
    for round in ["fwd=uri-miss; stored", "hit"] {
        expect(&get(address, "/app/a", &[]), 200, "a", round);
    }
    assert_eq!(first.count(&told), 0);
    assert!(first.stop().success() && second.stop().success());
}
