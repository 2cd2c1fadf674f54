//! Path state that a client carries in its token, between two servers of a fleet that share
//! secrets and a store on disk, and with edge-client. Its rules are tested in memory:
//! `worker/tests/own_state.rs`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::client::ResumptionData;
use crate::support::client::UdpClient;
use crate::support::lab::emulate;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::sibling;
use crate::support::process::Running;

const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// 20 Mbit/s and 40 ms hold 100 kB.
const PATH: &str = "--rate 20 --rtt 40 --buffer 100000";
const PATH_BYTES: u64 = 100_000;
const BYTES: u64 = 1_500_000;

/// A busy machine may answer a claim too late for a jump.
const TRIES: usize = 10;

/// A server of the fleet behind a path of its own, and its access log.
struct Member {
    server: Running,
    emulator: Running,
    address: SocketAddr,
    log: std::path::PathBuf,
}

impl Member {
    fn start(dir: &Path, name: &str, more: &[&str]) -> Self {
        fs::write(dir.join("secrets"), SECRET).unwrap();
        let (secrets, store) = (dir.join("secrets"), dir.join("paths.db"));
        let log = dir.join(name);
        let mut args = vec!["--speedtest", "--secrets", secrets.to_str().unwrap()];
        args.extend(["--store", store.to_str().unwrap()]);
        args.extend(["--access-log", log.to_str().unwrap()]);
        args.extend(more);
        let (server, address) = serve(dir, &args);
        let mut emulator = emulate(address, PATH);
        let address = emulator.address();
        Self { server, emulator, address, log }
    }

    /// A download with a token alone. Returns the next one.
    fn download(&self, token: &ResumptionData) -> ResumptionData {
        let memory = ResumptionData { session: None, ..token.clone() };
        let mut client = UdpClient::connect_again(self.address, &memory);
        assert_eq!(client.get(&format!("/bytes/{BYTES}")).body.len() as u64, BYTES);
        let next = client.resumption_data();
        client.close();
        next
    }

    /// Ends the server. Returns what Careful Resume did for each response.
    fn end(mut self) -> Vec<Value> {
        assert!(self.server.stop().success());
        assert!(self.emulator.stop().success());
        let log = fs::read_to_string(&self.log).unwrap();
        let line = |line| serde_json::from_str::<Value>(line).unwrap()["resume"].clone();
        log.lines().map(line).collect()
    }
}

/// A jump to half of what the path holds at most, and to much of it.
fn is_jump_to_own(resume: &Value) -> bool {
    let jump_bytes = resume["jump_bytes"].as_u64().unwrap_or(0);
    assert!(jump_bytes <= PATH_BYTES * 6 / 10, "{resume}");
    resume["source"] == "token" && jump_bytes > PATH_BYTES / 4
}

#[test]
fn token_of_one_server_is_good_for_another_of_its_fleet() {
    let dir = tempfile::tempdir().unwrap();
    let members = ["one", "other"].map(|name| Member::start(dir.path(), name, &[]));
    let mut token = members[0].download(&ResumptionData::default());
    for run in 0..TRIES {
        token = members[1 - run % 2].download(&token);
    }
    let [one, other] = members.map(Member::end);
    assert_eq!(one[0]["source"], Value::Null, "nothing was known yet");
    for log in [one, other] {
        assert!(log.iter().any(is_jump_to_own), "{log:?}");
        assert!(log.iter().all(|resume| resume["source"] != "store"), "{log:?}");
    }
}

#[test]
fn servers_with_stores_of_their_own_share_no_state() {
    let [dir, other_dir] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let one = Member::start(dir.path(), "log", &["--state", "token"]);
    let other = Member::start(other_dir.path(), "log", &["--state", "token"]);
    let mut token = one.download(&ResumptionData::default());
    for _ in 0..3 {
        other.download(&token);
        token = one.download(&token);
    }
    assert!(other.end().iter().all(|resume| resume["source"].is_null()));
    drop(one.end());
}

#[test]
fn edge_client_that_reuses_its_token_jumps_with_its_own_state() {
    let dir = tempfile::tempdir().unwrap();
    let member = Member::start(dir.path(), "log", &["--state", "token"]);
    let url = format!("https://{}/bytes/{BYTES}", member.address);
    let mut client = Command::new(sibling("edge-client"));
    let repeat = TRIES.to_string();
    client.args([&url, "--insecure", "--reuse", "--repeat", &repeat]);
    let (status, said) = Running::start(&mut client).end();
    assert!(status.success(), "{said:?}");
    assert!(member.end().iter().any(is_jump_to_own));
}

// RFC 9959, 4.3.1: the operator's network has changed.
#[test]
fn flush_of_the_store_makes_tokens_void() {
    let dir = tempfile::tempdir().unwrap();
    let mut member = Member::start(dir.path(), "log", &["--metrics", "127.0.0.1:0"]);
    let token = member.download(&ResumptionData::default());
    // What a connection observes later is about the network as it is then.
    let metrics_at = member.server.metrics_address();
    metrics::wait_until(metrics_at, "edge_server_connections_open", |open| open == 0);
    let store = dir.path().join("paths.db");
    let mut flush = Command::new(sibling("path-store"));
    let flushed = flush.args(["--store", store.to_str().unwrap(), "flush"]).output().unwrap();
    assert!(flushed.status.success(), "{flushed:?}");
    member.download(&token);
    assert!(member.end()[1]["source"].is_null());
}
