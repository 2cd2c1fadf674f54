//! Discovery of the path's MTU that starts after some bytes.

use super::pmtud_packet_size::config;
use super::pmtud_packet_size::MtuSearch;
use super::pmtud_packet_size::LARGEST;

#[test]
fn discovery_starts_after_the_configured_bytes() {
    let mut server = config("cubic");
    server.set_pmtud_start_after(20_000);
    let mut search = MtuSearch::new(config("cubic"), server, LARGEST);
    let mut sent = search.pipe.server.path_stats().next().unwrap().sent_bytes;
    let mut sizes = Vec::new();
    while !sizes.contains(&LARGEST) {
        sent += sizes.iter().sum::<usize>() as u64;
        sizes = search.round(1000);
        assert!(sent < 20_000, "no probe in {sent} bytes");
    }
    let before = sizes.iter().take_while(|size| **size != LARGEST);
    sent += before.sum::<usize>() as u64;
    assert!(sent >= 20_000, "a probe after {sent} bytes");
    search.assert_found(LARGEST, "started later");
}
