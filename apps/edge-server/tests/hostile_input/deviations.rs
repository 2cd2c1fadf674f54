//! Deviations of the server from its RFCs: what it does today,
//! what the RFC says, and why that is tolerable. A rule that is mended goes to the
//! table of its level.

use crate::case::get;
use crate::case::kind;
use crate::case::Answer::*;
use crate::case::Kind;
use crate::case::Stage;
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

pub fn kinds() -> Vec<Kind> {
    [pushes(), trailers(), instructions(), tls()].into_iter().flatten().collect()
}

/// H3_ID_ERROR. Upstream's tests want them ignored; nothing is ever pushed, so that
/// there is nothing that they could change.
fn pushes() -> Vec<Kind> {
    let update = |id| h3_frame(PRIORITY_UPDATE_PUSH, &with_bytes(&[id], b"u=1"));
    vec![
        kind("CANCEL_PUSH of what was never promised", "RFC 9114, 7.2.3", Served).pieces(
            Stage::Http,
            CONTROL,
            [0, 7, 1 << 40].map(|id| (id.to_string(), h3_frame(CANCEL_PUSH, &varint(id)))),
        ),
        kind("PRIORITY_UPDATE of a push that was never promised", "RFC 9218, 7.2", Served).pieces(
            Stage::Http,
            CONTROL,
            [0, 3, 6].map(|id| (id.to_string(), update(id))),
        ),
    ]
}

/// H3_FRAME_UNEXPECTED. Upstream's tests want further header sections to be taken
/// before content; the server reads of trailers no more than that they are well-formed.
fn trailers() -> Vec<Kind> {
    let parts = [get("/"), headers(&[("x-sum", "1")]), h3_frame(DATA, b"data")];
    vec![kind("DATA after trailers without content before", "RFC 9114, 4.1", Status("200"))
        .streams(0, [("a GET", parts.concat())])]
}

/// QPACK_ENCODER_STREAM_ERROR and QPACK_DECODER_STREAM_ERROR. Upstream's tests want
/// instructions to be ignored; there is no table that they could change, and no field
/// section refers to one.
fn instructions() -> Vec<Kind> {
    let encoder = |bytes: &[u8]| [&[ENCODER], bytes].concat();
    let decoder = |bytes: &[u8]| [&[DECODER], bytes].concat();
    let ignored = |rule, section| kind(rule, section, Served);
    vec![
        ignored("a capacity beyond what is allowed", "RFC 9204, 4.3.1").pieces(
            Stage::Http,
            INSTRUCTIONS,
            [
                ("1", encoder(&integer(0x20, 5, 1))),
                ("4096", encoder(&integer(0x20, 5, 4096))),
                ("the largest", encoder(&integer(0x20, 5, u64::MAX))),
            ],
        ),
        ignored("an entry for a table without room", "RFC 9204, 3.2.2").pieces(
            Stage::Http,
            INSTRUCTIONS,
            [
                ("by a static name", encoder(&[0xc0, 1, b'v'])),
                ("by a dynamic name", encoder(&[0x80, 1, b'v'])),
                ("by a name", encoder(&[0x41, b'n', 1, b'v'])),
                ("again", encoder(&[0x00])),
            ],
        ),
        ignored("an acknowledgement of what needed none", "RFC 9204, 4.4.1")
            .input("of a request", Stage::Http, move |peer| {
                peer.write(0, &get("/"), true);
                peer.write(INSTRUCTIONS, &decoder(&[0x80]), false);
            })
            .pieces(Stage::Http, INSTRUCTIONS, [("of no stream", decoder(&integer(0x80, 7, 99)))]),
        ignored("an increment of what was not inserted", "RFC 9204, 4.4.3").pieces(
            Stage::Http,
            INSTRUCTIONS,
            [
                ("0", decoder(&[0x00])),
                ("1", decoder(&[0x01])),
                ("the largest", decoder(&integer(0, 6, u64::MAX))),
            ],
        ),
    ]
}

/// BoringSSL's choice: other alerts than missing_extension and PROTOCOL_VIOLATION. The
/// handshake fails either way.
fn tls() -> Vec<Kind> {
    vec![
        kind("no signature_algorithms", "RFC 8446, 9.2", HANDSHAKE_FAILURE).input(
            "none",
            Stage::Fresh,
            without(SIGNATURE_ALGORITHMS),
        ),
        kind("a legacy session ID", "RFC 9001, 8.4", ILLEGAL_PARAMETER).input(
            "32 bytes",
            Stage::Fresh,
            changed(|hello| hello.session = vec![7; 32]),
        ),
    ]
}
