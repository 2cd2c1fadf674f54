//! QUIC frames (RFC 9000, 12.4 and 19): in packets that forbid them, and with invalid contents.

use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::peer::parameters;
use crate::wire::crypto;
use crate::wire::new_connection_id;
use crate::wire::numbers;
use crate::wire::varint_in;
use crate::wire::with_bytes;
use crate::wire::CONNECTION_ID_LIMIT_ERROR;
use crate::wire::CRYPTO_BUFFER_EXCEEDED;
use crate::wire::FRAME_ENCODING_ERROR;
use crate::wire::PROTOCOL_VIOLATION;
use crate::wire::VARINT_MAX;

/// Length of a CRYPTO chunk that fits into a packet.
const PIECES_MAX: usize = 9;

/// Returns well-formed frames by type.
fn well_formed() -> Vec<(u64, Vec<u8>)> {
    let mut frames = vec![
        (0x02, numbers(&[0x02, 0, 0, 0, 0])),
        (0x03, numbers(&[0x03, 0, 0, 0, 0, 0, 0, 0])),
        (0x04, numbers(&[0x04, 0, 0, 0])),
        (0x05, numbers(&[0x05, 0, 0])),
        (0x06, crypto(0, b"text")),
        (0x07, with_bytes(&[0x07, 4], b"text")),
        (0x10, numbers(&[0x10, 0x4000])),
        (0x11, numbers(&[0x11, 0, 0x4000])),
        (0x12, numbers(&[0x12, 0x4000])),
        (0x13, numbers(&[0x13, 0x4000])),
        (0x14, numbers(&[0x14, 0x4000])),
        (0x15, numbers(&[0x15, 0, 0x4000])),
        (0x16, numbers(&[0x16, 0x4000])),
        (0x17, numbers(&[0x17, 0x4000])),
        (0x18, new_connection_id(1, 0, b"another1", 7)),
        (0x19, numbers(&[0x19, 0])),
        (0x1a, with_bytes(&[0x1a], b"8 bytes!")),
        (0x1b, with_bytes(&[0x1b], b"8 bytes!")),
        (0x1c, with_bytes(&[0x1c, 0, 0, 4], b"text")),
        (0x1d, with_bytes(&[0x1d, 0, 4], b"text")),
        (0x1e, vec![0x1e]),
    ];
    for kind in 0x08..0x10 {
        let offset = if kind & 4 == 0 { &[][..] } else { &[0] };
        let length = if kind & 2 == 0 { &[][..] } else { &[4] };
        frames.push((kind, with_bytes(&[&[kind, 0][..], offset, length].concat(), b"text")));
    }
    frames
}

/// Returns the frames that only 1-RTT and 0-RTT packets may carry.
fn for_data_only() -> Vec<(String, Vec<u8>)> {
    let frames = well_formed().into_iter();
    let frames = frames.filter(|(kind, _)| !matches!(kind, 0x02 | 0x03 | 0x06 | 0x1c));
    frames.map(|(kind, frame)| (format!("{kind:#04x}"), frame)).collect()
}

/// Returns each frame without its last byte.
fn cut_off() -> Vec<(String, Vec<u8>)> {
    let frames = well_formed().into_iter();
    // A frame without a length extends to the end of its packet.
    let frames = frames.filter(|(kind, _)| !matches!(kind, 0x08 | 0x09 | 0x0c | 0x0d | 0x1e));
    let cut = |(kind, mut frame): (u64, Vec<u8>)| {
        frame.pop();
        (format!("{kind:#04x}"), frame)
    };
    frames.map(cut).chain([("a type".to_owned(), vec![0x40])]).collect()
}

pub fn rules() -> Vec<Rule> {
    [types(), acknowledgements(), handshake(), connection_ids(), paths()]
        .into_iter()
        .flatten()
        .collect()
}

