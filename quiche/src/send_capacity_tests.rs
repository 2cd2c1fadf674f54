//! Bytes that an application may write.

use crate::careful_resume::Phase;
use crate::clock::Simulation;
use crate::packet;
use crate::recovery::RecoveryOps;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;
use rstest::rstest;
use std::time::Duration;

const WINDOW: u64 = 4_000_000_000;
const RESPONSE: u64 = 1;

#[rstest]
fn probe_does_not_open_the_send_capacity(
    #[values("cubic", "reno")] cc: &str, #[values(false, true)] receives: bool,
) {
    let time = Simulation::start(1, Duration::from_secs(1_000_000));
    let mut config = Pipe::default_config(cc).unwrap();
    config.set_careful_resume(Default::default()).unwrap();
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();

    pipe.server
        .stream_send(RESPONSE, &[0; 5000], false)
        .unwrap();
    emit_flight(&mut pipe.server).unwrap();
    assert_eq!(pipe.server.careful_resume_phase(), Phase::Reconnaissance);

    time.advance_to(time.elapsed() + pipe.server.timeout().unwrap());
    pipe.server.on_timeout();
    let recovery = &pipe.server.paths.get_active().unwrap().recovery;
    assert_eq!(recovery.loss_probes(packet::Epoch::Application), 1);

    if receives {
        pipe.client.stream_send(0, b"get", true).unwrap();
        let request = emit_flight(&mut pipe.client).unwrap();
        process_flight(&mut pipe.server, request).unwrap();
    }

    let window = pipe.server.path_stats().next().unwrap().cwnd;
    let capacity = pipe.server.stream_capacity(RESPONSE).unwrap();
    assert!((1..window).contains(&capacity), "{capacity} of {window}");
}
