//! Probes of the path's MTU are not longer than what the peer receives.

use super::pmtud_packet_size::config;
use super::pmtud_packet_size::MtuSearch;

// RFC 9000, 18.2.
#[test]
fn probe_is_limited_by_what_the_peer_receives() {
    let mut client = config("cubic");
    client.set_max_recv_udp_payload_size(1250);
    let mut search = MtuSearch::new(client, config("cubic"), usize::MAX);
    assert_eq!(search.find(), 1250);
    search.assert_found(1250, "the peer's limit");
}
