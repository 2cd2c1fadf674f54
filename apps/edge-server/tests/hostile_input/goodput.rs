//! Attacks that make the server keep much, beside a well-behaved client: its goodput stays.
//!
//! Method: two servers with the same options, one of them under attack. Each has two workers, which
//! share the budgets. The client downloads from one and the other in turn. Passes if the median
//! goodput from the server under attack is at least 70 % of the other's.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::SocketAddrV4;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use quiche::clock;
use rustix::net;

use crate::case::get;
use crate::packet::Space;
use crate::peer::parameters_for;
use crate::peer::HostilePeer;
use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::server_command;
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

/// Datagrams of each kind that come at once.
const FORGED_AT_ONCE: usize = 8;

/// Clients of the admin listener, more than it serves, and how long they wait.
const ADMIN_CLIENTS: u8 = 50;
const ADMIN_SUBNETS: u8 = 5;
const ADMIN_PAUSE: Duration = Duration::from_millis(10);

/// Files beside the regular one.
const FILES: u64 = 300;

/// Files of a subnet, most of which others do not ask for.
const FILES_STEP: u64 = 60;

/// Descriptors of each server: the soft limit of a usual shell.
const DESCRIPTORS: u32 = 1024;

/// A server and its metrics.
struct Target {
    _server: Running,
    address: SocketAddr,
    metrics_at: SocketAddr,
}

impl Target {
    fn start(root: &Path, descriptors: u32, arguments: &[&str]) -> Self {
        let common = ["--workers", "2", "--metrics", "127.0.0.1:0", "--speedtest"];
        let listen = ["--listen", "127.0.0.1:0", "--root", root.to_str().unwrap()];
        let server = server_command(&[&listen[..], &common, arguments].concat());
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -n {descriptors} && exec \"$@\""), "sh"]);
        let mut server = Running::start(limited.arg(server.get_program()).args(server.get_args()));
        let address = server.address();
        let metrics_at = server.metrics_address();
        Self { _server: server, address, metrics_at }
    }
}

/// Ends the attack when it is dropped, also by a failed assertion.
struct EndOfAttack<'a>(&'a AtomicBool);

impl Drop for EndOfAttack<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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
    attack: impl Fn(&Target, &AtomicBool) + Sync,
    under_way: impl Fn(SocketAddr),
) {
    assert_goodput_stays_with(DESCRIPTORS, arguments, peers, attack, under_way);
}

/// The same, for servers with so many descriptors.
fn assert_goodput_stays_with(
    descriptors: u32,
    arguments: &[&str],
    peers: usize,
    attack: impl Fn(&Target, &AtomicBool) + Sync,
    under_way: impl Fn(SocketAddr),
) {
    let _alone = ATTACK.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("regular"), vec![7; DOWNLOAD_BYTES]).unwrap();
    for number in 0..FILES {
        let file = File::create(dir.path().join(number.to_string())).unwrap();
        file.set_len(3_000_000).unwrap();
    }
    let [calm, attacked] = [(); 2].map(|()| Target::start(dir.path(), descriptors, arguments));
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..peers {
            scope.spawn(|| attack(&attacked, &ends));
        }
        let _end = EndOfAttack(&ends);
        under_way(attacked.metrics_at);
        let mut clients = [&calm, &attacked].map(|target| UdpClient::connect(target.address));
        for client in &mut clients {
            time_of(client);
        }
        let share = (0..ATTEMPTS).map(|_| share_of(&mut clients)).find(|share| *share >= SHARE_MIN);
        assert!(share.is_some(), "less than {SHARE_MIN} of the goodput");
    });
}

