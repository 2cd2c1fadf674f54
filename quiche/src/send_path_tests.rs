//! Streams with data to send, which neither stall nor block others.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

const WINDOW: u64 = 4_000_000_000;

/// A control stream, served before every other, and one with a response.
const CONTROL: u64 = 3;
const RESPONSE: u64 = 1;

type Flight = Vec<(Vec<u8>, SendInfo)>;

fn established() -> Pipe {
    let mut config = Pipe::default_config("reno").unwrap();
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_streams_bidi(5000);

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

fn acknowledge(pipe: &mut Pipe, flight: Flight) {
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

#[test]
fn stream_whose_header_does_not_fit_stays_queued() {
    // Its header takes 15 bytes, beyond what every packet with room for a
    // stream has.
    const STREAM: u64 = 16_384;
    const OFFSET: u64 = 1 << 30;

    let mut pipe = established();

    pipe.client.stream_send(STREAM, b"", false).unwrap();
    let stream = pipe.client.streams.get_mut(STREAM).unwrap();
    stream.send.seed_offsets_for_test(OFFSET);
    pipe.client.stream_send(STREAM, &[0; 4096], false).unwrap();

    let mut flight: Flight = vec![];
    for size in 25..80 {
        let mut buf = vec![0; size];

        if let Ok((len, info)) = pipe.client.send(&mut buf) {
            buf.truncate(len);
            flight.push((buf, info));
        }
    }

    process_flight(&mut pipe.server, flight).unwrap();
    pipe.advance().unwrap();
    let received = pipe.server.streams.get(STREAM).unwrap().recv.max_off();
    assert_eq!(received, OFFSET + 4096);
}
