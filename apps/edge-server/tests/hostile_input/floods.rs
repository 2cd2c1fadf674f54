//! Floods of frames and packets that are harmless alone (RFC 9000, 21; RFC 9114, 10.5).

use crate::case::get;
use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::peer::HostilePeer;
use crate::wire::crypto;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::new_connection_id;
use crate::wire::numbers;
use crate::wire::stream;
use crate::wire::with_bytes;
use crate::wire::H3_EXCESSIVE_LOAD;
use crate::wire::H3_REQUEST_CANCELLED;

const PACKETS: usize = 1000;
const FRAMES: usize = 200;
const RESET_STREAM: u64 = 0x04;
const STOP_SENDING: u64 = 0x05;

/// Number of unidirectional streams allowed beside the control stream, and the first of them.
const UNI_STREAMS: u64 = 15;
const NEXT_UNI: u64 = 6;
const PATH_CHALLENGE: u64 = 0x1a;

/// Limit on malformed or cancelled requests, beyond which the connection is closed.
const ABUSIVE_REQUESTS_MAX: u64 = 100;

pub fn rules() -> Vec<Rule> {
    [packets(), streams(), connection_ids(), requests()].into_iter().flatten().collect()
}

fn repeated(payload: Vec<u8>) -> impl Fn(&mut HostilePeer) {
    move |peer: &mut HostilePeer| peer.send_many(std::iter::repeat_n(payload.clone(), PACKETS))
}

fn packets() -> Vec<Rule> {
    let challenge = || with_bytes(&[PATH_CHALLENGE], b"8 bytes!");
    vec![
        rule("a flood of packets", "RFC 9000, 21.9", Served)
            .case("PING", Progress::Established, repeated(vec![0x01; 20]))
            .case("PADDING", Progress::Established, repeated(vec![0; 1000]))
            .case(
                "DATA_BLOCKED",
                Progress::Established,
                repeated(numbers(&[0x14, 7]).repeat(FRAMES)),
            )
            .case(
                "MAX_DATA",
                Progress::Established,
                repeated(numbers(&[0x10, 1 << 30]).repeat(FRAMES)),
            ),
        rule("a flood of PATH_CHALLENGE", "RFC 9000, 8.2.2", Served)
            .case("one a packet", Progress::Established, repeated(challenge()))
            .case("many a packet", Progress::Established, repeated(challenge().repeat(100))),
        rule("acknowledgements of many ranges", "RFC 9000, 13.2.3", Served).case(
            "every other number",
            Progress::Established,
            |peer| {
                for n in 1..=PACKETS as u64 {
                    peer.skip_number(Space::Data);
                    peer.send(Space::Data, &[0x01]);
                    if n % 50 == 0 {
                        peer.round_trip();
                    }
                }
            },
        ),
    ]
}

fn streams() -> Vec<Rule> {
    vec![
        rule("a flood of empty STREAM frames", "RFC 9000, 21.6", Served)
            .case(
                "on one stream",
                Progress::Http,
                repeated(stream(0, 0, b"", false).repeat(FRAMES)),
            )
            .case(
                "on a control stream",
                Progress::Http,
                repeated(stream(2, 3, b"", false).repeat(FRAMES)),
            ),
        rule("a stream in chunks with gaps", "RFC 9000, 21.6", Served).case(
            "on many streams",
            Progress::Http,
            |peer| {
                let chunk = |n: u64| stream(4 * (n % 16), 2 * (n / 16) + 1, b"x", false);
                let packets =
                    (0..3000).map(|p| (0..100).flat_map(|n| chunk(100 * p + n)).collect());
                peer.send_many(packets.collect::<Vec<_>>());
            },
        ),
        rule("a handshake in chunks with gaps", "RFC 9000, 21.6", Served).case(
            "from an address that is not validated",
            Progress::Fresh,
            |peer| {
                // Beyond the offsets of the ClientHello.
                let chunk = |n: u64| crypto(2 * n + 3000, b"x");
                for packet in 0..300 {
                    let frames: Vec<u8> = (0..100).flat_map(|n| chunk(100 * packet + n)).collect();
                    peer.send(Space::Initial, &frames);
                    if packet % 10 == 0 {
                        peer.receive();
                    }
                }
            },
        ),
        rule("streams that are opened and abandoned", "RFC 9000, 21.7", Served)
            .case("all that are allowed", Progress::Http, |peer| {
                let packets = (0..100).map(|n| stream(4 * n, 0, &[0x01], false));
                peer.send_many(packets.collect::<Vec<_>>());
            })
            .case("in one go", Progress::Http, |peer| {
                let last = stream(4 * 127, 0, &[0x01], false);
                peer.send(Space::Data, &last);
            }),
        rule("streams of unknown types that end late", "RFC 9114, 6.2.3", Served).case(
            "one after the other",
            Progress::Http,
            |peer| {
                for n in 0..UNI_STREAMS {
                    let id = 4 * n + NEXT_UNI;
                    peer.send(Space::Data, &stream(id, 0, &[0x21], false));
                    peer.wait("STOP_SENDING", |peer| peer.received.stops.contains_key(&id));
                    peer.send(Space::Data, &stream(id, 1, &[], true));
                }
            },
        ),
        rule("STOP_SENDING of the server's QPACK streams", "RFC 9204, 4.2", Served).case(
            "both",
            Progress::Http,
            |peer| {
                let frames: Vec<u8> = [7, 11]
                    .iter()
                    .flat_map(|id| numbers(&[STOP_SENDING, *id, H3_REQUEST_CANCELLED]))
                    .collect();
                peer.round_trip();
                peer.send(Space::Data, &frames);
            },
        ),
    ]
}

