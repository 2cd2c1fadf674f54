//! Packets (RFC 9000, 5, 6, 12, 14, 17; RFC 9001, 4 to 6): what is no packet is
//! dropped, whatever is in it.

use crate::case::kind;
use crate::case::Answer::*;
use crate::case::Kind;
use crate::case::Stage;
use crate::packet::Space;
use crate::packet::FIXED_BIT;
use crate::peer::Peer;
use crate::peer::INITIAL_BYTES;
use crate::peer::KEY_UPDATES;
use crate::wire::varint_in;
use crate::wire::KEY_UPDATE_ERROR;
use crate::wire::PROTOCOL_VIOLATION;

/// A frame that ends the connection, if anybody looks at it: HANDSHAKE_DONE.
const FATAL: [u8; 1] = [0x1e];
const PING: [u8; 1] = [0x01];

pub fn kinds() -> Vec<Kind> {
    [versions(), strangers(), headers(), protection(), connections(), keys()]
        .into_iter()
        .flatten()
        .collect()
}

/// A long header with these IDs, and a datagram of so many bytes.
fn long(first: u8, version: u32, ids: [&[u8]; 2], rest: &[u8], bytes: usize) -> Vec<u8> {
    let mut packet = vec![first];
    packet.extend(version.to_be_bytes());
    for id in ids {
        packet.push(id.len() as u8);
        packet.extend(id);
    }
    packet.extend(rest);
    packet.resize(bytes.max(packet.len()), 0);
    packet
}

fn throw(peer: &mut Peer, datagram: &[u8]) {
    peer.throw(datagram);
}

fn unsupported(rest: &'static [u8], version: u32, ids: [usize; 2]) -> impl Fn(&mut Peer) {
    move |peer: &mut Peer| {
        peer.destination = vec![0xd0; ids[0]];
        peer.source = vec![0x50; ids[1]];
        let packet = long(0xc0, version, [&peer.destination, &peer.source], rest, INITIAL_BYTES);
        peer.throw(&packet);
    }
}

fn versions() -> Vec<Kind> {
    let ids = [b"server 1", b"client 1"].map(|id| id.as_slice());
    let small = |bytes| long(0xc0, 0x1a2a_3a4a, ids, &[], bytes);
    vec![
        kind("a version that the server does not have", "RFC 9000, 6.1", VersionNegotiation)
            .input("reserved", Stage::Fresh, unsupported(&[], 0x1a2a_3a4a, [8, 8]))
            .input("QUIC 2", Stage::Fresh, unsupported(&[], 0x6b33_43cf, [8, 8]))
            .input("a draft", Stage::Fresh, unsupported(&[], 0xff00_001d, [8, 8]))
            .input("all ones", Stage::Fresh, unsupported(&[], u32::MAX, [8, 8]))
            // RFC 8999, 5.1: IDs of any length, and anything behind them.
            .input("no IDs", Stage::Fresh, unsupported(&[], 0x1a2a_3a4a, [0, 0]))
            .input("long IDs", Stage::Fresh, unsupported(&[], 0x1a2a_3a4a, [255, 255]))
            .input("other fields", Stage::Fresh, unsupported(&[0xff; 9], 0x1a2a_3a4a, [8, 8])),
        kind(
            "a version that the server does not have, in a small datagram",
            "RFC 9000, 5.2.2",
            Silence,
        )
        .inputs(Stage::Fresh, [("50", small(50)), ("1199", small(1199))], |p, d| throw(p, d)),
        kind("Version Negotiation from a client", "RFC 9000, 6.1", Silence).inputs(
            Stage::Fresh,
            [
                ("small", long(0xc0, 0, ids, &[0, 0, 0, 1], 0)),
                ("large", long(0xff, 0, ids, &[0, 0, 0, 1], INITIAL_BYTES)),
                ("empty", long(0x80, 0, ids, &[], 0)),
                ("odd", long(0x80, 0, ids, &[1, 2, 3], 0)),
            ],
            |p, d| throw(p, d),
        ),
    ]
}

