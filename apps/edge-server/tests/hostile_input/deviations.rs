//! Known deviations of the server from RFCs, with the reason why each is tolerable. A rule that
//! gets fixed moves to the module of its protocol layer.

use crate::case::get;
use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::qpack::integer;
use crate::qpack::DECODER;
use crate::qpack::ENCODER;
use crate::qpack::INSTRUCTIONS;
use crate::tls_messages::changed;
use crate::tls_messages::without;
use crate::tls_messages::HANDSHAKE_FAILURE;
use crate::tls_messages::ILLEGAL_PARAMETER;
use crate::tls_messages::SIGNATURE_ALGORITHMS;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::varint;
use crate::wire::with_bytes;

const CONTROL: u64 = 2;
const DATA: u64 = 0x00;
const CANCEL_PUSH: u64 = 0x03;
const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

pub fn rules() -> Vec<Rule> {
    [pushes(), trailers(), instructions(), tls()].into_iter().flatten().collect()
}

/// The RFCs require H3_ID_ERROR. Upstream's tests require that the frames are ignored; without
/// pushes they have no effect.
fn pushes() -> Vec<Rule> {
    let update = |id| h3_frame(PRIORITY_UPDATE_PUSH, &with_bytes(&[id], b"u=1"));
    vec![
        rule("CANCEL_PUSH of a push that was never promised", "RFC 9114, 7.2.3", Served)
            .stream_starts(
                Progress::Http,
                CONTROL,
                [0, 7, 1 << 40].map(|id| (id.to_string(), h3_frame(CANCEL_PUSH, &varint(id)))),
            ),
        rule("PRIORITY_UPDATE of a push that was never promised", "RFC 9218, 7.2", Served)
            .stream_starts(
                Progress::Http,
                CONTROL,
                [0, 3, 6].map(|id| (id.to_string(), update(id))),
            ),
    ]
}

/// The RFC requires H3_FRAME_UNEXPECTED. Upstream's tests allow further header sections before
/// content; the server only checks that trailers are well-formed.
fn trailers() -> Vec<Rule> {
    let parts = [get("/"), headers(&[("x-sum", "1")]), h3_frame(DATA, b"data")];
    vec![rule("DATA after trailers without content before", "RFC 9114, 4.1", Status("200"))
        .streams(0, [("a GET", parts.concat())])]
}

/// The RFC requires QPACK_ENCODER_STREAM_ERROR or QPACK_DECODER_STREAM_ERROR. Upstream's tests
/// require that instructions are ignored; without a dynamic table they have no effect.
fn instructions() -> Vec<Rule> {
    let encoder = |bytes: &[u8]| [&[ENCODER], bytes].concat();
    let decoder = |bytes: &[u8]| [&[DECODER], bytes].concat();
    let ignored = |name, section| rule(name, section, Served);
    vec![
        ignored("a capacity above the limit", "RFC 9204, 4.3.1").stream_starts(
            Progress::Http,
            INSTRUCTIONS,
            [
                ("1", encoder(&integer(0x20, 5, 1))),
                ("4096", encoder(&integer(0x20, 5, 4096))),
                ("the largest", encoder(&integer(0x20, 5, u64::MAX))),
            ],
        ),
        ignored("an insertion into a table without capacity", "RFC 9204, 3.2.2").stream_starts(
            Progress::Http,
            INSTRUCTIONS,
            [
                ("by a static name", encoder(&[0xc0, 1, b'v'])),
                ("by a dynamic name", encoder(&[0x80, 1, b'v'])),
                ("by a name", encoder(&[0x41, b'n', 1, b'v'])),
                ("again", encoder(&[0x00])),
            ],
        ),
        ignored("an acknowledgement of a section without references", "RFC 9204, 4.4.1")
            .case("of a request", Progress::Http, move |peer| {
                peer.write(0, &get("/"), true);
                peer.write(INSTRUCTIONS, &decoder(&[0x80]), false);
            })
            .stream_starts(
                Progress::Http,
                INSTRUCTIONS,
                [("of no stream", decoder(&integer(0x80, 7, 99)))],
            ),
        ignored("an increment beyond the insertions", "RFC 9204, 4.4.3").stream_starts(
            Progress::Http,
            INSTRUCTIONS,
            [
                ("0", decoder(&[0x00])),
                ("1", decoder(&[0x01])),
                ("the largest", decoder(&integer(0, 6, u64::MAX))),
            ],
        ),
    ]
}

/// The RFCs require missing_extension and PROTOCOL_VIOLATION. BoringSSL sends other alerts; the
/// handshake fails either way.
fn tls() -> Vec<Rule> {
    vec![
        rule("no signature_algorithms", "RFC 8446, 9.2", HANDSHAKE_FAILURE).case(
            "none",
            Progress::Fresh,
            without(SIGNATURE_ALGORITHMS),
        ),
        rule("a legacy session ID", "RFC 9001, 8.4", ILLEGAL_PARAMETER).case(
            "32 bytes",
            Progress::Fresh,
            changed(|hello| hello.session = vec![7; 32]),
        ),
    ]
}
