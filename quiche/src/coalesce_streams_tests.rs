//! Data of several streams in one packet.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;
use rstest::rstest;

const STREAMS: [u64; 5] = [1, 5, 9, 13, 17];
const LEN: usize = 100;

fn established(on: bool) -> Pipe {
    let mut config = Pipe::default_config("cubic").unwrap();
    config.set_coalesce_streams(on);
    config.set_initial_max_data(100_000);
    config.set_initial_max_stream_data_bidi_remote(100_000);
    config.set_initial_max_streams_bidi(STREAMS.len() as u64);

    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    pipe
}

fn write(pipe: &mut Pipe, incremental: bool) {
    for stream in STREAMS {
        pipe.server.stream_priority(stream, 7, incremental).unwrap();
        let data = [stream as u8; LEN];
        assert_eq!(pipe.server.stream_send(stream, &data, true), Ok(LEN));
    }
}

fn assert_received(client: &mut Connection) {
    for stream in STREAMS {
        let mut data = [0; 2 * LEN];
        assert_eq!(client.stream_recv(stream, &mut data), Ok((LEN, true)));
        assert_eq!(data[..LEN], [stream as u8; LEN]);
    }
}

#[rstest]
fn small_streams_share_a_packet_if_they_may(
    #[values(true, false)] on: bool, #[values(true, false)] incremental: bool,
) {
    let mut pipe = established(on);
    write(&mut pipe, incremental);

    let flight = emit_flight(&mut pipe.server).unwrap();
    assert_eq!(flight.len(), if on { 1 } else { STREAMS.len() });

    process_flight(&mut pipe.client, flight).unwrap();
    assert_received(&mut pipe.client);
}

#[test]
fn lost_shared_packet_is_resent_for_every_stream() {
    let mut pipe = established(true);
    write(&mut pipe, true);
    drop(emit_flight(&mut pipe.server).unwrap());

    // Later packets arrive, and tell of the loss.
    for _ in 0..4 {
        pipe.server.send_ack_eliciting().unwrap();
        let flight = emit_flight(&mut pipe.server).unwrap();
        process_flight(&mut pipe.client, flight).unwrap();
        let acks = emit_flight(&mut pipe.client).unwrap();
        process_flight(&mut pipe.server, acks).unwrap();
    }

    pipe.advance().unwrap();
    assert_received(&mut pipe.client);
}

#[test]
fn packet_is_filled_by_frames_that_fit() {
    let mut pipe = established(true);
    let mut data = vec![7; 1000];
    for stream in &STREAMS[..3] {
        assert_eq!(pipe.server.stream_send(*stream, &data, true), Ok(1000));
    }

    let flight = emit_flight(&mut pipe.server).unwrap();
    let full = pipe.server.max_send_udp_payload_size();
    assert_eq!(flight.len(), 3);
    assert_eq!([flight[0].0.len(), flight[1].0.len()], [full, full]);

    process_flight(&mut pipe.client, flight).unwrap();
    for stream in &STREAMS[..3] {
        let received = pipe.client.stream_recv(*stream, &mut data);
        assert_eq!(received, Ok((1000, true)));
    }
}
