//! Tokens (RFC 9000, 8.1), sent to a server that validates every client's address.

use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::peer::HostilePeer;
use crate::wire::INVALID_TOKEN;

pub fn rules() -> Vec<Rule> {
    vec![
        rule("no token, or a foreign one", "RFC 9000, 8.1.3", Retry).cases(
            Progress::Fresh,
            [
                ("none", vec![]),
                ("a byte", vec![0]),
                ("zeros", vec![0; 100]),
                ("long", vec![0xee; 500]),
            ],
            |peer, token| {
                peer.token = token.clone();
                peer.send_client_hello();
            },
        ),
        rule("an invalid Retry token", "RFC 9000, 8.1.2", Transport(INVALID_TOKEN))
            .case("changed", Progress::Fresh, |peer| {
                follow_retry(peer);
                *peer.token.last_mut().unwrap() ^= 1;
                peer.send_client_hello();
            })
            .case("cut off", Progress::Fresh, |peer| {
                follow_retry(peer);
                peer.token.pop();
                peer.send_client_hello();
            })
            .case("its first byte", Progress::Fresh, |peer| {
                follow_retry(peer);
                peer.token.truncate(1);
                peer.send_client_hello();
            })
            .case("from another address", Progress::Fresh, |peer| {
                follow_retry(peer);
                peer.migrate();
                peer.send_client_hello();
            })
            .case("to another connection ID", Progress::Fresh, |peer| {
                follow_retry(peer);
                peer.set_destination_id(b"somewhere else");
                peer.send_client_hello();
            }),
        rule("a second connection with the same Retry token", "RFC 9000, 8.1.4", Served).case(
            "while the first is open",
            Progress::Fresh,
            |peer| {
                follow_retry(peer);
                peer.complete();
                peer.send_client_hello();
            },
        ),
    ]
}

/// Gets a Retry token for the next Initial packets (RFC 9000, 17.2.5.2).
fn follow_retry(peer: &mut HostilePeer) {
    peer.send(Space::Initial, &[1]);
    peer.wait("a Retry packet", |peer| peer.received.retry.is_some());
    let (id, token) = peer.received.retry.clone().unwrap();
    peer.set_destination_id(&id);
    peer.token = token;
}