fn strangers() -> Vec<Kind> {
    let ids = [b"server 2", b"client 2"].map(|id| id.as_slice());
    let of_type = |first| long(first, 1, ids, &[0x44, 0], INITIAL_BYTES);
    let short = |bytes| [&[0x40][..], &vec![7; bytes - 1]].concat();
    vec![
        kind("a Retry packet from a client", "RFC 9000, 17.2.5", Silence).inputs(
            Stage::Fresh,
            [("alone", of_type(0xf0))],
            |p, d| throw(p, d),
        ),
        kind("a packet that opens no connection", "RFC 9000, 5.2.2", Silence).inputs(
            Stage::Fresh,
            [
                ("0-RTT", of_type(0xd0)),
                ("Handshake", of_type(0xe0)),
                ("1-RTT", short(INITIAL_BYTES)),
            ],
            |p, d| throw(p, d),
        ),
        kind("a packet too short to be reset", "RFC 9000, 10.3.3", Silence).inputs(
            Stage::Fresh,
            [("1", short(1)), ("16", short(16)), ("17", short(17)), ("21", short(21))],
            |p, d| throw(p, d),
        ),
        kind("an ID of a connection that is over", "RFC 9000, 10.3", StatelessReset).input(
            "as soon as it is forgotten",
            Stage::Open,
            |peer| {
                peer.wait("connection IDs", |peer| !peer.heard.ids.is_empty());
                peer.leave();
                let id = peer.heard.ids.values().next().unwrap().0.clone();
                let packet = [&[0x41][..], &id, &[5; 50]].concat();
                for _ in 0..1000 {
                    peer.throw(&packet);
                    if peer.receive() && peer.heard.is_reset() {
                        return;
                    }
                }
            },
        ),
        kind("an Initial packet in a small datagram", "RFC 9000, 14.1", Silence).inputs(
            Stage::Fresh,
            [("300", 300), ("1199", INITIAL_BYTES - 1)],
            |peer, bytes| {
                let frames = crate::wire::crypto(0, &peer.hello.clone());
                let packet = peer.packet(Space::Initial, &frames);
                let mut datagram = peer.seal(Space::Initial, &packet);
                datagram.resize(*bytes.max(&datagram.len()), 0);
                peer.throw(&datagram);
            },
        ),
    ]
}

fn headers() -> Vec<Kind> {
    let id = b"8 bytes!".as_slice();
    let initial = |rest: &[u8], ids| long(0xc3, 1, ids, rest, INITIAL_BYTES);
    let cut =
        |bytes: usize| (bytes.to_string(), initial(&[0, 0x44, 0x9e], [id, id])[..bytes].to_vec());
    let without_bit = |peer: &mut Peer| {
        let frames = crate::wire::crypto(0, &peer.hello.clone());
        peer.send_changed(Space::Initial, &frames, |packet| packet.first &= !FIXED_BIT);
    };
    vec![
        kind("connection IDs longer than 20 bytes", "RFC 9000, 17.2", Silence).inputs(
            Stage::Fresh,
            [
                ("21 and 8", initial(&[0, 0x44, 0x9e], [&[1; 21], id])),
                ("8 and 21", initial(&[0, 0x44, 0x9e], [id, &[1; 21]])),
                ("255 and 255", initial(&[0, 0x44, 0x9e], [&[1; 255], &[1; 255]])),
            ],
            |p, d| throw(p, d),
        ),
        kind("a header that is cut off", "RFC 9000, 17.2", Silence).inputs(
            Stage::Fresh,
            [1, 3, 5, 6, 10, 14, 15, 23, 24, 25].map(cut),
            |p, d| throw(p, d),
        ),
        kind("the fixed bit is 0", "RFC 9000, 17.2", Silence).input(
            "Initial",
            Stage::Fresh,
            without_bit,
        ),
        kind("a token longer than its packet", "RFC 9000, 17.2.2", Silence).inputs(
            Stage::Fresh,
            [
                ("by far", initial(&varint_in((1 << 62) - 1, 8), [id, id])),
                ("a little", initial(&varint_in(2000, 2), [id, id])),
            ],
            |p, d| throw(p, d),
        ),
        kind("a Length that is not the packet's", "RFC 9000, 17.2", Silence).inputs(
            Stage::Fresh,
            [("0", 0), ("3", 3), ("19", 19), ("1500", 1500), ("the largest", (1 << 62) - 1)],
            |peer, length| {
                peer.send_changed(Space::Initial, &[0; 1100], |packet| {
                    packet.length = Some(*length)
                });
            },
        ),
        kind("a packet that cannot be opened", "RFC 9001, 5.3", Silence)
            .input("another key", Stage::Fresh, |peer| {
                let id = peer.destination.clone();
                peer.address(b"elsewhere");
                peer.send_changed(Space::Initial, &[0; 1100], |packet| packet.destination = id);
            })
            .input("a changed byte", Stage::Fresh, |peer| {
                let packet = peer.packet(Space::Initial, &[0; 1200]);
                let mut datagram = peer.seal(Space::Initial, &packet);
                datagram[700] ^= 1;
                peer.throw(&datagram);
            }),
    ]
}

