//! Attacks that make the server keep much, beside a well-behaved client: its goodput stays.
//!
//! Method: two servers with the same options, one of them under attack. Each has two workers, which
//! share the budgets. The client downloads from one and the other in turn. Passes if the median
//! goodput from the server under attack is at least 70 % of the other's.

use std::fs;
use std::fs::File;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use quiche::clock;

use crate::case::get;
use crate::packet::Space;
use crate::peer::parameters_for;
use crate::peer::HostilePeer;
use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::Running;
use crate::wire::h3_frame;

const DOWNLOAD: &str = "/regular";
const DOWNLOAD_BYTES: usize = 2_000_000;
const ROUNDS: usize = 7;
const SHARE_MIN: f64 = 0.7;

/// Measurements, of which one has to pass: other programs disturb them.
const ATTEMPTS: usize = 5;

/// One attack at a time.
static ATTACK: Mutex<()> = Mutex::new(());

const PING: u8 = 0x01;

/// Receive calls between two connections of an attacking peer.
const PAUSE_POLLS: usize = 100;

/// Files beside the regular one.
const FILES: u64 = 120;

/// A server and its metrics.
struct Target {
    _server: Running,
    address: SocketAddr,
    metrics_at: SocketAddr,
}

impl Target {
    fn start(root: &std::path::Path, arguments: &[&str]) -> Self {
        let common = ["--workers", "2", "--metrics", "127.0.0.1:0", "--speedtest"];
        let (mut server, address) = serve(root, &[&common, arguments].concat());
        let metrics_at = server.metrics_address();
        Self { _server: server, address, metrics_at }
    }
}

/// Returns the time of a download.
fn time_of(client: &mut UdpClient) -> Duration {
    let start = clock::now();
    assert_eq!(client.get(DOWNLOAD).body.len(), DOWNLOAD_BYTES);
    clock::now() - start
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// Returns the goodput of the second client, of that of the first one.
fn share_of(clients: &mut [UdpClient; 2]) -> f64 {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(time_of(&mut clients[0]));
        with.push(time_of(&mut clients[1]));
    }
    let share = median(without) / median(with);
    println!("{:.0} % of the goodput", 100.0 * share);
    share
}

/// Runs an attack by so many peers, each on its own thread, beside a client. `under_way` waits
/// until the attack shows in the metrics.
fn assert_goodput_stays(
    arguments: &[&str],
    peers: usize,
    attack: impl Fn(SocketAddr, &AtomicBool) + Sync,
    under_way: impl Fn(SocketAddr),
) {
    let _alone = ATTACK.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("regular"), vec![7; DOWNLOAD_BYTES]).unwrap();
    for number in 0..FILES {
        let file = File::create(dir.path().join(number.to_string())).unwrap();
        file.set_len(3_000_000).unwrap();
    }
    let [calm, attacked] = [(); 2].map(|()| Target::start(dir.path(), arguments));
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..peers {
            scope.spawn(|| attack(attacked.address, &ends));
        }
        under_way(attacked.metrics_at);
        let mut clients = [&calm, &attacked].map(|target| UdpClient::connect(target.address));
        for client in &mut clients {
            time_of(client);
        }
        let share = (0..ATTEMPTS).map(|_| share_of(&mut clients)).find(|share| *share >= SHARE_MIN);
        ends.store(true, Ordering::Relaxed);
        assert!(share.is_some(), "less than {SHARE_MIN} of the goodput");
    });
}

// Each lets the server keep most of a response, whose first packet it never acknowledges, and
// reads a little of others. When its connection is closed, it begins again after a while.
#[test]
fn goodput_stays_beside_kept_responses_with_a_trickle() {
    let arguments = ["--responses-memory-max", "4000000", "--send-buffer-max", "2000000"];
    let attack = |address, ends: &AtomicBool| {
        while !ends.load(Ordering::Relaxed) {
            let mut peer = HostilePeer::new(address);
            let source = peer.source.clone();
            peer.set_source_id(&source, &parameters_for(&source, 10_000_000, &[]));
            peer.complete();
            peer.withholds_start_ack_of = Some(0);
            peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
            peer.write(0, &get("/bytes/1500000"), true);
            for n in 1..2000 {
                let is_over = peer.received.close.is_some() || peer.received.is_reset();
                if is_over || ends.load(Ordering::Relaxed) {
                    break;
                }
                peer.receive();
                if n % 100 == 0 {
                    peer.write(4 * n / 100, &get("/bytes/1500"), true);
                }
            }
            for _ in 0..PAUSE_POLLS {
                peer.receive();
            }
        }
    };
    let evictions = "edge_server_evictions_total{what=\"responses\"}";
    let kept = "edge_server_kept_bytes{what=\"responses\"}";
    assert_goodput_stays(&arguments, 4, attack, |at| {
        metrics::wait_until(at, evictions, |count| count > 0);
        assert!(metrics::read(at, kept) < 5_000_000);
    });
}

// Each asks for as many files as it may, and takes hardly anything of them; and then again with
// another connection. Their subnets are not the regular client's.
#[test]
fn goodput_stays_beside_open_files_of_several_subnets() {
    let subnets = AtomicU8::new(1);
    let attack = |address, ends: &AtomicBool| {
        let from = Ipv4Addr::new(127, 0, subnets.fetch_add(1, Ordering::Relaxed), 1);
        let limits = ClientLimits { window_bytes: 100_000, ..ClientLimits::default() };
        while !ends.load(Ordering::Relaxed) {
            let mut client = UdpClient::connect_from(from, address, limits);
            for number in 0..client.requests_left().min(FILES) {
                client.request("GET", &format!("/{number}"));
            }
            client.await_unanswered();
        }
    };
    let evictions = "edge_server_evictions_total{what=\"files\"}";
    assert_goodput_stays(&["--open-files-max", "60"], 3, attack, |at| {
        metrics::wait_until(at, evictions, |count| count > 0);
    });
}

#[test]
fn goodput_stays_beside_clients_that_never_acknowledge() {
    let attack = |address, ends: &AtomicBool| {
        let mut peer = HostilePeer::new(address);
        peer.complete();
        peer.sends_acks = false;
        while !ends.load(Ordering::Relaxed) {
            (0..4).for_each(|_| peer.send(Space::Data, &[PING]));
            peer.receive();
        }
        peer.close();
    };
    assert_goodput_stays(&[], 2, attack, |at| {
        metrics::wait_until(at, "edge_server_connections_open", |open| open == 2);
    });
}
