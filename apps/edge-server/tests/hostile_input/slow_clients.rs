//! Clients that hold on to what they have begun, and send or take next to nothing
//! (RFC 9000, 21.6), with a server that has little patience.

use crate::case::get;
use crate::case::kind;
use crate::case::Answer::*;
use crate::case::Kind;
use crate::case::Stage;
use crate::packet::Space;
use crate::peer::parameters_for;
use crate::peer::Peer;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::numbers;
use crate::wire::CONNECTION_REFUSED;
use crate::wire::H3_REQUEST_CANCELLED;
use crate::wire::H3_REQUEST_INCOMPLETE;

/// How little that is.
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

/// A client would send as much again and again, but not for ever.
const TIMES_MAX: usize = 2000;

/// What a response may be long before its client takes any of it, in bytes.
const RESPONSE_WINDOW_BYTES: u64 = 5000;
const WHOLE_BYTES: u64 = 60_000_000;

pub fn kinds() -> Vec<Kind> {
    vec![handshakes(), heads(), contents(), ends(), responses()]
}

/// Does the same until the server has done something.
fn repeat(peer: &mut Peer, done: impl Fn(&Peer) -> bool, mut act: impl FnMut(&mut Peer)) {
    for _ in 0..TIMES_MAX {
        if done(peer) {
            return;
        }
        act(peer);
        peer.receive();
    }
}

fn handshakes() -> Kind {
    let rule = "a handshake that does not end while packets come";
    kind(rule, "RFC 9000, 21.6", Transport(CONNECTION_REFUSED)).input(
        "PING after PING",
        Stage::Met,
        |peer| {
            repeat(
                peer,
                |peer| peer.heard.close.is_some(),
                |peer| peer.send(Space::Handshake, &[PING]),
            );
        },
    )
}

fn heads() -> Kind {
    let answer = Reset { stream: 0, code: H3_REQUEST_INCOMPLETE };
    kind("a header section that does not end", "RFC 9000, 21.6", answer)
        .input("only a frame's type", Stage::Http, |peer| peer.write(0, &[0x01], false))
        .input("half of it", Stage::Http, |peer| {
            let whole = get("/");
            peer.write(0, &whole[..whole.len() / 2], false);
        })
        .input("byte by byte", Stage::Http, |peer| {
            let long = "x".repeat(TIMES_MAX);
            let whole = headers(&[(":method", "GET"), ("x", &long)]);
            let mut bytes = whole.chunks(1);
            let is_reset = |peer: &Peer| peer.heard.resets.contains_key(&0);
            repeat(peer, is_reset, |peer| peer.write(0, bytes.next().unwrap(), false));
        })
        .input("behind other requests", Stage::Http, |peer| {
            peer.write(0, &[0x01], false);
            for n in 1..=5 {
                peer.write(4 * n, &get("/"), true);
            }
        })
}

fn contents() -> Kind {
    let head = headers(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/upload"),
        ("content-length", "1000"),
    ]);
    // DATA of 1000 bytes, of which one comes.
    let data = [numbers(&[0x00, 1000]), vec![7]].concat();
    kind("content that does not end", "RFC 9110, 15.5.9", Status("408")).inputs(
        Stage::Http,
        [("none", head.clone()), ("a byte of it", [head, data].concat())],
        |peer, bytes| peer.write(0, bytes, false),
    )
}

fn ends() -> Kind {
    let rule = "a request that does not end after its answer";
    kind(rule, "RFC 9114, 4.1", Served).input("a GET", Stage::Http, |peer| {
        peer.write(0, &get("/"), false);
        peer.wait("STOP_SENDING", |peer| peer.heard.stops.contains_key(&0));
        assert_eq!(peer.heard.response(0).body, b"home");
    })
}

fn responses() -> Kind {
    let answer = Reset { stream: 0, code: H3_REQUEST_CANCELLED };
    let is_reset = |peer: &Peer| peer.heard.resets.contains_key(&0);
    let download = |peer: &mut Peer| {
        peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
        peer.write(0, &get("/bytes/900000"), true);
    };
    let with_small_window = move |peer: &mut Peer| {
        let source = peer.source.clone();
        peer.introduce(&source, &parameters_for(&source, RESPONSE_WINDOW_BYTES, &[]));
        peer.complete();
        download(peer);
    };
    kind("a response that is not taken", "RFC 9000, 21.6", answer)
        .input("for want of a window", Stage::Fresh, with_small_window)
        .input("while PINGs come", Stage::Fresh, move |peer| {
            with_small_window(peer);
            repeat(peer, is_reset, |peer| peer.send(Space::Data, &[PING]));
        })
        .input("but for its start, as much as it is sent", Stage::Fresh, move |peer| {
            let source = peer.source.clone();
            peer.introduce(&source, &parameters_for(&source, WHOLE_BYTES, &[]));
            peer.complete();
            peer.lacks_start_of = Some(0);
            peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
            peer.write(0, &get(&format!("/bytes/{WHOLE_BYTES}")), true);
            repeat(peer, is_reset, |_| ());
            // What is repeated comes on top.
            let came = peer.heard.bytes;
            assert!((500_000..10_000_000).contains(&came), "{came}");
        })
        .input("nor acknowledged", Stage::Open, move |peer| {
            peer.acknowledges = false;
            download(peer);
            repeat(peer, is_reset, |_| ());
            peer.acknowledges = true;
        })
}
