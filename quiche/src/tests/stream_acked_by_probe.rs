//! A stream whose lost data is acknowledged before it is sent again.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

/// A control stream, served before every other, and one with a response.
const CONTROL: u64 = 3;
const RESPONSE: u64 = 1;

fn established() -> Pipe {
    let mut config = Pipe::default_config("reno").unwrap();
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    config.set_initial_max_stream_data_uni(1 << 20);

    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    pipe
}

/// Waits for the server's next timer.
fn await_timer(server: &mut Connection) {
    std::thread::sleep(server.timeout().unwrap());
    server.on_timeout();
}

fn acknowledge(pipe: &mut Pipe, flight: Vec<(Vec<u8>, SendInfo)>) {
    process_flight(&mut pipe.client, flight).unwrap();
    let acks = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, acks).unwrap();
}

#[test]
fn stream_acked_by_a_probe_does_not_block_others() {
    let mut pipe = established();

    pipe.server.stream_priority(CONTROL, 0, false).unwrap();
    pipe.server
        .stream_send(CONTROL, b"settings", false)
        .unwrap();
    pipe.server
        .stream_send(RESPONSE, &[0; 20_000], false)
        .unwrap();
    let mut flight = emit_flight(&mut pipe.server).unwrap();
    let _lost = flight.remove(0);
    let next = flight.remove(0);

    await_timer(&mut pipe.server);
    let recovery = &pipe.server.paths.get_active().unwrap().recovery;
    assert_eq!(recovery.loss_probes(packet::Epoch::Application), 1);
    let probe = emit_flight(&mut pipe.server).unwrap();

    // The settings count as lost. The window has no room for them now, and then
    // the probe is acknowledged.
    acknowledge(&mut pipe, vec![next]);
    if pipe.server.lost_count == 0 {
        await_timer(&mut pipe.server);
    }
    assert_eq!(pipe.server.lost_count, 1);
    assert_eq!(pipe.server.send(&mut [0; 1500]), Err(Error::Done));
    assert!(pipe.server.streams.get(CONTROL).unwrap().is_flushable());
    acknowledge(&mut pipe, probe);
    assert!(!pipe.server.streams.get(CONTROL).unwrap().is_flushable());

    acknowledge(&mut pipe, flight);
    pipe.server.stream_send(RESPONSE, b"more", false).unwrap();
    assert!(pipe.server.send(&mut [0; 1500]).is_ok());
}
