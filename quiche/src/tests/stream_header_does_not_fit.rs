//! A stream whose frame header does not fit into the rest of a packet.

use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

#[test]
fn stream_whose_header_does_not_fit_stays_queued() {
    // Its header takes 15 bytes, beyond what every packet with room for a
    // stream has.
    const STREAM: u64 = 16_384;
    const OFFSET: u64 = 1 << 30;
    const WINDOW: u64 = 4_000_000_000;

    let mut config = Pipe::default_config("reno").unwrap();
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_streams_bidi(5000);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();

    pipe.client.stream_send(STREAM, b"", false).unwrap();
    let stream = pipe.client.streams.get_mut(STREAM).unwrap();
    stream.send.seed_offsets_for_test(OFFSET);
    pipe.client.stream_send(STREAM, &[0; 4096], false).unwrap();

    let mut flight = vec![];
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
