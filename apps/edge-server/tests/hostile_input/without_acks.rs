//! Clients that acknowledge nothing (RFC 9000, 13.2.4 and 21.9): what the server keeps of the
//! packets that acknowledge theirs.

use std::fs;
use std::net::SocketAddr;

use crate::case::get;
use crate::packet::Space;
use crate::peer::HostilePeer;
use crate::support::metrics;
use crate::support::process::serve;

const CONNECTIONS: usize = 10;

/// Most memory that the server may take for one connection. It is what the worst case of the
/// documentation says.
const BYTES_MAX: usize = 400_000;

#[test]
fn client_that_acknowledges_nothing_costs_little_memory() {
    for (case, skips, packets) in [
        // Each acknowledgement has as many ranges as it may have.
        ("every other packet number", true, 1000),
        // Those with a PING are short, so that many fit into the congestion window.
        ("all packet numbers", false, 9000),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("index.html"), "home").unwrap();
        let (server, address) = serve(dir.path(), &["--workers", "1"]);
        let open = || without_acks(address, skips, packets);
        // Makes the server allocate what connections share.
        let _first = open();
        let before_kib = server.memory_kib("VmHWM");
        let _others: Vec<_> = (0..CONNECTIONS).map(|_| open()).collect();
        let bytes = (server.memory_kib("VmHWM") - before_kib) * 1024 / CONNECTIONS;
        println!("{case}: {bytes} bytes a connection");
        assert!(bytes <= BYTES_MAX, "{case}: {bytes} bytes a connection");
    }
}

// A client can open the congestion window, which then has room for many of them.
#[test]
fn records_of_small_packets_are_charged_to_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let args = ["--workers", "1", "--metrics", "127.0.0.1:0", "--speedtest"];
    let (mut server, address) = serve(dir.path(), &args);
    let metrics_at = server.metrics_address();
    let mut peer = HostilePeer::new(address);
    peer.complete();
    peer.write(0, &get("/bytes/900000"), true);
    peer.wait("the response", |peer| {
        peer.received.streams.get(&0).is_some_and(|stream| stream.is_complete())
    });
    let kept = "edge_server_kept_bytes{what=\"responses\"}";
    metrics::wait_until(metrics_at, kept, |kept| kept == 0);
    peer.sends_acks = false;
    for _ in 0..40_000 {
        peer.round_trip();
    }
    assert!(metrics::read(metrics_at, kept) > 200_000);
}

/// Opens a connection and makes the server acknowledge many packets, each by itself.
fn without_acks(server: SocketAddr, skips: bool, packets: usize) -> HostilePeer {
    let mut peer = HostilePeer::new(server);
    peer.complete();
    peer.sends_acks = false;
    for _ in 0..packets {
        if skips {
            peer.skip_number(Space::Data);
        }
        peer.round_trip();
    }
    peer
}
