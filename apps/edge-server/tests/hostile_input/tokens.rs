//! Tokens (RFC 9000, 8.1), with a server that has every client prove its address.

use crate::case::kind;
use crate::case::Answer::*;
use crate::case::Kind;
use crate::case::Stage;
use crate::packet::Space;
use crate::peer::Peer;
use crate::wire::INVALID_TOKEN;

pub fn kinds() -> Vec<Kind> {
    vec![
        kind("no token, or none of the server's", "RFC 9000, 8.1.3", Retry).inputs(
            Stage::Fresh,
            [
                ("none", vec![]),
                ("a byte", vec![0]),
                ("zeros", vec![0; 100]),
                ("long", vec![0xee; 500]),
            ],
            |peer, token| {
                peer.token = token.clone();
                peer.greet();
            },
        ),
        kind("a token of a Retry that is not good", "RFC 9000, 8.1.2", Transport(INVALID_TOKEN))
            .input("changed", Stage::Fresh, |peer| {
                follow_retry(peer);
                *peer.token.last_mut().unwrap() ^= 1;
                peer.greet();
            })
            .input("cut off", Stage::Fresh, |peer| {
                follow_retry(peer);
                peer.token.pop();
                peer.greet();
            })
            .input("its first byte", Stage::Fresh, |peer| {
                follow_retry(peer);
                peer.token.truncate(1);
                peer.greet();
            })
            .input("from another address", Stage::Fresh, |peer| {
                follow_retry(peer);
                peer.move_away();
                peer.greet();
            })
            .input("to another connection ID", Stage::Fresh, |peer| {
                follow_retry(peer);
                peer.address(b"somewhere else");
                peer.greet();
            }),
        kind("a second connection by one token of a Retry", "RFC 9000, 8.1.4", Served).input(
            "while the first is open",
            Stage::Fresh,
            |peer| {
                follow_retry(peer);
                peer.complete();
                peer.greet();
            },
        ),
    ]
}

/// Gets a token, which the next Initial packets carry (RFC 9000, 17.2.5.2).
fn follow_retry(peer: &mut Peer) {
    peer.send(Space::Initial, &[1]);
    peer.wait("a Retry packet", |peer| peer.heard.retry.is_some());
    let (id, token) = peer.heard.retry.clone().unwrap();
    peer.address(&id);
    peer.token = token;
}