fn protection() -> Vec<Kind> {
    let reserved = |bits: u8| {
        move |peer: &mut Peer, space: Space| {
            let payload = [PING.as_slice(), &[0; 30]].concat();
            peer.send_changed(space, &payload, |packet| packet.first |= bits);
        }
    };
    let nothing = |space| move |peer: &mut Peer| peer.send(space, &[]);
    let mut reserved_bits =
        kind("reserved bits that are not 0", "RFC 9000, 17.2", Transport(PROTOCOL_VIOLATION));
    for (space, stage, bits) in [
        (Space::Initial, Stage::Met, [0x04, 0x08, 0x0c]),
        (Space::Handshake, Stage::Met, [0x04, 0x08, 0x0c]),
        (Space::Data, Stage::Open, [0x08, 0x10, 0x18]),
    ] {
        for bits in bits {
            let act = reserved(bits);
            let name = format!("{space:?} {bits:#x}");
            reserved_bits = reserved_bits.input(name, stage, move |peer| act(peer, space));
        }
    }
    vec![
        reserved_bits,
        kind("a packet without frames", "RFC 9000, 12.4", Transport(PROTOCOL_VIOLATION))
            .input("Initial", Stage::Met, nothing(Space::Initial))
            .input("Handshake", Stage::Met, nothing(Space::Handshake))
            .input("1-RTT", Stage::Open, nothing(Space::Data)),
        kind("a packet too short for a sample", "RFC 9001, 5.4.2", Served).inputs(
            Stage::Open,
            [17, 18, 20, 36].map(|bytes| (bytes.to_string(), bytes)),
            |peer, bytes| {
                let sealed = peer.packet(Space::Data, &FATAL);
                let datagram = peer.seal(Space::Data, &sealed);
                peer.throw(&datagram[..*bytes]);
            },
        ),
    ]
}

