//! Takeover: a new process takes the sockets over, and no client notices.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;
use crate::support::client::H3_NO_ERROR;
use crate::support::lab::emulate;
use crate::support::metrics;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;

const CONNECTIONS: &str = "edge_server_connections_total";

/// User without rights of its own.
const NOBODY: u32 = 65_534;

/// More than the transport takes at once.
pub const LONG: &str = "/bytes/30000000";
pub const LONG_BYTES: usize = 30_000_000;

/// However slow the machine is: one client waits for another.
const PATIENCE_S: u64 = 1000;

/// Servers that take over from one another.
pub struct Line {
    dir: tempfile::TempDir,
    pub address: SocketAddr,
    pub metrics: SocketAddr,

    /// Options besides.
    more: Vec<String>,
}

impl Line {
    /// The first server of one.
    pub fn begin() -> (Self, Running) {
        Self::begin_with(&[])
    }

    /// The first server of one whose servers have more options.
    pub fn begin_with(more: &[&str]) -> (Self, Running) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secrets"), "5e".repeat(32)).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let more = more.iter().map(ToString::to_string).collect();
        let mut line = Self { dir, address: any, metrics: any, more };
        let mut server = Running::start(&mut line.command());
        line.address = server.address();
        line.metrics = server.metrics_address();
        (line, server)
    }

    /// The next server, once it has taken over.
    pub fn succeed(&self) -> Running {
        let mut server = Running::start(&mut self.command());
        server.wait_for("took over");
        assert_eq!(server.address(), self.address);
        server
    }

    pub fn command(&self) -> Command {
        let path = |name| self.dir.path().join(name).to_str().unwrap().to_owned();
        let (listen, metrics) = (self.address.to_string(), self.metrics.to_string());
        let (root, socket, secrets) = (path(""), path("takeover.sock"), path("secrets"));
        let args = ["--listen", &listen, "--root", &root, "--speedtest", "--workers", "2"];
        let seconds = &PATIENCE_S.to_string();
        let patience = ["--drain", seconds, "--idle-timeout", seconds, "--stall-timeout", seconds];
        let more = ["--takeover", &socket, "--metrics", &metrics, "--secrets", &secrets];
        let mut command = server_command(&[&args[..], &patience, &more].concat());
        command.args(&self.more);
        command
    }
}

/// A client that hears nothing for long: others are served, or its server is paused.
pub fn patient_client(address: SocketAddr) -> UdpClient {
    let idle_timeout = Duration::from_secs(PATIENCE_S);
    UdpClient::connect_with(address, ClientLimits { idle_timeout, ..ClientLimits::default() })
}

/// A client's whole life. Returns how many bytes came.
pub fn get(address: SocketAddr, bytes: usize) -> usize {
    let mut client = UdpClient::connect(address);
    let response = client.get(&format!("/bytes/{bytes}"));
    client.close();
    response.body.len()
}

#[test]
fn servers_that_have_ended_do_not_count_as_older() {
    let (line, mut newest) = Line::begin();
    for _ in 0..20 {
        let mut old = std::mem::replace(&mut newest, line.succeed());
        old.wait_for("handed over");
        old.kill();
    }
    assert_eq!(get(line.address, 5), 5);
    assert!(newest.stop().success());
}

#[test]
fn takeover_leaves_connections_to_the_old_server() {
    let (line, mut old) = Line::begin();
    // On both workers, but for one time in many.
    let mut clients: Vec<_> = (0..8).map(|_| patient_client(line.address)).collect();
    // One after the other.
    let (path, bytes) = ("/bytes/10000000", 10_000_000);
    let downloads: Vec<_> = clients.iter_mut().map(|client| client.request("GET", path)).collect();
    for (client, stream) in clients.iter_mut().zip(&downloads) {
        client.receive(*stream, 1);
    }
    assert_eq!(metrics::read(line.metrics, CONNECTIONS), 8);
    let mut new = line.succeed();
    old.wait_for("handed over");
    for _ in 0..8 {
        assert_eq!(get(line.address, 5), 5);
    }
    // The page is the new server's now.
    assert_eq!(metrics::read(line.metrics, CONNECTIONS), 8);
    for (client, stream) in clients.iter_mut().zip(&downloads) {
        assert_eq!(client.response(*stream).body.len(), bytes);
        assert_eq!(client.closed(), H3_NO_ERROR);
    }
    assert!(old.end().0.success());
    assert_eq!(get(line.address, 5), 5);
    assert_eq!(metrics::read(line.metrics, CONNECTIONS), 9);
    assert!(new.stop().success());
}

