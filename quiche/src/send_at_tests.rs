//! Packets with a given send time.

use super::*;
use crate::clock::Simulation;
use crate::test_utils::Pipe;

const LATER: Duration = Duration::from_millis(20);

#[test]
fn packets_are_sent_at_the_given_time() {
    let _time = Simulation::start(1, Duration::from_secs(1_000_000));
    let mut config = Pipe::default_config("cubic").unwrap();
    config.set_initial_max_data(100_000);
    config.set_initial_max_stream_data_bidi_remote(100_000);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    pipe.server.stream_send(1, &[0; 10_000], true).unwrap();

    let mut packet = [0; 1500];
    let mut timer_after = |at| {
        let (_, info) = pipe
            .server
            .send_on_path_at(&mut packet, None, None, at)
            .unwrap();
        assert_eq!(info.at, at);
        pipe.server.timeout_instant().unwrap()
    };
    let start = clock::now();
    let first = timer_after(start);

    assert_eq!(timer_after(start), first);
    assert_eq!(timer_after(start + LATER), first + LATER);
}