fn connections() -> Vec<Kind> {
    vec![
        kind("the fixed bit of a connection's packet is 0", "RFC 9000, 17.3.1", Served)
            .input("1-RTT", Stage::Open, |peer| {
                peer.send_changed(Space::Data, &FATAL, |packet| packet.first &= !FIXED_BIT);
            })
            .input("Handshake", Stage::Met, |peer| {
                peer.send_changed(Space::Handshake, &FATAL, |packet| packet.first &= !FIXED_BIT);
            }),
        kind("an Initial packet of a connection in a small datagram", "RFC 9000, 14.1", Served)
            .input("alone", Stage::Met, |peer| {
                let packet = peer.packet(Space::Initial, &FATAL);
                let datagram = peer.seal(Space::Initial, &packet);
                peer.throw(&datagram);
            })
            .input("behind another", Stage::Met, |peer| {
                let first = peer.packet(Space::Handshake, &PING);
                let second = peer.packet(Space::Initial, &FATAL);
                peer.send_packets(&[(Space::Handshake, first), (Space::Initial, second)]);
            }),
        kind("a packet number for the second time", "RFC 9000, 12.3", Served)
            .inputs(Stage::Open, [("the last", 0), ("an earlier one", 3)], |peer, before| {
                (0..4).for_each(|_| peer.send(Space::Data, &PING));
                let number = peer.last_number(Space::Data).unwrap() - before;
                peer.send_changed(Space::Data, &FATAL, |packet| packet.number = number);
            })
            .input("the same bytes", Stage::Open, |peer| {
                let packet = peer.packet(Space::Data, &PING);
                let datagram = peer.seal(Space::Data, &packet);
                (0..100).for_each(|_| peer.throw(&datagram));
            }),
        kind("packets of other connections in one datagram", "RFC 9000, 12.2", Served).input(
            "Handshake",
            Stage::Met,
            |peer| {
                let first = peer.packet(Space::Handshake, &PING);
                let mut second = peer.packet(Space::Handshake, &FATAL);
                second.destination = vec![9; 16];
                peer.send_packets(&[(Space::Handshake, first), (Space::Handshake, second)]);
            },
        ),
        kind("a datagram that ends with something else", "RFC 9000, 12.2", Served).inputs(
            Stage::Met,
            [("zeros", vec![0; 40]), ("ones", vec![0xff; 40]), ("a byte", vec![0xc0])],
            |peer, rest| {
                let packet = peer.packet(Space::Handshake, &PING);
                let sealed = peer.seal(Space::Handshake, &packet);
                peer.throw(&[&sealed, &rest[..]].concat());
            },
        ),
        kind("another source connection ID", "RFC 9000, 7.2", Served).input(
            "Initial",
            Stage::Met,
            |peer| {
                peer.send_changed(Space::Initial, &FATAL, |packet| packet.source = vec![3; 8]);
            },
        ),
        kind("a Version Negotiation or Retry packet amid a connection", "RFC 9000, 17.2.5", Served)
            .input("Version Negotiation", Stage::Met, |peer| {
                let ids = [peer.destination.clone(), peer.source.clone()];
                let packet = long(0xc0, 0, [&ids[0], &ids[1]], &[0, 0, 0, 2], 0);
                peer.throw(&packet);
            })
            .input("Retry", Stage::Met, |peer| {
                let ids = [peer.destination.clone(), peer.source.clone()];
                let packet = long(0xf0, 1, [&ids[0], &ids[1]], &[7; 60], 0);
                peer.throw(&packet);
            }),
        kind("another version amid a connection", "RFC 9000, 5.2", Served).input(
            "Handshake",
            Stage::Met,
            |peer| {
                peer.send_changed(Space::Handshake, &FATAL, |packet| packet.version = 0x1a2a_3a4a);
            },
        ),
        kind("what looks like a stateless reset of the server's", "RFC 9000, 10.3", Served).input(
            "the server's own token",
            Stage::Open,
            |peer| {
                peer.wait("connection IDs", |peer| !peer.heard.ids.is_empty());
                let token = peer.heard.ids.values().next().unwrap().1.clone();
                let packet = [&[0x41], &peer.destination[..], &[5; 30], &token].concat();
                peer.throw(&packet);
            },
        ),
    ]
}

fn keys() -> Vec<Kind> {
    let early = |space| {
        move |peer: &mut Peer| {
            let datagram = peer.packet(space, &FATAL);
            let datagram = peer.seal(space, &datagram);
            peer.throw(&datagram);
        }
    };
    vec![
        kind("1-RTT packets before the handshake is complete", "RFC 9001, 5.7", Served).input(
            "with the right keys",
            Stage::Met,
            early(Space::Data),
        ),
        kind("0-RTT packets that nobody has keys for", "RFC 9001, 4.6", Served).inputs(
            Stage::Met,
            [("one", 1), ("many", 100)],
            |peer, count| {
                for _ in 0..*count {
                    peer.send_changed(Space::Handshake, &FATAL, |packet| packet.first = 0xd3);
                }
            },
        ),
        kind("Initial packets after their keys are discarded", "RFC 9001, 4.9.1", Served).input(
            "fatal",
            Stage::Open,
            |peer| peer.send(Space::Initial, &FATAL),
        ),
        kind("Handshake packets after their keys are discarded", "RFC 9001, 4.9.2", Served).input(
            "fatal",
            Stage::Open,
            |peer| peer.send(Space::Handshake, &FATAL),
        ),
        kind("a key phase without its keys", "RFC 9001, 6.3", Served)
            .input("the old keys", Stage::Open, |peer| {
                peer.send_changed(Space::Data, &FATAL, |packet| packet.first |= 0x04);
            })
            .input("keys after the next", Stage::Open, |peer| {
                let datagram = peer.seal_updated(3, &FATAL);
                peer.throw(&datagram);
            }),
        kind(
            "keys updated twice before it is acknowledged",
            "RFC 9001, 6.1",
            Transport(KEY_UPDATE_ERROR),
        )
        .input("at once", Stage::Open, |peer| {
            peer.acknowledges = false;
            // Now and then the server takes long enough to forget the keys before.
            let sealed = |generation| peer.seal_updated(generation, &PING);
            let datagrams: Vec<_> = (1..=KEY_UPDATES).map(sealed).collect();
            datagrams.iter().for_each(|datagram| peer.throw(datagram));
        }),
    ]
}
