//! A datagram with an Initial packet is padded, and each of its packets can be
//! read.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

// RFC 9000, 12.2: a packet with a short header extends to the end of the
// datagram.
#[test]
fn rest_of_the_window_is_no_packet_before_padding() {
    let mut config = Pipe::default_config_no_pq("cubic").unwrap();
    config.set_initial_max_data(1_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_rtt(Duration::from_millis(1));
    config.enable_early_data();
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    let session = pipe.client.session().unwrap().to_vec();

    // Nearly all of the initial window, and all of it.
    for response in (10_000..14_000).step_by(200) {
        let mut pipe = Pipe::with_config(&mut config).unwrap();
        pipe.client.set_session(&session).unwrap();
        let hello = emit_flight(&mut pipe.client).unwrap();
        process_flight(&mut pipe.server, hello).unwrap();
        pipe.client.stream_send(0, b"get", true).unwrap();
        let request = emit_flight(&mut pipe.client).unwrap();
        process_flight(&mut pipe.server, request).unwrap();

        // The client's token says that it has the address.
        let path = pipe.server.paths.get_active_mut().unwrap();
        path.verified_peer_address = true;
        let answer = vec![0; response];
        pipe.server.stream_send(0, &answer, false).unwrap();
        let early = emit_flight(&mut pipe.server).unwrap();

        // It is late, and the client sends its first packet again.
        std::thread::sleep(pipe.client.timeout().unwrap());
        pipe.client.on_timeout();
        let again = emit_flight(&mut pipe.client).unwrap();
        process_flight(&mut pipe.server, again).unwrap();
        // As much as the window has room for.
        let _ = pipe.server.stream_send(0, &[0; 9000], true);
        let late = emit_flight(&mut pipe.server).unwrap_or_default();

        process_flight(&mut pipe.client, early).unwrap();
        process_flight(&mut pipe.client, late).unwrap();
        let (sent, read) = (pipe.server.stats().sent, pipe.client.stats().recv);
        assert_eq!(read, sent, "{response}");
    }
}