// Also whose handshake is under way.
#[test]
fn takeover_loses_no_request() {
    let (line, mut old) = Line::begin();
    let over = Arc::new(AtomicBool::new(false));
    let address = line.address;
    let clients = (0..3).map(|_| {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut requests = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(get(address, 50_000), 50_000);
                requests += 1;
            }
            requests
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut new = line.succeed();
    assert!(old.end().0.success());
    let mut newest = line.succeed();
    assert!(new.end().0.success());
    over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().unwrap() > 0);
    }
    assert!(newest.stop().success());
}

/// Returns whether a process handles a signal itself.
fn handles(id: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(set.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
}

// Otherwise an operator waits for as long as the new server waits for the old one.
#[test]
fn new_server_that_waits_for_the_old_one_ends_when_it_is_asked_to() {
    let (line, mut old) = Line::begin();
    old.pause();
    let mut new = Running::start(&mut line.command());
    while !handles(new.id(), Signal::TERM) {
        thread::yield_now();
    }
    new.ask_to_drain();
    let (status, said) = new.end();
    assert!(status.success(), "{said:#?}");
    old.go_on();
    assert_eq!(get(line.address, 5), 5);
    assert!(old.stop().success());
}

// As a load of many clients sees it, of which each keeps its connection as long as it may.
#[test]
fn takeover_and_reload_lose_nothing_under_load() {
    let (line, mut old) = Line::begin();
    // Takes four seconds on any machine.
    let mut path = emulate(line.address, "--rate 200 --rtt 20 --buffer 1000000");
    let url = format!("https://{}/bytes/100000", path.address());
    let mut command = Command::new(sibling("edge-client"));
    command.args([&url, "--insecure", "--json", "--requests", "1020"]);
    let mut load = command.args(["--clients", "30"]).stdout(Stdio::piped()).spawn().unwrap();
    metrics::wait_until(line.metrics, CONNECTIONS, |connections| connections >= 30);
    old.ask_to_reload();
    old.wait_for("reloaded");
    let mut new = line.succeed();
    assert!(old.end().0.success());

    let mut summary = String::new();
    load.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
    assert!(load.wait().unwrap().success(), "{summary}");
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["requests"], &summary["failed"]), (&1020.into(), &0.into()), "{summary}");
    assert_eq!(summary["bytes"], 1020 * 100_000_u64);
    // One that had its share before the new server was there has not come back.
    let connections = summary["connections"].as_u64().unwrap();
    assert!((31..=60).contains(&connections), "each client comes back once at most: {summary}");
    assert!(new.stop().success());
}

#[test]
fn takeover_chain_passes_packets_on() {
    let (line, mut oldest) = Line::begin();
    let mut of_oldest = UdpClient::connect(line.address);
    let first = of_oldest.open_request("/bytes/5");
    of_oldest.receive(first, 5);
    let mut middle = line.succeed();
    let mut of_middle = UdpClient::connect(line.address);
    let second = of_middle.open_request("/bytes/6");
    of_middle.receive(second, 6);
    let mut newest = line.succeed();

    of_oldest.end_with_trailers(first);
    assert_eq!(of_oldest.closed(), H3_NO_ERROR);
    assert!(oldest.end().0.success());
    of_middle.end_with_trailers(second);
    assert_eq!(of_middle.closed(), H3_NO_ERROR);
    assert!(middle.end().0.success());
    assert_eq!(get(line.address, 5), 5);
    assert!(newest.stop().success());
}

