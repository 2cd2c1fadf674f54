//! Paths that pass only shorter packets than before.

use super::pmtud_packet_size::config;
use super::pmtud_packet_size::MtuSearch;
use super::pmtud_packet_size::LARGEST;
use super::pmtud_packet_size::ROUNDS_MAX;
use super::*;

/// Probe timeouts or losses after which the path may pass only shorter packets.
const TIMEOUTS: u32 = 3;

// RFC 8899, 4.3.
#[rstest]
fn packets_are_short_again_after_a_black_hole(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
    #[values(true, false)] is_outage: bool,
) {
    let mut search = MtuSearch::new(config(cc), config(cc), LARGEST);
    search.find();
    // An outage passes nothing for a time. Otherwise short packets pass, and
    // each ACK of one ends a series of timeouts.
    search.path_mtu = if is_outage { 0 } else { 1250 };
    search.round(20_000);
    for _ in 0..ROUNDS_MAX {
        let path = search.pipe.server.paths.get_active().unwrap();
        let is_silent = path.recovery.pto_count() >= TIMEOUTS;
        if is_silent {
            search.path_mtu = 1250;
        }
        let sent = search.round(0);
        let longest = sent.iter().max().filter(|_| is_silent);
        assert!(longest <= Some(&MIN_CLIENT_INITIAL_LEN), "{cc} {sent:?}");
        if sent.is_empty() && search.received < search.written {
            let wait = search.pipe.server.timeout().unwrap();
            std::thread::sleep(wait);
            search.pipe.server.on_timeout();
        }
    }
    assert_eq!(search.received, search.written, "{cc}");
    search.find();
    search.assert_found(1250, cc);
}

// Two short packets of an ACK are together as long as a long one.
#[rstest]
fn short_packets_do_not_hide_a_black_hole(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let [client, server] = [(); 2].map(|()| {
        let mut config = config(cc);
        config.enable_dgram(true, 10, 10);
        config
    });
    let mut search = MtuSearch::new(client, server, LARGEST);
    search.find();
    search.path_mtu = 1250;
    search.round(4_000);
    for _ in 0..ROUNDS_MAX {
        for _ in 0..2 {
            search.pipe.server.dgram_send(&[0; 700]).unwrap();
        }
        search.round(0);
        // The next loss is another burst.
        let path = search.pipe.server.paths.get_active().unwrap();
        std::thread::sleep(path.recovery.rtt());
        if search.received == search.written {
            return;
        }
    }
    panic!("{cc}: {} of {}", search.received, search.written);
}
