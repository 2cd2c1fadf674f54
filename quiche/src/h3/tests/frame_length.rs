//! Frames that are longer or shorter than their fields (RFC 9114, 7.1).

use super::*;

const CONTROL: u64 = 2;

/// Returns what a server answers to a frame on the control stream.
fn answer_to(ty: u64, payload: &[u8]) -> Result<(u64, Event)> {
    let mut frame = [0; 30];
    let mut b = octets::OctetsMut::with_slice(&mut frame);
    b.put_varint(ty).unwrap();
    b.put_varint(payload.len() as u64).unwrap();
    b.put_bytes(payload).unwrap();
    let len = b.off();

    let mut s = Session::new().unwrap();
    s.handshake().unwrap();
    s.send_arbitrary_stream_data_client(&frame[..len], CONTROL, false)
        .unwrap();
    s.poll_server()
}

/// Frames of one integer, and what a server answers to a 0.
const OF_ONE_INTEGER: [(u64, Result<(u64, Event)>); 3] = [
    (frame::CANCEL_PUSH_FRAME_TYPE_ID, Err(Error::Done)),
    (frame::GOAWAY_FRAME_TYPE_ID, Ok((0, Event::GoAway))),
    (frame::MAX_PUSH_FRAME_TYPE_ID, Err(Error::Done)),
];

#[test]
fn frame_longer_than_its_fields_is_an_error() {
    for (ty, answer) in OF_ONE_INTEGER {
        assert_eq!(answer_to(ty, &[0]), answer, "{ty:#x}");
        assert_eq!(answer_to(ty, &[0, 0]), Err(Error::FrameError), "{ty:#x}");
    }
}

#[test]
fn frame_shorter_than_its_fields_is_an_error() {
    let update = frame::PRIORITY_UPDATE_FRAME_REQUEST_TYPE_ID;
    for ty in OF_ONE_INTEGER.map(|(ty, _)| ty).into_iter().chain([update]) {
        let answer = answer_to(ty, &[0x40]);
        assert_eq!(answer, Err(Error::FrameError), "{ty:#x}");
    }
}
