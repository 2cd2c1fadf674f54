//! Worst case of memory at a tenth of the defaults: each connection keeps as much as it can of
//! everything at once, and all together exceed each budget.
//!
//! Method: each client opens its congestion window, and then acknowledges nothing. It makes the
//! server send many acknowledgements, does not read a response, sends a header that does not end and
//! content with a gap; some have a file open each. All that fits into the budgets. Then some ask for
//! more than the budgets have left.
//!
//! Passes if the server has closed connections because of each budget, keeps no more than they allow,
//! and its memory has never exceeded the sum of the documentation for these options.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use rustix::process::getrlimit;
use rustix::process::setrlimit;
use rustix::process::Resource;
use rustix::process::Rlimit;

use crate::case::get;
use crate::packet::Space;
use crate::peer::parameters_with;
use crate::peer::HostilePeer;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::Running;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::numbers;
use crate::wire::stream;

#[expect(dead_code, reason = "the page has the words")]
#[path = "../../src/config/worst_case/sum.rs"]
mod sum;

/// Number of connections, a tenth of the default.
const CONNECTIONS: usize = 2000;

/// A tenth of the defaults.
const OPTIONS: sum::Options = sum::Options {
    file_cache_max: 0,
    compression_cache_max: 0,
    cache_memory_max: 0,
    connections_max: CONNECTIONS as u64,
    responses_memory_max: (1 << 30) / 10,
    requests_memory_max: (256 << 20) / 10,
    workers: 2,
    store_entries: 10_000,
};

/// Limit on open files, and the clients that have one each: more than a subnet may have.
const FILES_MAX: usize = 100;
const FILE_KEEPERS: usize = 90;
const FILE_BYTES: u64 = 3_000_000;

const SUBNETS: usize = 8;
const THREADS: usize = 4;

/// Time without packets after which a connection ends, and more than the test takes.
const TIMEOUT_S: u64 = 3600;

/// Limit on retransmissions of a request.
const RESENDS_MAX: usize = 60;

/// Packets that the server acknowledges, each by itself.
const PACKETS: usize = 1500;

/// Response data that a client grants.
const RESPONSES_BYTES: u64 = 8 << 20;

/// Size of the unread response of each client, of its header and of its content.
const RESPONSE_BYTES: usize = 46_000;
const HEADER_BYTES: usize = 4000;
const CONTENT_BYTES: usize = 4000;

/// Part of a budget that is used before it is exceeded, in percent.
const USED_MIN: u64 = 75;

/// Clients that ask for more than a budget has left, one budget after the other: one in so many.
const GREEDY: usize = 3;
const GREEDY_RESPONSE_BYTES: usize = 900_000;
const GREEDY_HEADER_BYTES: usize = 60_000;

const HEADERS: u64 = 0x01;
const PIECE_BYTES: usize = 1000;

/// Name of a budget, metric of its use, and limit; and how a client asks for more of it.
type Budget = (&'static str, &'static str, u64, fn(&mut HostilePeer, usize));

const BUDGETS: [Budget; 3] = [
    (
        "responses",
        "edge_server_kept_bytes{what=\"responses\"}",
        OPTIONS.responses_memory_max,
        |peer, _| request(peer, 20, &format!("/bytes/{GREEDY_RESPONSE_BYTES}")),
    ),
    (
        "requests",
        "edge_server_kept_bytes{what=\"requests\"}",
        OPTIONS.requests_memory_max,
        |peer, _| send_unfinished_header(peer, 20, GREEDY_HEADER_BYTES),
    ),
    ("files", "edge_server_files_open ", FILES_MAX as u64, |peer, number| {
        request(peer, 20, &format!("/{number}"));
    }),
];

#[test]
#[ignore = "takes minutes"]
fn two_thousand_connections_stay_below_the_documented_worst_case() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..CONNECTIONS {
        let file = fs::File::create(dir.path().join(file.to_string())).unwrap();
        file.set_len(FILE_BYTES).unwrap();
    }
    raise_file_limit();
    let (server, address, metrics_at) = start(dir.path());
    let idle_kib = server.memory_kib("VmRSS");
    let mut peers: Vec<_> = (0..CONNECTIONS).map(|number| client(address, number)).collect();
    // All do it before the first keeps anything.
    on_threads(&mut peers, |_, peer| open_window(peer));
    on_threads(&mut peers, keep_much);
    for (name, used, limit, _) in BUDGETS {
        let used = metrics::wait_until(metrics_at, used, |used| used * 100 >= limit * USED_MIN);
        println!("{name}: {used} of {limit} in use");
    }
    println!("{} kB, before {idle_kib} kB", server.memory_kib("VmRSS"));

    for (first, (name, used, limit, exceed)) in BUDGETS.into_iter().enumerate() {
        for (number, peer) in peers.iter_mut().enumerate().skip(first).step_by(GREEDY) {
            exceed(peer, number);
        }
        let evictions = format!("edge_server_evictions_total{{what=\"{name}\"}}");
        let evictions = metrics::wait_until(metrics_at, &evictions, |count| count > 0);
        let used = metrics::wait_until(metrics_at, used, |used| used <= limit);
        println!("{name}: {used} of {limit} in use, {evictions} connections closed");
    }
    let bytes = (server.memory_kib("VmHWM") * 1024) as u64;
    let bytes_max = sum::rows(&OPTIONS).iter().map(|row| row.bytes).sum();
    println!("{} of {} MB", bytes / 1_000_000, bytes_max / 1_000_000);
    assert!(bytes <= bytes_max, "{bytes} of {bytes_max} bytes");
}