#[test]
fn takeover_tells_clients_of_a_dead_server() {
    let (line, mut old) = Line::begin();
    let mut client = UdpClient::connect(line.address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    let _new = line.succeed();
    old.kill();
    assert!(client.is_reset());
}

// Also at once, before it has served anybody.
#[test]
fn old_server_serves_again_when_the_new_one_dies() {
    let (line, mut old) = Line::begin();
    let mut client = UdpClient::connect(line.address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    for deaths in 0..3 {
        line.succeed().kill();
        old.wait_for_another("serving again", deaths);
        assert_eq!(get(line.address, 5), 5);
        assert!(metrics::page(line.metrics, "/readyz").ends_with("ready\n"));
    }
    let mut new = line.succeed();
    assert_eq!(client.response(download).body.len(), LONG_BYTES);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(old.end().0.success());
    assert_eq!(get(line.address, 5), 5);
    assert!(new.stop().success());
}

// Without connections, nothing but its hand-over keeps the old server.
#[test]
fn idle_server_serves_again_when_the_new_one_dies_at_once() {
    let (line, mut old) = Line::begin();
    for deaths in 0..3 {
        line.succeed().kill();
        old.wait_for_another("serving again", deaths);
        assert_eq!(get(line.address, 5), 5);
    }
    let mut new = line.succeed();
    assert!(old.end().0.success());
    assert_eq!(get(line.address, 5), 5);
    assert!(new.stop().success());
}

// As one whose end takes long, on a busy machine: until then, nothing tells of it.
#[test]
fn idle_server_stays_until_the_new_one_has_served() {
    let (line, mut old) = Line::begin();
    let mut new = Running::start(&mut line.command());
    new.wait_for("took over");
    new.pause();
    // Of another line, whose new server serves.
    let (other_line, mut idle) = Line::begin();
    let _serving = other_line.succeed();
    assert!(idle.end().0.success());
    new.kill();
    old.wait_for("serving again");
    assert_eq!(get(line.address, 5), 5);
    assert!(old.stop().success());
}

// As under a supervisor whose log collector has died.
#[test]
fn server_without_standard_error_reloads_and_hands_over() {
    let (line, mut old) = Line::begin();
    old.stop_listening();
    for _ in 0..3 {
        old.ask_to_reload();
    }
    assert_eq!(get(line.address, 5), 5);
    let mut new = line.succeed();
    assert!(old.end().0.success());
    assert_eq!(get(line.address, 5), 5);
    assert!(new.stop().success());
}

#[test]
fn server_told_to_end_serves_its_clients_when_the_new_one_dies() {
    let (line, mut old) = Line::begin();
    let mut client = UdpClient::connect(line.address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    let mut new = line.succeed();
    old.ask_to_drain();
    new.kill();
    old.wait_for("the newer server has ended");
    assert!(!metrics::page(line.metrics, "/readyz").ends_with("ready\n"));
    assert_eq!(client.response(download).body.len(), LONG_BYTES);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(old.end().0.success());
}

#[test]
fn oldest_server_outlives_an_idle_one_between() {
    let (line, mut oldest) = Line::begin();
    let mut client = UdpClient::connect(line.address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    let mut middle = line.succeed();
    let mut newest = line.succeed();
    assert!(middle.end().0.success());
    assert_eq!(client.response(download).body.len(), LONG_BYTES);
    client.close();
    assert!(oldest.end().0.success());
    assert!(newest.stop().success());
}

#[test]
fn takeover_that_fails_leaves_the_other_alone() {
    let (mut line, mut old) = Line::begin();
    let (right, port) = (line.address, line.address.port());
    line.address = SocketAddr::new([127, 0, 0, 2].into(), port);
    let (status, said) = Running::start(&mut line.command()).end();
    assert_eq!(status.code(), Some(1), "{said:?}");
    assert!(said.last().unwrap().contains(&format!("listens on {right}")), "{said:?}");
    old.wait_for("cannot hand over, still serving: the new server gave up; its log says why");
    assert_eq!(get(right, 5), 5);

    line.address = right;
    let mut new = line.succeed();
    assert!(old.end().0.success());
    assert_eq!(get(right, 5), 5);
    // What a server leaves behind is no server.
    assert!(new.stop().success());
    let mut first = Running::start(&mut line.command());
    assert_eq!(first.address(), right);
    assert_eq!(first.count("took over"), 0);
    assert!(first.stop().success());
}

/// The process that listens at the socket decides what the new server reads. To run as somebody else takes
/// root; others skip this.
#[test]
fn takeover_from_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = dir.path().join("edge-server");
    fs::copy(env!("CARGO_BIN_EXE_edge-server"), &program).unwrap();
    let (root, socket) = (dir.path().to_str().unwrap(), dir.path().join("takeover.sock"));
    let args = ["--root", root, "--takeover", socket.to_str().unwrap(), "--listen"];
    let mut stranger = Command::new(program);
    stranger.args(args).arg("127.0.0.1:0").uid(NOBODY).gid(NOBODY);
    let mut stranger = Running::start(&mut stranger);
    let address = stranger.address().to_string();

    let (status, said) = Running::start(server_command(&args).arg(address)).end();
    let said = said.last().unwrap();
    assert!(status.code() == Some(1) && said.contains("user 65534 is at the other end"), "{said}");
    assert_eq!(stranger.count("handed over"), 0);
}
