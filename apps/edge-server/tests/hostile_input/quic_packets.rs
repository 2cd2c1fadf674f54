//! QUIC packets (RFC 9000, 5, 6, 12, 14, 17; RFC 9001, 4 to 6): invalid ones are dropped.

use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::packet::FIXED_BIT;
use crate::peer::HostilePeer;
use crate::peer::INITIAL_BYTES;
use crate::peer::KEY_UPDATES;
use crate::wire::varint_in;
use crate::wire::KEY_UPDATE_ERROR;
use crate::wire::PROTOCOL_VIOLATION;

/// HANDSHAKE_DONE, which closes the connection if the server handles the packet.
const FATAL: [u8; 1] = [0x1e];
const PING: [u8; 1] = [0x01];

pub fn rules() -> Vec<Rule> {
    [versions(), unknown_connections(), headers(), protection(), connections(), keys()]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns a datagram of `bytes` bytes with a long header and these IDs.
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

fn send_datagram(peer: &mut HostilePeer, datagram: &[u8]) {
    peer.send_datagram(datagram);
}

fn unsupported(rest: &'static [u8], version: u32, ids: [usize; 2]) -> impl Fn(&mut HostilePeer) {
    move |peer: &mut HostilePeer| {
        peer.destination = vec![0xd0; ids[0]];
        peer.source = vec![0x50; ids[1]];
        let packet = long(0xc0, version, [&peer.destination, &peer.source], rest, INITIAL_BYTES);
        peer.send_datagram(&packet);
    }
}

fn versions() -> Vec<Rule> {
    let ids = [b"server 1", b"client 1"].map(|id| id.as_slice());
    let small = |bytes| long(0xc0, 0x1a2a_3a4a, ids, &[], bytes);
    vec![
        rule("an unsupported version", "RFC 9000, 6.1", VersionNegotiation)
            .case("reserved", Progress::Fresh, unsupported(&[], 0x1a2a_3a4a, [8, 8]))
            .case("QUIC 2", Progress::Fresh, unsupported(&[], 0x6b33_43cf, [8, 8]))
            .case("a draft", Progress::Fresh, unsupported(&[], 0xff00_001d, [8, 8]))
            .case("all ones", Progress::Fresh, unsupported(&[], u32::MAX, [8, 8]))
            // RFC 8999, 5.1: IDs of any length, followed by anything.
            .case("no IDs", Progress::Fresh, unsupported(&[], 0x1a2a_3a4a, [0, 0]))
            .case("long IDs", Progress::Fresh, unsupported(&[], 0x1a2a_3a4a, [255, 255]))
            .case("other fields", Progress::Fresh, unsupported(&[0xff; 9], 0x1a2a_3a4a, [8, 8])),
        rule("an unsupported version in a small datagram", "RFC 9000, 5.2.2", Silence).cases(
            Progress::Fresh,
            [("50", small(50)), ("1199", small(1199))],
            |p, d| send_datagram(p, d),
        ),
        rule("Version Negotiation from a client", "RFC 9000, 6.1", Silence).cases(
            Progress::Fresh,
            [
                ("small", long(0xc0, 0, ids, &[0, 0, 0, 1], 0)),
                ("large", long(0xff, 0, ids, &[0, 0, 0, 1], INITIAL_BYTES)),
                ("empty", long(0x80, 0, ids, &[], 0)),
                ("odd", long(0x80, 0, ids, &[1, 2, 3], 0)),
            ],
            |p, d| send_datagram(p, d),
        ),
    ]
}

fn unknown_connections() -> Vec<Rule> {
    let ids = [b"server 2", b"client 2"].map(|id| id.as_slice());
    let of_type = |first| long(first, 1, ids, &[0x44, 0], INITIAL_BYTES);
    let short = |bytes| [&[0x40][..], &vec![7; bytes - 1]].concat();
    vec![
        rule("a Retry packet from a client", "RFC 9000, 17.2.5", Silence).cases(
            Progress::Fresh,
            [("alone", of_type(0xf0))],
            |p, d| send_datagram(p, d),
        ),
        rule("a packet that does not open a connection", "RFC 9000, 5.2.2", Silence).cases(
            Progress::Fresh,
            [
                ("0-RTT", of_type(0xd0)),
                ("Handshake", of_type(0xe0)),
                ("1-RTT", short(INITIAL_BYTES)),
            ],
            |p, d| send_datagram(p, d),
        ),
        rule("a packet too short for a stateless reset", "RFC 9000, 10.3.3", Silence).cases(
            Progress::Fresh,
            [("1", short(1)), ("16", short(16)), ("17", short(17)), ("21", short(21))],
            |p, d| send_datagram(p, d),
        ),
        rule("the ID of a closed connection", "RFC 9000, 10.3", StatelessReset).case(
            "as soon as the server has removed it",
            Progress::Established,
            |peer| {
                peer.wait("connection IDs", |peer| !peer.received.ids.is_empty());
                peer.close();
                let id = peer.received.ids.values().next().unwrap().0.clone();
                let packet = [&[0x41][..], &id, &[5; 50]].concat();
                for _ in 0..1000 {
                    peer.send_datagram(&packet);
                    if peer.receive() && peer.received.is_reset() {
                        return;
                    }
                }
            },
        ),
        rule("an Initial packet in a small datagram", "RFC 9000, 14.1", Silence).cases(
            Progress::Fresh,
            [("300", 300), ("1199", INITIAL_BYTES - 1)],
            |peer, bytes| {
                let frames = crate::wire::crypto(0, &peer.hello.clone());
                let packet = peer.packet(Space::Initial, &frames);
                let mut datagram = peer.seal(Space::Initial, &packet);
                datagram.resize(*bytes.max(&datagram.len()), 0);
                peer.send_datagram(&datagram);
            },
        ),
    ]
}

fn headers() -> Vec<Rule> {
    let id = b"8 bytes!".as_slice();
    let initial = |rest: &[u8], ids| long(0xc3, 1, ids, rest, INITIAL_BYTES);
    let cut =
        |bytes: usize| (bytes.to_string(), initial(&[0, 0x44, 0x9e], [id, id])[..bytes].to_vec());
    let without_bit = |peer: &mut HostilePeer| {
        let frames = crate::wire::crypto(0, &peer.hello.clone());
        peer.send_modified(Space::Initial, &frames, |packet| packet.first &= !FIXED_BIT);
    };
    vec![
        rule("connection IDs longer than 20 bytes", "RFC 9000, 17.2", Silence).cases(
            Progress::Fresh,
            [
                ("21 and 8", initial(&[0, 0x44, 0x9e], [&[1; 21], id])),
                ("8 and 21", initial(&[0, 0x44, 0x9e], [id, &[1; 21]])),
                ("255 and 255", initial(&[0, 0x44, 0x9e], [&[1; 255], &[1; 255]])),
            ],
            |p, d| send_datagram(p, d),
        ),
        rule("a truncated header", "RFC 9000, 17.2", Silence).cases(
            Progress::Fresh,
            [1, 3, 5, 6, 10, 14, 15, 23, 24, 25].map(cut),
            |p, d| send_datagram(p, d),
        ),
        rule("the fixed bit is 0", "RFC 9000, 17.2", Silence).case(
            "Initial",
            Progress::Fresh,
            without_bit,
        ),
        rule("a token longer than its packet", "RFC 9000, 17.2.2", Silence).cases(
            Progress::Fresh,
            [
                ("by far", initial(&varint_in((1 << 62) - 1, 8), [id, id])),
                ("a little", initial(&varint_in(2000, 2), [id, id])),
            ],
            |p, d| send_datagram(p, d),
        ),
        rule("a wrong Length", "RFC 9000, 17.2", Silence).cases(
            Progress::Fresh,
            [("0", 0), ("3", 3), ("19", 19), ("1500", 1500), ("the largest", (1 << 62) - 1)],
            |peer, length| {
                peer.send_modified(Space::Initial, &[0; 1100], |packet| {
                    packet.length = Some(*length)
                });
            },
        ),
        rule("a packet that cannot be decrypted", "RFC 9001, 5.3", Silence)
            .case("another key", Progress::Fresh, |peer| {
                let id = peer.destination.clone();
                peer.set_destination_id(b"elsewhere");
                peer.send_modified(Space::Initial, &[0; 1100], |packet| packet.destination = id);
            })
            .case("a changed byte", Progress::Fresh, |peer| {
                let packet = peer.packet(Space::Initial, &[0; 1200]);
                let mut datagram = peer.seal(Space::Initial, &packet);
                datagram[700] ^= 1;
                peer.send_datagram(&datagram);
            }),
    ]
}

fn protection() -> Vec<Rule> {
    let reserved = |bits: u8| {
        move |peer: &mut HostilePeer, space: Space| {
            let payload = [PING.as_slice(), &[0; 30]].concat();
            peer.send_modified(space, &payload, |packet| packet.first |= bits);
        }
    };
    let nothing = |space| move |peer: &mut HostilePeer| peer.send(space, &[]);
    let mut reserved_bits =
        rule("reserved bits that are not 0", "RFC 9000, 17.2", Transport(PROTOCOL_VIOLATION));
    for (space, stage, bits) in [
        (Space::Initial, Progress::ServerHello, [0x04, 0x08, 0x0c]),
        (Space::Handshake, Progress::ServerHello, [0x04, 0x08, 0x0c]),
        (Space::Data, Progress::Established, [0x08, 0x10, 0x18]),
    ] {
        for bits in bits {
            let act = reserved(bits);
            let name = format!("{space:?} {bits:#x}");
            reserved_bits = reserved_bits.case(name, stage, move |peer| act(peer, space));
        }
    }
    vec![
        reserved_bits,
        rule("a packet without frames", "RFC 9000, 12.4", Transport(PROTOCOL_VIOLATION))
            .case("Initial", Progress::ServerHello, nothing(Space::Initial))
            .case("Handshake", Progress::ServerHello, nothing(Space::Handshake))
            .case("1-RTT", Progress::Established, nothing(Space::Data)),
        rule("a packet too short for a sample", "RFC 9001, 5.4.2", Served).cases(
            Progress::Established,
            [17, 18, 20, 36].map(|bytes| (bytes.to_string(), bytes)),
            |peer, bytes| {
                let sealed = peer.packet(Space::Data, &FATAL);
                let datagram = peer.seal(Space::Data, &sealed);
                peer.send_datagram(&datagram[..*bytes]);
            },
        ),
    ]
}

fn connections() -> Vec<Rule> {
    vec![
        rule("the fixed bit of a connection's packet is 0", "RFC 9000, 17.3.1", Served)
            .case("1-RTT", Progress::Established, |peer| {
                peer.send_modified(Space::Data, &FATAL, |packet| packet.first &= !FIXED_BIT);
            })
            .case("Handshake", Progress::ServerHello, |peer| {
                peer.send_modified(Space::Handshake, &FATAL, |packet| packet.first &= !FIXED_BIT);
            }),
        rule("an Initial packet of a connection in a small datagram", "RFC 9000, 14.1", Served)
            .case("alone", Progress::ServerHello, |peer| {
                let packet = peer.packet(Space::Initial, &FATAL);
                let datagram = peer.seal(Space::Initial, &packet);
                peer.send_datagram(&datagram);
            })
            .case("after another", Progress::ServerHello, |peer| {
                let first = peer.packet(Space::Handshake, &PING);
                let second = peer.packet(Space::Initial, &FATAL);
                peer.send_packets(&[(Space::Handshake, first), (Space::Initial, second)]);
            }),
        rule("a repeated packet number", "RFC 9000, 12.3", Served)
            .cases(
                Progress::Established,
                [("the last", 0), ("an earlier one", 3)],
                |peer, before| {
                    (0..4).for_each(|_| peer.send(Space::Data, &PING));
                    let number = peer.last_number(Space::Data).unwrap() - before;
                    peer.send_modified(Space::Data, &FATAL, |packet| packet.number = number);
                },
            )
            .case("the same bytes", Progress::Established, |peer| {
                let packet = peer.packet(Space::Data, &PING);
                let datagram = peer.seal(Space::Data, &packet);
                (0..100).for_each(|_| peer.send_datagram(&datagram));
            }),
        rule("packets of other connections in one datagram", "RFC 9000, 12.2", Served).case(
            "Handshake",
            Progress::ServerHello,
            |peer| {
                let first = peer.packet(Space::Handshake, &PING);
                let mut second = peer.packet(Space::Handshake, &FATAL);
                second.destination = vec![9; 16];
                peer.send_packets(&[(Space::Handshake, first), (Space::Handshake, second)]);
            },
        ),
        rule("a datagram with trailing bytes", "RFC 9000, 12.2", Served).cases(
            Progress::ServerHello,
            [("zeros", vec![0; 40]), ("ones", vec![0xff; 40]), ("a byte", vec![0xc0])],
            |peer, rest| {
                let packet = peer.packet(Space::Handshake, &PING);
                let sealed = peer.seal(Space::Handshake, &packet);
                peer.send_datagram(&[&sealed, &rest[..]].concat());
            },
        ),
        rule("another source connection ID", "RFC 9000, 7.2", Served).case(
            "Initial",
            Progress::ServerHello,
            |peer| {
                peer.send_modified(Space::Initial, &FATAL, |packet| packet.source = vec![3; 8]);
            },
        ),
        rule("Version Negotiation or Retry during a connection", "RFC 9000, 17.2.5", Served)
            .case("Version Negotiation", Progress::ServerHello, |peer| {
                let ids = [peer.destination.clone(), peer.source.clone()];
                let packet = long(0xc0, 0, [&ids[0], &ids[1]], &[0, 0, 0, 2], 0);
                peer.send_datagram(&packet);
            })
            .case("Retry", Progress::ServerHello, |peer| {
                let ids = [peer.destination.clone(), peer.source.clone()];
                let packet = long(0xf0, 1, [&ids[0], &ids[1]], &[7; 60], 0);
                peer.send_datagram(&packet);
            }),
        rule("another version during a connection", "RFC 9000, 5.2", Served).case(
            "Handshake",
            Progress::ServerHello,
            |peer| {
                peer.send_modified(Space::Handshake, &FATAL, |packet| packet.version = 0x1a2a_3a4a);
            },
        ),
        rule("a packet with a stateless reset token of the server", "RFC 9000, 10.3", Served).case(
            "the server's own token",
            Progress::Established,
            |peer| {
                peer.wait("connection IDs", |peer| !peer.received.ids.is_empty());
                let token = peer.received.ids.values().next().unwrap().1.clone();
                let packet = [&[0x41], &peer.destination[..], &[5; 30], &token].concat();
                peer.send_datagram(&packet);
            },
        ),
    ]
}

fn keys() -> Vec<Rule> {
    let early = |space| {
        move |peer: &mut HostilePeer| {
            let datagram = peer.packet(space, &FATAL);
            let datagram = peer.seal(space, &datagram);
            peer.send_datagram(&datagram);
        }
    };
    vec![
        rule("1-RTT packets before the handshake is complete", "RFC 9001, 5.7", Served).case(
            "with the right keys",
            Progress::ServerHello,
            early(Space::Data),
        ),
        rule("0-RTT packets without keys", "RFC 9001, 4.6", Served).cases(
            Progress::ServerHello,
            [("one", 1), ("many", 100)],
            |peer, count| {
                for _ in 0..*count {
                    peer.send_modified(Space::Handshake, &FATAL, |packet| packet.first = 0xd3);
                }
            },
        ),
        rule("Initial packets after their keys are discarded", "RFC 9001, 4.9.1", Served).case(
            "fatal",
            Progress::Established,
            |peer| peer.send(Space::Initial, &FATAL),
        ),
        rule("Handshake packets after their keys are discarded", "RFC 9001, 4.9.2", Served).case(
            "fatal",
            Progress::Established,
            |peer| peer.send(Space::Handshake, &FATAL),
        ),
        rule("a key phase protected with other keys", "RFC 9001, 6.3", Served)
            .case("the old keys", Progress::Established, |peer| {
                peer.send_modified(Space::Data, &FATAL, |packet| packet.first |= 0x04);
            })
            .case("keys after the next", Progress::Established, |peer| {
                let datagram = peer.seal_updated(3, &FATAL);
                peer.send_datagram(&datagram);
            }),
        rule(
            "a second key update before the first is acknowledged",
            "RFC 9001, 6.1",
            Transport(KEY_UPDATE_ERROR),
        )
        .case("at once", Progress::Established, |peer| {
            peer.sends_acks = false;
            let sealed = |generation| peer.seal_updated(generation, &PING);
            let datagrams: Vec<_> = (1..=KEY_UPDATES).map(sealed).collect();
            peer.send_together(&datagrams);
        }),
    ]
}
