//! Control streams are polled only after new data: their frames are read, and
//! checked, all the same.

use super::testing::Session;
use super::*;

/// A request, and SETTINGS.
const REQUEST: u64 = 0;
const CONTROL: u64 = 2;
const HEADERS: &[u8] = &[0x01, 0x05, 0x00, 0x00, 0xd1, 0xd7, 0xc1];
const SETTINGS: &[u8] = &[0x00, 0x04, 0x00];

/// PRIORITY_UPDATE of the request, and of the next: u=1 (RFC 9218, 7.2).
const PRIORITY_UPDATE: &[u8] =
    &[0x80, 0x0f, 0x07, 0x00, 0x04, 0x00, b'u', b'=', b'1'];
const NEXT_REQUEST: u64 = 4;
const NEXT_UPDATE: &[u8] =
    &[0x80, 0x0f, 0x07, 0x00, 0x04, 0x04, b'u', b'=', b'1'];

type PolledEvent = std::result::Result<(u64, Event), Error>;

/// Returns what the server polls after each of these packets.
fn polled(packets: &[&[(u64, &[u8], bool)]]) -> Vec<Vec<PolledEvent>> {
    let (mut config, http) = Session::default_configs().unwrap();
    let mut session = Session::with_configs(&mut config, &http).unwrap();
    session.pipe.handshake().unwrap();
    packets
        .iter()
        .map(|streams| {
            for (stream, bytes, fin) in *streams {
                let client = &mut session.pipe.client;
                client.stream_send(*stream, bytes, *fin).unwrap();
            }
            let _ = session.pipe.advance();
            let next = || match session.server.poll(&mut session.pipe.server) {
                Err(Error::Done) => None,
                event => Some(event),
            };
            std::iter::from_fn(next).collect()
        })
        .collect()
}

#[test]
fn control_stream_that_ends_closes_the_connection() {
    let with_update = [SETTINGS, PRIORITY_UPDATE].concat();
    for bytes in [&SETTINGS[..1], SETTINGS, &with_update] {
        let ended = &[(REQUEST, HEADERS, true), (CONTROL, bytes, true)];
        let events = polled(&[ended]);
        let closed = Err(Error::ClosedCriticalStream);
        assert_eq!(events[0].last(), Some(&closed), "{bytes:?}");
    }
}

#[test]
fn later_control_frames_are_polled_first() {
    let events = polled(&[
        &[(CONTROL, SETTINGS, false)],
        &[(REQUEST, HEADERS, true), (CONTROL, PRIORITY_UPDATE, false)],
        &[(CONTROL, NEXT_UPDATE, false)],
        &[(CONTROL, &[], true)],
    ]);
    let update = |stream| Ok((stream, Event::PriorityUpdate));
    assert_eq!(events[0], []);
    assert_eq!(events[1][0], update(REQUEST));
    assert_eq!(events[1].len(), 3, "{events:?}");
    assert_eq!(events[2], [update(NEXT_REQUEST)]);
    assert_eq!(events[3], [Err(Error::ClosedCriticalStream)]);
}