fn start(root: &Path) -> (Running, SocketAddr, SocketAddr) {
    let file = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let options = [
        ("--metrics", "127.0.0.1:0".to_owned()),
        ("--workers", OPTIONS.workers.to_string()),
        ("--file-cache-max", OPTIONS.file_cache_max.to_string()),
        ("--compression-cache-max", OPTIONS.compression_cache_max.to_string()),
        ("--cache-memory-max", OPTIONS.cache_memory_max.to_string()),
        ("--connections-max", OPTIONS.connections_max.to_string()),
        ("--connections-per-subnet", (CONNECTIONS / 4).to_string()),
        ("--responses-memory-max", OPTIONS.responses_memory_max.to_string()),
        ("--requests-memory-max", OPTIONS.requests_memory_max.to_string()),
        ("--open-files-max", FILES_MAX.to_string()),
        ("--store-entries", OPTIONS.store_entries.to_string()),
        ("--qlog-dir", file("qlog")),
        ("--qlog-bytes-max", (40 << 20).to_string()),
        ("--qlog-files-max", (CONNECTIONS / 2).to_string()),
        ("--access-log", file("log")),
        ("--idle-timeout", TIMEOUT_S.to_string()),
        ("--stall-timeout", TIMEOUT_S.to_string()),
    ];
    fs::create_dir(root.join("qlog")).unwrap();
    let options = options.iter().flat_map(|(name, value)| [*name, value.as_str()]);
    let (mut server, address) = serve(root, &options.chain(["--speedtest"]).collect::<Vec<_>>());
    let metrics_at = server.metrics_address();
    (server, address, metrics_at)
}

/// Acts on all connections, from several threads.
fn on_threads(peers: &mut [HostilePeer], act: impl Fn(usize, &mut HostilePeer) + Sync) {
    thread::scope(|scope| {
        for (part, peers) in peers.chunks_mut(CONNECTIONS / THREADS).enumerate() {
            let act = &act;
            scope.spawn(move || {
                for (peer, number) in peers.iter_mut().zip(part * CONNECTIONS / THREADS..) {
                    act(number, peer);
                }
            });
        }
    });
}

/// Returns a client that has not sent a packet.
fn client(server: SocketAddr, number: usize) -> HostilePeer {
    let subnet = u8::try_from(number % SUBNETS).unwrap();
    let mut peer = HostilePeer::at([127, 0, subnet, 1].into(), server);
    let source = peer.source.clone();
    peer.set_source_id(&source, &parameters_with(&source, RESPONSES_BYTES, TIMEOUT_S * 1000, &[]));
    peer
}

/// Makes the server keep much for a connection, without acknowledging anything.
fn keep_much(number: usize, peer: &mut HostilePeer) {
    peer.sends_acks = false;
    (0..PACKETS).for_each(|_| peer.round_trip());

    peer.write(4, &get(&format!("/bytes/{RESPONSE_BYTES}")), true);
    if number < FILE_KEEPERS {
        peer.write(8, &get(&format!("/{number}")), true);
    }
    send_unfinished_header(peer, 12, HEADER_BYTES);
    let head = headers(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/upload"),
    ]);
    peer.write(16, &head, false);
    let start = head.len() + 1;
    for piece in (0..CONTENT_BYTES).step_by(PIECE_BYTES) {
        peer.send(Space::Data, &stream(16, (start + piece) as u64, &[7; PIECE_BYTES], false));
    }
    peer.round_trip();
}

/// Opens a connection, and its congestion window by a download. What is lost in a full socket is
/// sent again.
fn open_window(peer: &mut HostilePeer) {
    peer.complete();
    peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
    let is_complete = |peer: &HostilePeer| {
        peer.received.streams.get(&0).is_some_and(|stream| stream.is_complete())
    };
    let is_done = (0..RESENDS_MAX).any(|_| {
        request(peer, 0, "/bytes/400000");
        peer.wait_briefly(is_complete)
    });
    assert!(is_done, "the server did not send the response: {:?}", peer.received.close);
}

/// Sends a request without waiting for anything: the server may have closed the connection.
fn request(peer: &mut HostilePeer, id: u64, path: &str) {
    peer.send(Space::Data, &stream(id, 0, &get(path), true));
}

fn send_unfinished_header(peer: &mut HostilePeer, id: u64, bytes: usize) {
    let head = numbers(&[HEADERS, bytes as u64]);
    peer.send(Space::Data, &stream(id, 0, &head, false));
    for piece in (0..bytes - PIECE_BYTES).step_by(PIECE_BYTES) {
        peer.send(Space::Data, &stream(id, (head.len() + piece) as u64, &[0; PIECE_BYTES], false));
    }
}

/// Raises the limit on open files: each client has a socket.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}
