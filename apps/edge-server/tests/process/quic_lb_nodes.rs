//! Servers of a fleet that forward packets to each other, behind a balancer that leads them astray.
//!
//! The servers have addresses of their own, of the loopback network, and the client's relay takes what any of
//! them sends: it stands for servers that share an address.

use std::fs;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::quic_lb::configure;
use crate::quic_lb::encrypted;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::nat::start_relay;
use crate::support::process::server_command;
use crate::support::process::Running;

const FORWARDED: &str = "edge_server_node_datagrams_forwarded_total";
const RECEIVED: &str = "edge_server_node_datagrams_received_total";
const DROPPED: &str = "edge_server_node_datagrams_dropped_total";
const CONNECTIONS: &str = "edge_server_connections_total";
const RESETS: &str = "edge_server_stateless_resets_total";

const FILE_BYTES: usize = 3_000_000;

/// Two servers with the same secrets.
struct TwoNodes {
    dir: tempfile::TempDir,
    nodes: [SocketAddr; 2],
}

/// A server of a fleet.
struct Node {
    server: Running,
    address: SocketAddr,
    metrics: SocketAddr,
}

impl TwoNodes {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secrets"), "5e".repeat(32)).unwrap();
        fs::write(dir.path().join("file"), content()).unwrap();
        // Ports that were free a moment ago, at addresses that nobody else uses.
        let nodes = ["127.8.0.1", "127.8.0.2"]
            .map(|address| UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap());
        Self { dir, nodes }
    }

    fn folder(&self, index: usize) -> PathBuf {
        let folder = self.dir.path().join(index.to_string());
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Starts one of them, at an address that it picks, or takes it over there.
    fn start(&self, index: usize, at: Option<SocketAddr>) -> Node {
        let server_id = ["0a01", "0a02"][index];
        let nodes =
            format!("nodes = {{ 0a01 = '{}', 0a02 = '{}' }}\n", self.nodes[0], self.nodes[1]);
        self.start_with(index, at, &(encrypted(1, server_id) + &nodes))
    }

    fn start_with(&self, index: usize, at: Option<SocketAddr>, toml: &str) -> Node {
        let (dir, folder) = (self.dir.path().to_str().unwrap(), self.folder(index));
        let any = ["127.0.0.1:0", "127.0.0.2:0"][index].parse().unwrap();
        let (address, own) = (at.unwrap_or(any).to_string(), self.nodes[index].to_string());
        let takeover = folder.join("takeover.sock");
        let (secrets, config) = (format!("{dir}/secrets"), configure(&folder, toml));
        let args =
            ["--listen", &address, "--root", dir, "--workers", "2", "--metrics", "127.0.0.1:0"];
        let more = ["--config", &config, "--secrets", &secrets, "--quic-lb-listen", &own];
        let takeover = ["--takeover", takeover.to_str().unwrap()];
        let mut server =
            Running::start(&mut server_command(&[&args[..], &more, &takeover].concat()));
        let (metrics, address) = (server.metrics_address(), server.address());
        Node { server, address, metrics }
    }
}

fn content() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at * at / 7) as u8).collect()
}

/// A balancer that leads one client's packets to another server, once it is told to.
struct Balancer {
    address: SocketAddr,
    goes_astray: Arc<AtomicBool>,
}

impl Balancer {
    fn start(own: SocketAddr, other: SocketAddr) -> Self {
        let goes_astray = Arc::new(AtomicBool::new(false));
        let of_relay = Arc::clone(&goes_astray);
        let address = start_relay(["127.5.5.1"], move |_, _| {
            (0, if of_relay.load(Ordering::Relaxed) { other } else { own })
        });
        Self { address, goes_astray }
    }

    fn go_astray(&self) {
        self.goes_astray.store(true, Ordering::Relaxed);
    }
}

/// A client whose packets go astray in the middle of a download.
struct StrayDownload {
    balancer: Balancer,
    client: UdpClient,
    stream: u64,
}

impl StrayDownload {
    fn begin(own: &Node, other: &Node) -> Self {
        let balancer = Balancer::start(own.address, other.address);
        let mut client = UdpClient::connect(balancer.address);
        let stream = client.request("GET", "/file");
        client.receive(stream, 100_000);
        Self { balancer, client, stream }
    }

    fn finish_astray(&mut self) {
        self.balancer.go_astray();
        assert!(self.client.response(self.stream).body == content());
    }
}