fn types() -> Vec<Rule> {
    let unknown = || {
        [0x1f, 0x20, 0x2f, 0x32, 0x40, 0xaf, 0x3fff, 0x2ab2, 0x3fff_ffff, VARINT_MAX]
            .map(|kind| (format!("{kind:#x}"), numbers(&[kind])))
    };
    let padded = |space| {
        unknown().map(move |(name, frame)| {
            (format!("{space:?} {name}"), [&frame[..], &[0; 20]].concat())
        })
    };
    let in_space = |space: Space, frames: Vec<(String, Vec<u8>)>| {
        frames.into_iter().map(move |(name, frame)| (format!("{space:?} {name}"), frame))
    };
    vec![
        rule("an unknown frame type", "RFC 9000, 12.4", Transport(FRAME_ENCODING_ERROR))
            .frames(Space::Initial, padded(Space::Initial))
            .frames(Space::Handshake, padded(Space::Handshake))
            .frames(Space::Data, padded(Space::Data)),
        rule(
            "a frame that Initial packets must not carry",
            "RFC 9000, 17.2.2",
            Transport(PROTOCOL_VIOLATION),
        )
        .frames(Space::Initial, in_space(Space::Initial, for_data_only())),
        rule(
            "a frame that Handshake packets must not carry",
            "RFC 9000, 17.2.4",
            Transport(PROTOCOL_VIOLATION),
        )
        .frames(Space::Handshake, in_space(Space::Handshake, for_data_only())),
        rule("a truncated frame", "RFC 9000, 20.1", Transport(FRAME_ENCODING_ERROR))
            .frames(Space::Data, cut_off()),
        rule(
            "an error in a client's first packet",
            "RFC 9000, 11.1",
            Transport(FRAME_ENCODING_ERROR),
        )
        .cases(Progress::Fresh, unknown(), |peer, frame| {
            peer.send(Space::Initial, &[&frame[..], &[0; 20]].concat());
        }),
        rule("HANDSHAKE_DONE from a client", "RFC 9000, 19.20", Transport(PROTOCOL_VIOLATION))
            .frames(Space::Data, [("alone", vec![0x1e]), ("after another", vec![0x01, 0x1e])]),
        rule("NEW_TOKEN from a client", "RFC 9000, 19.7", Transport(PROTOCOL_VIOLATION)).frames(
            Space::Data,
            [
                ("short", with_bytes(&[0x07, 1], b"t")),
                ("long", with_bytes(&[0x07, 900], &[7; 900])),
            ],
        ),
        rule("a type in a longer encoding than necessary", "RFC 9000, 12.4", Served)
            .frames(Space::Data, [2, 4, 8].map(|n| (n.to_string(), varint_in(0x01, n)))),
        rule("DATAGRAM without negotiation", "RFC 9221, 3", Transport(PROTOCOL_VIOLATION)).frames(
            Space::Data,
            [
                ("to the end", with_bytes(&[0x30], b"text")),
                ("with length", with_bytes(&[0x31, 4], b"text")),
                ("empty", numbers(&[0x31, 0])),
            ],
        ),
    ]
}

