//! Slow clients that send or receive next to nothing (RFC 9000, 21.6), and a server with short
//! timeouts.

use crate::case::get;
use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::peer::parameters_for;
use crate::peer::HostilePeer;
use crate::peer::WINDOW_BYTES;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::numbers;
use crate::wire::CONNECTION_REFUSED;
use crate::wire::H3_REQUEST_CANCELLED;
use crate::wire::H3_REQUEST_INCOMPLETE;

/// Server options with short timeouts.
pub const ARGUMENTS: [&str; 7] = [
    "--speedtest",
    "--stall-timeout",
    "2",
    "--handshake-timeout",
    "3",
    "--send-buffer-max",
    "1000000",
];

const PING: u8 = 0x01;

/// Limit on repetitions.
const TIMES_MAX: usize = 2000;

/// Stream window of a client that does not read its response, in bytes.
const RESPONSE_WINDOW_BYTES: u64 = 5000;
const WHOLE_BYTES: u64 = 60_000_000;

/// Receive calls between two small responses, and their number.
const POLLS_PER_SMALL: usize = 20;
const SMALL_MAX: u64 = 99;

pub fn rules() -> Vec<Rule> {
    vec![handshakes(), heads(), contents(), ends(), responses()]
}

/// Repeats an action until the server has reacted.
fn repeat(
    peer: &mut HostilePeer,
    done: impl Fn(&HostilePeer) -> bool,
    mut act: impl FnMut(&mut HostilePeer),
) {
    for _ in 0..TIMES_MAX {
        if done(peer) {
            return;
        }
        act(peer);
        peer.receive();
    }
}

fn handshakes() -> Rule {
    let name = "a handshake that does not end although packets arrive";
    rule(name, "RFC 9000, 21.6", Transport(CONNECTION_REFUSED)).case(
        "PING after PING",
        Progress::ServerHello,
        |peer| {
            repeat(
                peer,
                |peer| peer.received.close.is_some(),
                |peer| peer.send(Space::Handshake, &[PING]),
            );
        },
    )
}

fn heads() -> Rule {
    let answer = Reset { stream: 0, code: H3_REQUEST_INCOMPLETE };
    rule("a header section that does not end", "RFC 9000, 21.6", answer)
        .case("only a frame's type", Progress::Http, |peer| peer.write(0, &[0x01], false))
        .case("half of it", Progress::Http, |peer| {
            let whole = get("/");
            peer.write(0, &whole[..whole.len() / 2], false);
        })
        .case("byte by byte", Progress::Http, |peer| {
            let long = "x".repeat(TIMES_MAX);
            let whole = headers(&[(":method", "GET"), ("x", &long)]);
            let mut bytes = whole.chunks(1);
            let is_reset = |peer: &HostilePeer| peer.received.resets.contains_key(&0);
            repeat(peer, is_reset, |peer| peer.write(0, bytes.next().unwrap(), false));
        })
        .case("after other requests", Progress::Http, |peer| {
            peer.write(0, &[0x01], false);
            for n in 1..=5 {
                peer.write(4 * n, &get("/"), true);
            }
        })
}

fn contents() -> Rule {
    let head = headers(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/upload"),
        ("content-length", "1000"),
    ]);
    // A DATA frame of 1000 bytes, of which one is sent.
    let data = [numbers(&[0x00, 1000]), vec![7]].concat();
    rule("content that does not end", "RFC 9110, 15.5.9", Status("408")).cases(
        Progress::Http,
        [("none", head.clone()), ("a byte of it", [head, data].concat())],
        |peer, bytes| peer.write(0, bytes, false),
    )
}

fn ends() -> Rule {
    let name = "a request that does not end after its response";
    rule(name, "RFC 9114, 4.1", Served).case("a GET", Progress::Http, |peer| {
        peer.write(0, &get("/"), false);
        peer.wait("STOP_SENDING", |peer| peer.received.stops.contains_key(&0));
        assert_eq!(peer.received.response(0).body, b"home");
    })
}

fn responses() -> Rule {
    let answer = Reset { stream: 0, code: H3_REQUEST_CANCELLED };
    let is_reset = |peer: &HostilePeer| peer.received.resets.contains_key(&0);
    let download = |peer: &mut HostilePeer| {
        peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
        peer.write(0, &get("/bytes/900000"), true);
    };
    let with_small_window = move |peer: &mut HostilePeer| {
        let source = peer.source.clone();
        peer.set_source_id(&source, &parameters_for(&source, RESPONSE_WINDOW_BYTES, &[]));
        peer.complete();
        download(peer);
    };
    rule("a response that is not read", "RFC 9000, 21.6", answer)
        .case("with a small window", Progress::Fresh, with_small_window)
        .case("while sending PING", Progress::Fresh, move |peer| {
            with_small_window(peer);
            repeat(peer, is_reset, |peer| peer.send(Space::Data, &[PING]));
        })
        .case("all but its start", Progress::Fresh, move |peer| {
            let source = peer.source.clone();
            peer.set_source_id(&source, &parameters_for(&source, WHOLE_BYTES, &[]));
            peer.complete();
            peer.withholds_start_ack_of = Some(0);
            peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
            peer.write(0, &get(&format!("/bytes/{WHOLE_BYTES}")), true);
            repeat(peer, is_reset, |_| ());
            // Includes retransmissions.
            let received_bytes = peer.received.bytes;
            assert!((500_000..10_000_000).contains(&received_bytes), "{received_bytes}");
        })
        .case("all but its start, while small ones are read", Progress::Fresh, move |peer| {
            let source = peer.source.clone();
            peer.set_source_id(&source, &parameters_for(&source, WINDOW_BYTES, &[]));
            peer.complete();
            peer.withholds_start_ack_of = Some(0);
            download(peer);
            let mut stream = 0;
            let mut polls = 0;
            repeat(peer, is_reset, |peer| {
                polls += 1;
                if polls % POLLS_PER_SMALL == 0 && stream < 4 * SMALL_MAX {
                    stream += 4;
                    peer.write(stream, &get("/bytes/1500"), true);
                }
            });
            assert!(is_reset(peer), "while others make progress");
        })
        .case("without acknowledgements", Progress::Established, move |peer| {
            peer.sends_acks = false;
            download(peer);
            repeat(peer, is_reset, |_| ());
            peer.sends_acks = true;
        })
}