// Each lets the server keep most of a response, whose first packet it never acknowledges, and
// reads a little of others. When its connection is closed, it begins again after a while.
#[test]
fn goodput_stays_beside_kept_responses_with_a_trickle() {
    let arguments = ["--responses-memory-max", "4000000", "--send-buffer-max", "2000000"];
    let attack = |target: &Target, ends: &AtomicBool| {
        while !ends.load(Ordering::Relaxed) {
            let mut peer = HostilePeer::new(target.address);
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
    assert_goodput_stays(
        &["--open-files-max", "60"],
        3,
        |target, ends| hold_files(target, &subnets, ends),
        wait_for_evicted_files,
    );
}

// The default of --open-files-max follows from how many descriptors there are.
#[test]
fn goodput_stays_beside_files_of_a_server_with_few_descriptors() {
    let subnets = AtomicU8::new(1);
    assert_goodput_stays_with(
        240,
        &[],
        3,
        |target, ends| hold_files(target, &subnets, ends),
        wait_for_evicted_files,
    );
}

fn hold_files(target: &Target, subnets: &AtomicU8, ends: &AtomicBool) {
    let subnet = subnets.fetch_add(1, Ordering::Relaxed);
    let from = Ipv4Addr::new(127, 0, subnet, 1);
    let first = FILES_STEP * u64::from(subnet);
    let limits = ClientLimits { window_bytes: 100_000, ..ClientLimits::default() };
    while !ends.load(Ordering::Relaxed) {
        let mut client = UdpClient::connect_from(from, target.address, limits);
        for number in first..first + client.requests_left() {
            client.request("GET", &format!("/{}", number % FILES));
        }
        client.await_unanswered();
    }
}

fn wait_for_evicted_files(metrics_at: SocketAddr) {
    let evictions = "edge_server_evictions_total{what=\"files\"}";
    metrics::wait_until(metrics_at, evictions, |count| count > 0);
}

#[test]
fn goodput_stays_beside_clients_that_never_acknowledge() {
    let attack = |target: &Target, ends: &AtomicBool| {
        let mut peer = HostilePeer::new(target.address);
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

// The kernel sends to neither, which must not look as if the network device did not segment.
#[test]
fn goodput_stays_beside_datagrams_from_port_0_and_a_broadcast_address() {
    let udp = Some(net::ipproto::UDP);
    if let Err(e) = net::socket(net::AddressFamily::INET, net::SocketType::RAW, udp) {
        eprintln!("skipped, since raw sockets need CAP_NET_RAW: {e}");
        return;
    }
    let sent = AtomicU64::new(0);
    let attack = |target: &Target, ends: &AtomicBool| {
        let SocketAddr::V4(to) = target.address else { unreachable!() };
        // Paces the others.
        let mut peer = HostilePeer::new(target.address);
        while !ends.load(Ordering::Relaxed) {
            for _ in 0..FORGED_AT_ONCE {
                send_forged(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), to).unwrap();
                send_forged(SocketAddrV4::new(Ipv4Addr::new(127, 255, 255, 255), 4433), to)
                    .unwrap();
            }
            sent.fetch_add(1, Ordering::Relaxed);
            peer.receive();
        }
    };
    assert_goodput_stays(&[], 1, attack, |at| {
        metrics::wait_until(at, "edge_server_connections_open", |_| {
            sent.load(Ordering::Relaxed) > 1
        });
    });
}

/// Sends a datagram that asks for a Version Negotiation packet.
fn send_forged(from: SocketAddrV4, to: SocketAddrV4) -> rustix::io::Result<()> {
    let quic =
        [&[0xc0, 0x0a, 0x0a, 0x0a, 0x0a, 8][..], &[1; 8], &[8], &[2; 8], &[0; 1200]].concat();
    let udp_length = (8 + quic.len() as u16).to_be_bytes();
    let [from_port, to_port] = [from, to].map(|address| address.port().to_be_bytes());
    // RFC 791, 3.1, and RFC 768. The kernel fills in the length and the checksum of the one; the
    // other has none.
    let ip =
        [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0][..], &from.ip().octets(), &to.ip().octets()];
    let udp = [from_port, to_port, udp_length, [0; 2]];
    let datagram = [&ip.concat()[..], &udp.concat(), &quic].concat();
    let raw = Some(net::ipproto::RAW);
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::RAW, raw)?;
    net::sendto(socket, &datagram, net::SendFlags::empty(), &SocketAddrV4::new(*to.ip(), 0))?;
    Ok(())
}

/// Connects by TCP from this address.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
    net::connect(&socket, &to).unwrap();
    socket.into()
}

// Half of them do not end their requests, and the others do not read their responses. They are of
// other subnets than the one that asks for the server's health.
#[test]
fn goodput_stays_beside_slow_clients_of_the_admin_listener() {
    let attack = |target: &Target, ends: &AtomicBool| {
        while !ends.load(Ordering::Relaxed) {
            let slow: Vec<_> = (0..ADMIN_CLIENTS)
                .map(|number| {
                    let from = Ipv4Addr::new(127, 0, 1 + number % ADMIN_SUBNETS, 1);
                    let mut stream = connect_from(from, target.metrics_at);
                    let whole = "GET /metrics HTTP/1.1\r\n\r\n";
                    let request = if number % 2 == 0 { whole } else { "GET /" };
                    // It may have given way already.
                    let _ = stream.write_all(request.as_bytes());
                    stream
                })
                .collect();
            for mut stream in slow {
                stream.set_read_timeout(Some(ADMIN_PAUSE)).unwrap();
                let _ = stream.read(&mut [0]);
            }
        }
    };
    assert_goodput_stays(&[], 1, attack, |at| {
        assert!(metrics::page(at, "/healthz").ends_with("ok\n"));
    });
}
