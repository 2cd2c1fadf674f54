//! Anti-amplification limit: a server sends at most three times the bytes
//! received from an address that is not validated.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

// RFC 9000, 8.1: all bytes count.
#[test]
fn padding_counts_against_the_limit() {
    let mut config = Pipe::default_config_no_pq("cubic").unwrap();
    config.set_initial_rtt(Duration::from_millis(1));
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();

    let mut sent = 0;
    for _ in 0..6 {
        let flight = emit_flight(&mut pipe.server).unwrap_or_default();
        sent += flight.iter().map(|(packet, _)| packet.len()).sum::<usize>();
        std::thread::sleep(pipe.server.timeout().unwrap());
        pipe.server.on_timeout();
    }
    assert!(sent <= 3 * MIN_CLIENT_INITIAL_LEN, "{sent}");
}