fn acknowledgements() -> Vec<Rule> {
    let unsent = |space: Space| {
        [1000, 0xffff_ffff, VARINT_MAX].map(|largest| {
            let frame = numbers(&[0x02, largest, 0, 0, 0]);
            (format!("{space:?} {largest}"), [&frame[..], &[0; 20]].concat())
        })
    };
    let encoding = |name, section| rule(name, section, Transport(FRAME_ENCODING_ERROR));
    vec![
        rule(
            "an acknowledgement of an unsent packet",
            "RFC 9000, 13.1",
            Transport(PROTOCOL_VIOLATION),
        )
        .frames(Space::Initial, unsent(Space::Initial))
        .frames(Space::Handshake, unsent(Space::Handshake))
        .frames(Space::Data, unsent(Space::Data))
        .case("Initial, the first packet", Progress::Fresh, |peer| {
            peer.send(Space::Initial, &[&numbers(&[0x02, 0, 0, 0, 0])[..], &[0; 20]].concat());
        }),
        encoding("a first range below 0", "RFC 9000, 19.3.1").frames(
            Space::Data,
            [
                ("by one", numbers(&[0x02, 0, 0, 0, 1])),
                ("by far", numbers(&[0x02, 0, 0, 0, VARINT_MAX])),
                ("with counts", numbers(&[0x03, 0, 0, 0, 1, 0, 0, 0])),
            ],
        ),
        encoding("a gap below 0", "RFC 9000, 19.3.1").frames(
            Space::Data,
            [
                ("by one", numbers(&[0x02, 1, 0, 1, 0, 0, 0])),
                ("by far", numbers(&[0x02, 1, 0, 1, 0, VARINT_MAX, 0])),
            ],
        ),
        encoding("a further range below 0", "RFC 9000, 19.3.1").frames(
            Space::Data,
            [
                ("by one", numbers(&[0x02, 2, 0, 1, 0, 0, 1])),
                ("by far", numbers(&[0x02, 2, 0, 1, 0, 0, VARINT_MAX])),
            ],
        ),
        encoding("more ranges than the packet holds", "RFC 9000, 19.3").frames(
            Space::Data,
            [
                ("one", numbers(&[0x02, 0, 0, 1, 0])),
                ("the largest count", numbers(&[0x02, 0, 0, VARINT_MAX, 0])),
            ],
        ),
        rule("impossible ECN counts", "RFC 9000, 13.4.2.1", Served).frames(
            Space::Data,
            [
                ("all", numbers(&[0x03, 0, 0, 0, 0, VARINT_MAX, VARINT_MAX, VARINT_MAX])),
                ("CE alone", numbers(&[0x03, 0, 0, 0, 0, 0, 0, 1 << 40])),
            ],
        ),
    ]
}

fn handshake() -> Vec<Rule> {
    let places = [1 << 16, 1 << 20, VARINT_MAX - 1];
    let beyond =
        |space: Space| places.map(|offset| (format!("{space:?} {offset}"), crypto(offset, b"x")));
    vec![
        rule(
            "handshake data beyond the buffer",
            "RFC 9000, 7.5",
            Transport(CRYPTO_BUFFER_EXCEEDED),
        )
        .frames(Space::Initial, beyond(Space::Initial))
        .frames(Space::Handshake, beyond(Space::Handshake))
        .frames(Space::Data, beyond(Space::Data)),
        rule(
            "CRYPTO beyond the largest offset",
            "RFC 9000, 19.6",
            Transport(CRYPTO_BUFFER_EXCEEDED),
        )
        .frames(Space::Initial, [("Initial", crypto(VARINT_MAX, b"xx"))])
        .frames(Space::Data, [("1-RTT", crypto(VARINT_MAX, b"xx"))]),
        rule("a gap in CRYPTO data", "RFC 9000, 7.5", Served)
            .frames(Space::Data, [("1-RTT", crypto(10, b"later"))]),
        rule("a handshake in reversed chunks", "RFC 9000, 7.5", Served).cases(
            Progress::Fresh,
            [("of 1", 1), ("of 10", 10), ("of 100", 100)],
            |peer, length| {
                let hello = peer.hello.clone();
                let stream_starts = (0..).step_by(*length).zip(hello.chunks(*length));
                let frames: Vec<_> =
                    stream_starts.map(|(offset, chunk)| crypto(offset, chunk)).collect();
                for packet in frames.rchunks(PIECES_MAX) {
                    let backwards: Vec<_> = packet.iter().rev().cloned().collect();
                    peer.send(Space::Initial, &backwards.concat());
                }
                peer.sent_client_hello = true;
            },
        ),
        rule("repeated CRYPTO data", "RFC 9000, 19.6", Served).cases(
            Progress::Fresh,
            [("once", 1), ("100 times", 100)],
            |peer, times| {
                let hello = peer.hello.clone();
                for _ in 0..*times {
                    peer.send(Space::Initial, &crypto(20, &hello[20..100]));
                }
            },
        ),
        rule("empty CRYPTO frames", "RFC 9000, 19.6", Served).cases(
            Progress::Established,
            [("one", 1), ("many", 300)],
            |peer, count| peer.send(Space::Data, &crypto(0, b"").repeat(*count)),
        ),
    ]
}