#[test]
fn packets_led_to_another_server_reach_their_own() {
    let fleet = TwoNodes::new();
    let (mut own, other) = (fleet.start(0, None), fleet.start(1, None));
    let mut downloads: Vec<_> = (0..4).map(|_| StrayDownload::begin(&own, &other)).collect();
    downloads[..2].iter_mut().for_each(StrayDownload::finish_astray);
    let forwarded = metrics::read(other.metrics, FORWARDED);
    assert!(forwarded > 0);
    metrics::wait_until(own.metrics, RECEIVED, |received| received == forwarded);
    assert_eq!(metrics::read(other.metrics, CONNECTIONS), 0);

    // Also those of an older process, and of one that serves again.
    let new = fleet.start(0, Some(own.address));
    downloads[2].finish_astray();
    metrics::wait_until(new.metrics, RECEIVED, |received| received > 0);
    drop(new);
    own.server.wait_for("serving again");
    downloads[3].finish_astray();
    assert_eq!(metrics::read(other.metrics, DROPPED), 0);
}

// Its resets come from the address to which the packets went, which servers behind a balancer share.
#[test]
fn server_without_the_connection_answers_what_others_forward() {
    let fleet = TwoNodes::new();
    let (mut own, other) = (fleet.start(0, None), fleet.start(1, None));
    let balancer = Balancer::start(own.address, other.address);
    let mut client = UdpClient::connect(balancer.address);
    let download = client.request("GET", "/file");
    client.receive(download, 1);
    own.server.kill();
    let own = fleet.start(0, Some(own.address));
    balancer.go_astray();
    let _ = client.await_unanswered();
    client.request("GET", "/file");
    client.settle();
    metrics::wait_until(own.metrics, RESETS, |resets| resets > 0);
    assert_eq!(metrics::read(other.metrics, RESETS), 0);
}

#[test]
fn client_of_an_unknown_server_is_reset() {
    let fleet = TwoNodes::new();
    let mut gone = fleet.start(0, None);
    let mut client = UdpClient::connect(gone.address);
    let download = client.request("GET", "/file");
    client.receive(download, 1);
    gone.server.kill();
    let other = fleet.start_with(0, Some(gone.address), &encrypted(1, "0a03"));
    assert!(client.is_reset());
    assert_eq!(metrics::read(other.metrics, FORWARDED), 0);
}

#[test]
fn forged_envelope_is_dropped() {
    let fleet = TwoNodes::new();
    let own = fleet.start(0, None);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for forged in [&b""[..], b"edg1", &[0; 100], &[0x5e; 1500]] {
        stranger.send_to(forged, fleet.nodes[0]).unwrap();
    }
    let forged = format!("{DROPPED}{{reason=\"forged\"}}");
    metrics::wait_until(own.metrics, &forged, |count| count == 4);
    assert_eq!(metrics::read(own.metrics, RECEIVED), 0);
}

#[test]
fn server_says_where_it_listens_for_others() {
    let listen = ["--listen", "127.0.0.1:0", "--quic-lb-listen", "127.0.0.1:0"];
    let more = ["--root", ".", "--metrics", "127.0.0.1:0"];
    let mut server = Running::start(&mut server_command(&[listen, more].concat()));
    let line = server.wait_for("listening for packets of other servers at ");
    let (_, address) = line.rsplit_once(" at ").unwrap();
    let metrics = server.metrics_address();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"edg1", address).unwrap();
    metrics::wait_until(metrics, DROPPED, |count| count == 1);
}

// Each of the servers takes the other one for the server that a client's ID names.
#[test]
fn packet_is_forwarded_once() {
    let fleet = TwoNodes::new();
    let mut gone = fleet.start(0, None);
    let mut client = UdpClient::connect(gone.address);
    gone.server.kill();
    let table =
        |server_id, node| encrypted(1, server_id) + &format!("nodes = {{ 0a01 = '{node}' }}\n");
    let one = fleet.start_with(0, Some(gone.address), &table("0a03", fleet.nodes[1]));
    let other = fleet.start_with(1, None, &table("0a04", fleet.nodes[0]));
    client.request("GET", "/file");
    let _ = client.await_unanswered();
    let misdirected = format!("{DROPPED}{{reason=\"misdirected\"}}");
    metrics::wait_until(other.metrics, &misdirected, |count| count > 0);
    let counts = [(one.metrics, RECEIVED), (other.metrics, FORWARDED)];
    assert_eq!(counts.map(|(metrics, name)| metrics::read(metrics, name)), [0, 0]);
}
