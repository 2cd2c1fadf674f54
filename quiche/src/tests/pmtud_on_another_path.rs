//! Discovery of the MTU of another path than the first.

use super::pmtud_packet_size::config;
use super::pmtud_packet_size::MtuSearch;
use super::pmtud_packet_size::LARGEST;
use super::*;

// RFC 9000, 14.2.
#[test]
fn discovery_starts_again_on_another_path() {
    for next_mtu in [LARGEST, 1250] {
        let mut search =
            MtuSearch::new(config("cubic"), config("cubic"), LARGEST);
        search.find();
        search.path_mtu = next_mtu;
        search.client.set_port(5000);
        search
            .pipe
            .client
            .stream_send(4, b"from elsewhere", false)
            .unwrap();
        search.round(0);
        let path = search.pipe.server.paths.get_active().unwrap();
        assert_eq!(path.peer_addr(), search.client);
        search.assert_found(MIN_CLIENT_INITIAL_LEN, "on the new path");
        search.find();
        search.assert_found(next_mtu, "found on the new path");
    }
}