fn connection_ids() -> Vec<Rule> {
    vec![
        rule("connection IDs retired as fast as they are issued", "RFC 9000, 5.1.1", Served).case(
            "200 times",
            Progress::Established,
            |peer| {
                for _ in 0..200 {
                    let known = peer.received.ids.keys().next_back().copied().unwrap_or_default();
                    let given: Vec<u64> = (1..=known).rev().take(3).collect();
                    let frames: Vec<u8> = given.iter().flat_map(|n| numbers(&[0x19, *n])).collect();
                    peer.send(Space::Data, &[&frames[..], &[0x01]].concat());
                    peer.round_trip();
                }
            },
        ),
        rule("connection IDs replaced over and over", "RFC 9000, 5.1.2", Served).case(
            "200 times",
            Progress::Established,
            |peer| {
                for n in 1..=200 {
                    let id = [&[7; 6][..], &(n as u16).to_be_bytes()].concat();
                    peer.source = id.clone();
                    let frame = new_connection_id(n, n, &id, 7);
                    peer.send(Space::Data, &frame);
                    peer.round_trip();
                }
            },
        ),
    ]
}

fn requests() -> Vec<Rule> {
    let load = |name| rule(name, "RFC 9114, 10.5", Application(H3_EXCESSIVE_LOAD));
    let each = |act: fn(&mut HostilePeer, u64)| {
        move |peer: &mut HostilePeer| {
            for n in 0..=ABUSIVE_REQUESTS_MAX {
                act(peer, 4 * n);
                if n % 20 == 0 {
                    peer.round_trip();
                }
            }
        }
    };
    vec![
        load("a storm of resets")
            .case(
                "of half a header section",
                Progress::Http,
                each(|peer, id| {
                    peer.send(Space::Data, &stream(id, 0, &[0x01, 0x40, 99, 0], false));
                    peer.send(Space::Data, &numbers(&[RESET_STREAM, id, H3_REQUEST_CANCELLED, 4]));
                }),
            )
            .case(
                "of half a frame",
                Progress::Http,
                each(|peer, id| {
                    peer.send(Space::Data, &stream(id, 0, &[0x01], false));
                    peer.send(Space::Data, &numbers(&[RESET_STREAM, id, H3_REQUEST_CANCELLED, 1]));
                }),
            ),
        load("a storm of malformed requests")
            .case(
                "without fields",
                Progress::Http,
                each(|peer, id| {
                    peer.write(id, &headers(&[(":method", "GET")]), true);
                }),
            )
            .case(
                "with a wrong length",
                Progress::Http,
                each(|peer, id| {
                    let fields = [
                        (":method", "GET"),
                        (":scheme", "https"),
                        (":authority", "a"),
                        (":path", "/"),
                        ("content-length", "7"),
                    ];
                    peer.write(id, &headers(&fields), true);
                }),
            ),
        rule("malformed requests below the limit", "RFC 9114, 4.1.2", Served).case(
            "100 of them",
            Progress::Http,
            |peer| {
                for n in 0..ABUSIVE_REQUESTS_MAX {
                    peer.write(4 * n, &headers(&[(":method", "GET")]), true);
                }
            },
        ),
        rule("requests cancelled at once", "RFC 9114, 10.5", Served).case(
            "90 of them",
            Progress::Http,
            |peer| {
                for n in 0..90 {
                    let request = get("/");
                    let frames = [
                        stream(4 * n, 0, &request, true),
                        numbers(&[STOP_SENDING, 4 * n, H3_REQUEST_CANCELLED]),
                    ];
                    peer.send(Space::Data, &frames.concat());
                }
            },
        ),
        rule("content in empty frames", "RFC 9114, 10.5", Served)
            .case("100000", Progress::Http, |peer| {
                peer.write(0, &get("/"), false);
                peer.write(0, &h3_frame(0x00, &[]).repeat(30_000), false);
            })
            .case("unknown frames", Progress::Http, |peer| {
                peer.write(0, &get("/"), false);
                peer.write(0, &h3_frame(0x21, &[]).repeat(30_000), false);
            }),
    ]
}