fn connection_ids() -> Vec<Rule> {
    let id = |n: u8| [n; 8];
    let of_length = |length: usize| new_connection_id(1, 0, &vec![3; length], 7);
    let encoding = |name| rule(name, "RFC 9000, 19.15", Transport(FRAME_ENCODING_ERROR));
    let limit = |name, section| rule(name, section, Transport(CONNECTION_ID_LIMIT_ERROR));
    let violation = |name, section| rule(name, section, Transport(PROTOCOL_VIOLATION));
    vec![
        encoding("a connection ID of invalid length").frames(
            Space::Data,
            [0, 21, 40, 255].map(|length| (length.to_string(), of_length(length))),
        ),
        encoding("Retire Prior To beyond the sequence number").frames(
            Space::Data,
            [(1, 2), (0, 1), (5, VARINT_MAX)]
                .map(|(n, prior)| (format!("{n} {prior}"), new_connection_id(n, prior, &id(1), 7))),
        ),
        limit("more connection IDs than the limit", "RFC 9000, 5.1.1").cases(
            Progress::Established,
            [("one more", 4), ("many more", 20)],
            |peer, count| {
                let frames = (1..=*count).flat_map(|n| new_connection_id(n, 0, &[n as u8; 8], 7));
                let frames: Vec<u8> = frames.collect();
                peer.send(Space::Data, &frames);
            },
        ),
        limit("too many unacknowledged retirements", "RFC 9000, 5.1.2").case(
            "30 in a packet",
            Progress::Established,
            |peer| {
                let frames = (1..=30).flat_map(|n| new_connection_id(n, n, &[n as u8; 8], 7));
                let frames: Vec<u8> = frames.collect();
                peer.send(Space::Data, &frames);
            },
        ),
        violation("NEW_CONNECTION_ID despite empty IDs", "RFC 9000, 19.15").case(
            "from a client with empty IDs",
            Progress::Fresh,
            |peer| {
                peer.set_source_id(&[], &parameters(&[], &[]));
                peer.complete();
                peer.send(Space::Data, &new_connection_id(1, 0, b"another1", 7));
            },
        ),
        violation("RETIRE_CONNECTION_ID of an unissued ID", "RFC 9000, 19.16").frames(
            Space::Data,
            [100, 1 << 20, VARINT_MAX].map(|n| (n.to_string(), numbers(&[0x19, n]))),
        ),
        violation("RETIRE_CONNECTION_ID of the ID in use", "RFC 9000, 19.16").case(
            "the first",
            Progress::Established,
            |peer| {
                peer.round_trip();
                peer.send(Space::Data, &numbers(&[0x19, 0]));
            },
        ),
    ]
}

fn paths() -> Vec<Rule> {
    vec![
        rule("PATH_RESPONSE to no challenge", "RFC 9000, 19.18", Served).frames(
            Space::Data,
            [
                ("one", with_bytes(&[0x1b], b"8 bytes!")),
                ("many", with_bytes(&[0x1b], b"8 bytes!").repeat(100)),
            ],
        ),
        rule("limits that decrease", "RFC 9000, 4.1", Served).frames(
            Space::Data,
            [
                ("MAX_DATA", numbers(&[0x10, 0])),
                ("MAX_STREAMS", numbers(&[0x12, 0])),
                ("MAX_STREAMS, of one direction", numbers(&[0x13, 0])),
            ],
        ),
        rule("a migration without an unused connection ID", "RFC 9000, 9.5", Served)
            .case("once", Progress::Established, |peer| peer.migrate())
            .case("20 times, at once", Progress::Established, |peer| {
                for _ in 0..20 {
                    peer.migrate();
                    peer.send(Space::Data, &[0x01]);
                }
                peer.ping_until_reply();
            })
            .case("20 times, with a reply each time", Progress::Established, |peer| {
                for _ in 0..20 {
                    peer.migrate();
                    peer.ping_until_reply();
                }
            }),
    ]
}
