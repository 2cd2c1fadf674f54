//! Requests that make the server keep much for all connections together (RFC 9000, 21.6).

use crate::case::get;
use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::peer::HostilePeer;
use crate::wire::numbers;
use crate::wire::stream;
use crate::wire::H3_EXCESSIVE_LOAD;

/// Options with the smallest budgets.
pub const ARGUMENTS: [&str; 2] = ["--requests-memory-max", "1048576"];

/// Length of a header section, below twice `--header-bytes-max`.
const SECTION_BYTES: usize = 60_000;

const HEADERS: u64 = 0x01;
const STREAMS: u64 = 60;
const PIECE_BYTES: usize = 1000;

pub fn rules() -> Vec<Rule> {
    let name = "more request data than the budget for all";
    vec![rule(name, "RFC 9114, 10.5", Application(H3_EXCESSIVE_LOAD)).case(
        "headers that do not end",
        Progress::Http,
        |peer| write_unfinished(peer, SECTION_BYTES - PIECE_BYTES),
    )]
}

/// Rules of input that stays within the budget.
pub fn within() -> Vec<Rule> {
    vec![rule("less request data than the budget for all", "RFC 9114, 10.5", Served).case(
        "headers that do not end",
        Progress::Http,
        |peer| {
            write_unfinished(peer, 10 * PIECE_BYTES);
            peer.write(4 * STREAMS, &get("/"), true);
        },
    )]
}

/// Sends the beginning of a header section on each of many streams.
fn write_unfinished(peer: &mut HostilePeer, bytes: usize) {
    let section = vec![0; bytes];
    for id in (0..4 * STREAMS).step_by(4) {
        if peer.received.close.is_some() {
            return;
        }
        let head = numbers(&[HEADERS, SECTION_BYTES as u64]);
        peer.send(Space::Data, &stream(id, 0, &head, false));
        let pieces = section
            .chunks(PIECE_BYTES)
            .enumerate()
            .map(|(n, piece)| stream(id, (head.len() + n * PIECE_BYTES) as u64, piece, false));
        peer.send_many(pieces.collect::<Vec<_>>());
    }
}
