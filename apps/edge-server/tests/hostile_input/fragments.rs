//! Single bytes with gaps between them (RFC 9000, 21.6): what the server counts of the chunks that
//! it keeps.

use std::fs;

use crate::peer::HostilePeer;
use crate::support::metrics;
use crate::support::process::serve;
use crate::wire::stream;

const CONNECTIONS: u64 = 8;

/// Streams of a client, and chunks of each: as many as a stream may have.
const STREAMS: u64 = 128;
const CHUNKS: u64 = 250;

/// Chunks in a packet.
const PER_PACKET: usize = 125;

/// Part of the memory that is counted, in percent: the allocator's own is not.
const COUNTED_MIN: usize = 80;

#[test]
fn chunks_of_requests_are_charged_to_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let args = ["--workers", "1", "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve(dir.path(), &args);
    let metrics_at = server.metrics_address();
    let before_kib = server.memory_kib("VmRSS");
    let peers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut peer = HostilePeer::new(address);
            peer.complete();
            peer.send_many(packets());
            peer.round_trip();
            peer
        })
        .collect();
    let kept = "edge_server_kept_bytes{what=\"requests\"}";
    let chunks = CONNECTIONS * STREAMS * CHUNKS;
    let counted = metrics::wait_until(metrics_at, kept, |kept| kept >= chunks * 100) as usize;
    let bytes = (server.memory_kib("VmRSS") - before_kib) * 1024;
    println!("{counted} bytes counted of {bytes}");
    assert!(counted * 100 >= bytes * COUNTED_MIN, "{counted} bytes counted of {bytes}");
    drop(peers);
}

// They need not be many: each datagram may be so many chunks.
#[test]
fn chunks_of_one_datagram_are_charged_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let (mut server, address) = serve(dir.path(), &["--workers", "1", "--metrics", "127.0.0.1:0"]);
    let metrics_at = server.metrics_address();
    let mut peer = HostilePeer::new(address);
    peer.complete();
    peer.send_many(packets().into_iter().take(1));
    let kept = "edge_server_kept_bytes{what=\"requests\"}";
    metrics::wait_until(metrics_at, kept, |kept| kept >= PER_PACKET as u64 * 200);
}

/// Every other byte of each stream.
fn packets() -> Vec<Vec<u8>> {
    let offsets: Vec<u64> = (1..=CHUNKS).map(|n| 2 * n).collect();
    let of_stream = |id: u64| {
        let packet = move |offsets: &[u64]| {
            offsets.iter().flat_map(|offset| stream(4 * id, *offset, b"x", false)).collect()
        };
        offsets.chunks(PER_PACKET).map(packet).collect::<Vec<Vec<u8>>>()
    };
    (0..STREAMS).flat_map(of_stream).collect()
}
