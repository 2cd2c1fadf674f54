//! Two connections over a slow path, with the server started anew in between:
//! the second jumps to what the first one saw.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use crate::support::client::Client;
use crate::support::process::serve;
use crate::support::process::sibling;
use crate::support::process::Running;
use serde_json::Value;

/// 50 Mbit/s and 40 ms hold 250 kB: the first download is many times that.
const PATH: [&str; 6] = ["--rate", "50", "--rtt", "40", "--buffer", "250000"];
const FIRST_BYTES: u64 = 6_000_000;
const SECOND_BYTES: u64 = 2_000_000;

/// A store that outlives the servers of a test.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A server that keeps qlogs in the folder `run`.
    fn serve(&self, run: &str, more: &[&str]) -> (Running, SocketAddr) {
        let (store, qlogs) = (self.dir.path().join("paths.db"), self.dir.path().join(run));
        let mut args = vec!["--speedtest", "--store", store.to_str().unwrap()];
        args.extend(["--qlog-dir", qlogs.to_str().unwrap()]);
        args.extend(more);
        serve(self.dir.path(), &args)
    }

    /// The phases of the only connection of a run that is over.
    fn phases(&self, run: &str) -> Vec<String> {
        let mut qlogs = fs::read_dir(self.dir.path().join(run)).unwrap();
        let qlog = qlogs.next().expect("a qlog file").unwrap().path();
        assert!(qlogs.next().is_none(), "one connection, one file");
        phases(&fs::read_to_string(qlog).unwrap())
    }

    /// How many connections of a run that is over have jumped.
    fn jumps(&self, run: &str) -> usize {
        let qlogs = fs::read_dir(self.dir.path().join(run)).unwrap();
        let qlogs = qlogs.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        qlogs.filter(|qlog| phases(qlog).contains(&"unvalidated".to_owned())).count()
    }

    /// A server's life for one download. Returns the phases of its connection.
    fn download(&self, run: &str, server: &[&str], path: &[&str], bytes: u64) -> Vec<String> {
        let (mut server, address) = self.serve(run, server);
        let (_emulator, mut client) = start_download(address, path, bytes);
        let (status, said) = client.end();
        assert!(status.success(), "{said:?}");
        assert!(server.stop().success());
        self.phases(run)
    }
}

/// Starts a download over the path: its emulator and its client.
fn start_download(server: SocketAddr, path: &[&str], bytes: u64) -> (Running, Running) {
    let mut emulator = start_emulator(server, path);
    let client = start_client(emulator.address(), bytes);
    (emulator, client)
}

fn start_emulator(server: SocketAddr, path: &[&str]) -> Running {
    let to = server.to_string();
    let mut emulator = Command::new(sibling("link-emulator"));
    Running::start(emulator.args(["--listen", "127.0.0.1:0", "--to", &to]).args(PATH).args(path))
}

fn start_client(server: SocketAddr, bytes: u64) -> Running {
    let url = format!("https://{server}/bytes/{bytes}");
    Running::start(Command::new(sibling("edge-client")).args([&url, "--insecure"]))
}

fn phases(qlog: &str) -> Vec<String> {
    let events = qlog.split('\u{1e}').filter_map(|line| serde_json::from_str(line).ok());
    events
        .filter(|event: &Value| event["name"] == "quic:careful_resume_phase_updated")
        .map(|event| event["data"]["new"].as_str().unwrap().to_owned())
        .collect()
}

/// The connection was given a set, and jumped. How that ends depends on how busy the
/// machine is; `scenarios` takes care of it.
#[track_caller]
fn assert_jumped(phases: &[String]) {
    assert_eq!(phases.get(..2), Some(&JUMP.map(str::to_owned)[..]), "{phases:?}");
}

const JUMP: [&str; 2] = ["reconnaissance", "unvalidated"];

#[test]
fn a_restarted_server_resumes_what_it_learnt_before() {
    let bench = Bench::new();
    let first = bench.download("first", &[], &[], FIRST_BYTES);
    assert_eq!(first, ["normal"], "nothing was known yet");
    assert_jumped(&bench.download("second", &[], &[], SECOND_BYTES));

    // The claim went back: the next connection gets the set at once.
    assert_jumped(&bench.download("third", &["--cc", "reno"], &[], SECOND_BYTES));
}

#[test]
fn what_a_connection_learnt_is_kept_when_the_server_stops_amid_it() {
    let bench = Bench::new();
    let (mut server, address) = bench.serve("first", &[]);
    let (_emulator, _client) = start_download(address, &[], 100 * FIRST_BYTES);
    server.wait_for(": records ");
    assert!(server.stop().success());
    assert_jumped(&bench.download("second", &[], &[], SECOND_BYTES));
}

// RFC 9959, 3.5: after a safe retreat the saved set is deleted.
#[test]
fn a_path_that_does_not_take_the_jump_is_forgotten() {
    let bench = Bench::new();
    bench.download("first", &[], &[], FIRST_BYTES);
    let lossy = bench.download("second", &[], &["--drop", "down:50-54"], SECOND_BYTES);
    assert!(lossy.contains(&"safe_retreat".to_owned()), "{lossy:?}");
    assert_eq!(bench.download("third", &[], &[], SECOND_BYTES), ["normal"]);
}

// RFC 9959, 3.2 and 4.2: a saved set is used by one connection at a time.
#[test]
fn of_two_clients_at_once_one_jumps() {
    let bench = Bench::new();
    bench.download("first", &[], &[], FIRST_BYTES);

    let (mut server, address) = bench.serve("both", &[]);
    let mut emulators = [start_emulator(address, &[]), start_emulator(address, &[])];
    let paths = emulators.each_mut().map(|emulator| emulator.address());
    for mut client in paths.map(|path| start_client(path, SECOND_BYTES)) {
        assert!(client.end().0.success());
    }
    assert!(server.stop().success());
    assert_eq!(bench.jumps("both"), 1);
}

#[test]
fn a_client_that_stays_and_asks_no_more_keeps_the_set_from_nobody() {
    let bench = Bench::new();
    bench.download("first", &[], &[], FIRST_BYTES);

    let (mut server, address) = bench.serve("both", &[]);
    let mut emulators = [start_emulator(address, &[]), start_emulator(address, &[])];
    let [stays, comes] = emulators.each_mut().map(|emulator| emulator.address());
    let mut first = Client::connect(stays);
    assert_eq!(first.get(&format!("/bytes/{SECOND_BYTES}")).body.len() as u64, SECOND_BYTES);
    first.settle();
    assert!(start_client(comes, SECOND_BYTES).end().0.success());

    first.close();
    assert!(server.stop().success());
    assert_eq!(bench.jumps("both"), 2);
}

#[test]
fn nothing_is_resumed_when_it_is_switched_off() {
    let bench = Bench::new();
    bench.download("first", &[], &[], FIRST_BYTES);
    let off = bench.download("off", &["--resume", "off"], &[], SECOND_BYTES);
    assert!(off.is_empty(), "{off:?}");
}

#[test]
fn a_response_within_the_initial_window_claims_nothing() {
    let bench = Bench::new();
    bench.download("first", &[], &[], FIRST_BYTES);
    let small = bench.download("small", &[], &[], 1000);
    assert!(!small.contains(&"reconnaissance".to_owned()), "{small:?}");
}
