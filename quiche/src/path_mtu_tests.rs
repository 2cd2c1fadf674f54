//! What the recovery takes for the size of a packet while the path's MTU is sought.

use super::*;
use crate::clock::Simulation;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

const ROUND_TRIP: Duration = Duration::from_millis(50);
const ROUNDS_MAX: usize = 200;
const LARGEST: usize = 1400;

/// A server that has looked for the MTU of a path on which longer packets are lost.
fn after_search(cc: &str, path_mtu: usize) -> Pipe {
    let time = Simulation::start(1, Duration::from_secs(1_000_000));
    let mut config = Pipe::default_config(cc).unwrap();
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_remote(10_000_000);
    config.set_max_send_udp_payload_size(LARGEST);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    let path = pipe.server.paths.get_active_mut().unwrap();
    path.pmtud = Some(pmtud::Pmtud::new(LARGEST, 3));

    for _ in 0..ROUNDS_MAX {
        let path = pipe.server.paths.get_active().unwrap();
        if path.pmtud.as_ref().is_some_and(|p| p.get_pmtu().is_some()) {
            return pipe;
        }
        // What follows a lost probe tells of its loss.
        let _ = pipe.server.stream_send(1, &[7; 10_000], false);
        for server_sends in [true, false] {
            let (sender, receiver) = match server_sends {
                true => (&mut pipe.server, &mut pipe.client),
                false => (&mut pipe.client, &mut pipe.server),
            };
            if let Ok(mut flight) = emit_flight(sender) {
                flight.retain(|(packet, _)| packet.len() <= path_mtu);
                process_flight(receiver, flight).unwrap();
            }
            time.advance_to(time.elapsed() + ROUND_TRIP / 2);
        }
        let _ = pipe.client.stream_recv(1, &mut [0; 100_000]);
    }
    panic!("the MTU of {path_mtu} has not been found");
}

#[test]
fn a_probe_that_failed_is_no_packet_size() {
    for cc in ["cubic", "bbr2_gcongestion"] {
        for path_mtu in [1201, 1250, 1299, 1399, LARGEST] {
            let pipe = after_search(cc, path_mtu);
            let path = pipe.server.paths.get_active().unwrap();
            assert_eq!(
                path.recovery.max_datagram_size(),
                path_mtu,
                "{cc} {path_mtu}"
            );
            assert_eq!(
                pipe.server.path_stats().next().unwrap().pmtu,
                path_mtu,
                "{cc} {path_mtu}"
            );
        }
    }
}
