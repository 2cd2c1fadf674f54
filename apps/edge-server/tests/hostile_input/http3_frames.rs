//! HTTP/3 streams and frames (RFC 9114, 6 and 7; RFC 9218, 7).

use crate::case::get;
use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::numbers;
use crate::wire::varint;
use crate::wire::varint_in;
use crate::wire::with_bytes;
use crate::wire::H3_CLOSED_CRITICAL_STREAM;
use crate::wire::H3_EXCESSIVE_LOAD;
use crate::wire::H3_FRAME_ERROR;
use crate::wire::H3_FRAME_UNEXPECTED;
use crate::wire::H3_ID_ERROR;
use crate::wire::H3_MISSING_SETTINGS;
use crate::wire::H3_REQUEST_INCOMPLETE;
use crate::wire::H3_SETTINGS_ERROR;
use crate::wire::H3_STREAM_CREATION_ERROR;
use crate::wire::VARINT_MAX;

const DATA: u64 = 0x00;
const HEADERS: u64 = 0x01;
const CANCEL_PUSH: u64 = 0x03;
const SETTINGS: u64 = 0x04;
const PUSH_PROMISE: u64 = 0x05;
const GOAWAY: u64 = 0x07;
const MAX_PUSH_ID: u64 = 0x0d;
const PRIORITY_UPDATE: u64 = 0xf0700;
const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

/// The client's unidirectional streams; the first is its control stream.
const CONTROL: u64 = 2;
const NEXT_UNI: u64 = 6;

/// Stream types (RFC 9114, 6.2; RFC 9204, 4.2).
const CONTROL_TYPE: u64 = 0x00;
const PUSH_TYPE: u64 = 0x01;
const ENCODER_TYPE: u64 = 0x02;
const DECODER_TYPE: u64 = 0x03;

/// Frame types of HTTP/2 (RFC 9114, 7.2.8).
const HTTP2_FRAMES: [u64; 4] = [0x02, 0x06, 0x08, 0x09];

const RESET_STREAM: u64 = 0x04;

/// The server's limit.
const REQUESTS_MAX: u64 = 128;

type NamedBytes = Vec<(String, Vec<u8>)>;

pub fn rules() -> Vec<Rule> {
    [control(), settings(), streams(), placement(), sequences(), layout(), ids(), priorities()]
        .into_iter()
        .flatten()
        .collect()
}

fn number_frame(kind: u64, value: u64) -> Vec<u8> {
    h3_frame(kind, &varint(value))
}

fn frames_of_types(rules: impl IntoIterator<Item = u64>, payload: &[u8]) -> NamedBytes {
    rules.into_iter().map(|kind| (format!("{kind:#x}"), h3_frame(kind, payload))).collect()
}

fn control() -> Vec<Rule> {
    let first = |frame: Vec<u8>| [numbers(&[CONTROL_TYPE]), frame].concat();
    let frames =
        frames_of_types([DATA, HEADERS, CANCEL_PUSH, GOAWAY, MAX_PUSH_ID, 0x21, 0x40], &[0]);
    let firsts: NamedBytes = frames.into_iter().map(|(name, frame)| (name, first(frame))).collect();
    vec![
        rule(
            "a first frame other than SETTINGS",
            "RFC 9114, 6.2.1",
            Application(H3_MISSING_SETTINGS),
        )
        .stream_starts(Progress::Established, CONTROL, firsts),
        rule("SETTINGS twice", "RFC 9114, 7.2.4", Application(H3_FRAME_UNEXPECTED)).stream_starts(
            Progress::Http,
            CONTROL,
            [("empty", h3_frame(SETTINGS, &[])), ("other", h3_frame(SETTINGS, &numbers(&[6, 9])))],
        ),
        rule(
            "a critical stream that ends",
            "RFC 9114, 6.2.1",
            Application(H3_CLOSED_CRITICAL_STREAM),
        )
        .case("control", Progress::Http, |peer| peer.write(CONTROL, &[], true))
        .case("control, at once", Progress::Established, |peer| {
            let bytes = [numbers(&[CONTROL_TYPE]), h3_frame(SETTINGS, &[])].concat();
            peer.write(CONTROL, &bytes, true);
        })
        .case("control, by a reset", Progress::Http, |peer| {
            peer.round_trip();
            peer.send(Space::Data, &numbers(&[RESET_STREAM, CONTROL, 0, 3]));
        })
        .streams(NEXT_UNI, [("encoder", varint(ENCODER_TYPE)), ("decoder", varint(DECODER_TYPE))])
        .cases(
            Progress::Http,
            [("encoder, by a reset", ENCODER_TYPE), ("decoder, by a reset", DECODER_TYPE)],
            |peer, kind| {
                peer.write(NEXT_UNI, &varint(*kind), false);
                peer.round_trip();
                peer.send(Space::Data, &numbers(&[RESET_STREAM, NEXT_UNI, 0, 1]));
            },
        ),
    ]
}

fn settings() -> Vec<Rule> {
    let first = |settings: &[u64]| {
        [numbers(&[CONTROL_TYPE]), h3_frame(SETTINGS, &numbers(settings))].concat()
    };
    let named = |all: &[(&'static str, &[u64])]| -> NamedBytes {
        all.iter().map(|(name, values)| (name.to_string(), first(values))).collect()
    };
    let cut = |payload: &[u8]| [numbers(&[CONTROL_TYPE]), h3_frame(SETTINGS, payload)].concat();
    vec![
        rule("a setting of HTTP/2", "RFC 9114, 7.2.4.1", Application(H3_SETTINGS_ERROR))
            .stream_starts(
                Progress::Established,
                CONTROL,
                [0, 2, 3, 4, 5].map(|id| (format!("{id:#x}"), first(&[id, 1]))),
            ),
        rule(
            "a boolean setting that is neither 0 nor 1",
            "RFC 9220, 3; RFC 9297, 2.1.1",
            Application(H3_SETTINGS_ERROR),
        )
        .stream_starts(
            Progress::Established,
            CONTROL,
            named(&[("ENABLE_CONNECT_PROTOCOL", &[0x08, 2]), ("H3_DATAGRAM", &[0x33, 2])]),
        ),
        rule(
            "H3_DATAGRAM without DATAGRAM frames",
            "RFC 9297, 2.1.1",
            Application(H3_SETTINGS_ERROR),
        )
        .stream_starts(Progress::Established, CONTROL, named(&[("1", &[0x33, 1])])),
        rule("truncated SETTINGS", "RFC 9114, 7.1", Application(H3_FRAME_ERROR)).stream_starts(
            Progress::Established,
            CONTROL,
            [
                ("an identifier alone", cut(&[6])),
                ("half a value", cut(&[6, 0x40])),
                ("half an identifier", cut(&[0x40])),
            ],
        ),
        rule("unknown settings", "RFC 9114, 7.2.4.1", Served).stream_starts(
            Progress::Established,
            CONTROL,
            named(&[("reserved", &[0x21, 5]), ("another", &[0x3fff, VARINT_MAX])]),
        ),
        rule("settings with extreme values", "RFC 9114, 7.2.4.2; RFC 9204, 5", Served)
            .stream_starts(
                Progress::Established,
                CONTROL,
                named(&[
                    ("large tables", &[1, VARINT_MAX, 7, VARINT_MAX]),
                    ("large sections", &[6, VARINT_MAX]),
                ]),
            ),
    ]
}

fn streams() -> Vec<Rule> {
    let creation = |name, section| rule(name, section, Application(H3_STREAM_CREATION_ERROR));
    vec![
        creation("a second critical stream", "RFC 9114, 6.2.1; RFC 9204, 4.2")
            .stream_starts(Progress::Http, NEXT_UNI, [("control", varint(CONTROL_TYPE))])
            .cases(
                Progress::Http,
                [("encoder", ENCODER_TYPE), ("decoder", DECODER_TYPE)],
                |peer, kind| {
                    peer.write(NEXT_UNI, &varint(*kind), false);
                    peer.write(NEXT_UNI + 4, &varint(*kind), false);
                },
            ),
        creation("a push stream from a client", "RFC 9114, 6.2.2").stream_starts(
            Progress::Http,
            NEXT_UNI,
            [("without ID", varint(PUSH_TYPE)), ("with ID", numbers(&[PUSH_TYPE, 0]))],
        ),
        rule("a stream of unknown type", "RFC 9114, 6.2.3", Served)
            .stream_starts(
                Progress::Http,
                NEXT_UNI,
                [
                    ("reserved", with_bytes(&[0x21], &[7; 100])),
                    ("another", numbers(&[0x54, 1, 2, 3])),
                ],
            )
            .streams(NEXT_UNI, [("that ends", with_bytes(&[0x21], &[7; 100]))]),
        rule("a stream that ends before its type", "RFC 9114, 6.2", Served)
            .streams(NEXT_UNI, [("empty", vec![]), ("half a type", vec![0x40])])
            .case("by a reset", Progress::Http, |peer| {
                peer.send(Space::Data, &numbers(&[RESET_STREAM, NEXT_UNI, 0, 0]));
            }),
        rule("types in a longer encoding than necessary", "RFC 9114, 7.1", Served).case(
            "a control stream",
            Progress::Established,
            |peer| {
                let bytes = [varint_in(0, 8), varint_in(SETTINGS, 8), varint_in(0, 8)].concat();
                peer.write(CONTROL, &bytes, false);
            },
        ),
    ]
}

fn placement() -> Vec<Rule> {
    let unexpected = |name, section| rule(name, section, Application(H3_FRAME_UNEXPECTED));
    let not_there = [CANCEL_PUSH, SETTINGS, GOAWAY, MAX_PUSH_ID];
    let after = |frames: NamedBytes| {
        let get = get("/");
        frames.into_iter().map(move |(name, frame)| (name, [&get[..], &frame].concat()))
    };
    vec![
        unexpected("a control-stream frame on a request stream", "RFC 9114, 7.2")
            .stream_starts(Progress::Http, 0, frames_of_types(not_there, &[0]))
            .stream_starts(
                Progress::Http,
                0,
                after(frames_of_types(not_there, &[0])).collect::<NamedBytes>(),
            ),
        unexpected("PRIORITY_UPDATE on a request stream", "RFC 9218, 7.2").stream_starts(
            Progress::Http,
            0,
            frames_of_types([PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH], b"\0u=1"),
        ),
        unexpected("a request frame on the control stream", "RFC 9114, 7.2").stream_starts(
            Progress::Http,
            CONTROL,
            frames_of_types([DATA, HEADERS, PUSH_PROMISE], &[0, 0]),
        ),
        unexpected("PUSH_PROMISE from a client", "RFC 9114, 7.2.5")
            .stream_starts(Progress::Http, 0, frames_of_types([PUSH_PROMISE], &[0, 0, 0]))
            .stream_starts(
                Progress::Http,
                4,
                after(frames_of_types([PUSH_PROMISE], &[0, 0, 0])).collect::<NamedBytes>(),
            ),
        unexpected("an HTTP/2 frame", "RFC 9114, 7.2.8")
            .stream_starts(Progress::Http, CONTROL, frames_of_types(HTTP2_FRAMES, &[0]))
            .stream_starts(
                Progress::Http,
                0,
                after(frames_of_types(HTTP2_FRAMES, &[0])).collect::<NamedBytes>(),
            ),
        rule("frames of unknown type", "RFC 9114, 9", Served)
            .stream_starts(
                Progress::Http,
                CONTROL,
                frames_of_types([0x21, 0x40, VARINT_MAX], &[7; 50]),
            )
            .streams(0, after(frames_of_types([0x21, 0x3fff], &[7; 50])).collect::<NamedBytes>()),
    ]
}

fn sequences() -> Vec<Rule> {
    let unexpected = |name| rule(name, "RFC 9114, 4.1", Application(H3_FRAME_UNEXPECTED));
    let get = || get("/");
    let data = || h3_frame(DATA, b"data");
    let trailers = || headers(&[("x-sum", "1")]);
    vec![
        unexpected("DATA before HEADERS").stream_starts(
            Progress::Http,
            0,
            [
                ("with content", data()),
                ("empty", h3_frame(DATA, &[])),
                ("after an unknown frame", [h3_frame(0x21, &[]), data()].concat()),
            ],
        ),
        unexpected("DATA after trailers").stream_starts(
            Progress::Http,
            0,
            [("and content", [get(), data(), trailers(), data()].concat())],
        ),
        unexpected("HEADERS after trailers").stream_starts(
            Progress::Http,
            0,
            [
                ("and content", [get(), data(), trailers(), trailers()].concat()),
                ("without content", [get(), trailers(), trailers()].concat()),
            ],
        ),
        rule(
            "a stream without a request",
            "RFC 9114, 4.1",
            Reset { stream: 0, code: H3_REQUEST_INCOMPLETE },
        )
        .streams(0, [("empty", vec![]), ("unknown frames alone", h3_frame(0x21, &[7; 20]))]),
    ]
}

fn layout() -> Vec<Rule> {
    let error = |name| rule(name, "RFC 9114, 7.1", Application(H3_FRAME_ERROR));
    let one_number = [CANCEL_PUSH, GOAWAY, MAX_PUSH_ID];
    let load = |name, section| rule(name, section, Application(H3_EXCESSIVE_LOAD));
    vec![
        error("a frame longer than its fields").stream_starts(
            Progress::Http,
            CONTROL,
            frames_of_types(one_number, &[0, 0]),
        ),
        error("a frame shorter than its fields")
            .stream_starts(Progress::Http, CONTROL, frames_of_types(one_number, &[]))
            .stream_starts(Progress::Http, CONTROL, frames_of_types(one_number, &[0x40])),
        error("PRIORITY_UPDATE without a complete ID")
            .stream_starts(
                Progress::Http,
                CONTROL,
                frames_of_types([PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH], &[]),
            )
            .stream_starts(
                Progress::Http,
                CONTROL,
                frames_of_types([PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH], &[0xc0]),
            ),
        error("a stream that ends within a frame").streams(
            0,
            [
                ("a type", vec![0x40]),
                ("no length", vec![0x01]),
                ("half a length", vec![0x01, 0x40]),
                ("no header section", vec![0x01, 20]),
                ("half a header section", with_bytes(&[HEADERS, 50], &[0, 0, 0xd1])),
                ("no content", [get("/"), numbers(&[DATA, 4])].concat()),
                ("half of the content", [get("/"), with_bytes(&[DATA, 4], b"da")].concat()),
                ("half of trailers", [get("/"), with_bytes(&[HEADERS, 9], &[0])].concat()),
                ("half of an unknown frame", [get("/"), with_bytes(&[0x21, 9], &[0])].concat()),
            ],
        ),
        load("an excessively long frame", "RFC 9114, 10.5")
            .stream_starts(
                Progress::Http,
                0,
                [
                    ("HEADERS", numbers(&[HEADERS, 1 << 20])),
                    ("HEADERS, the longest", numbers(&[HEADERS, VARINT_MAX])),
                ],
            )
            .stream_starts(
                Progress::Http,
                CONTROL,
                [
                    ("PRIORITY_UPDATE", numbers(&[PRIORITY_UPDATE, 1 << 20])),
                    ("an unknown one", numbers(&[0x21, VARINT_MAX])),
                ],
            ),
    ]
}

fn ids() -> Vec<Rule> {
    let error = |name, section| rule(name, section, Application(H3_ID_ERROR));
    let twice =
        |kind, first, second| [number_frame(kind, first), number_frame(kind, second)].concat();
    vec![
        error("MAX_PUSH_ID that decreases", "RFC 9114, 7.2.7").stream_starts(
            Progress::Http,
            CONTROL,
            [("by one", twice(MAX_PUSH_ID, 8, 7)), ("to 0", twice(MAX_PUSH_ID, VARINT_MAX, 0))],
        ),
        error("GOAWAY that increases", "RFC 9114, 5.2").stream_starts(
            Progress::Http,
            CONTROL,
            [("by one", twice(GOAWAY, 8, 9)), ("from 0", twice(GOAWAY, 0, VARINT_MAX))],
        ),
    ]
}

fn priorities() -> Vec<Rule> {
    let error = |name| rule(name, "RFC 9218, 7.2", Application(H3_ID_ERROR));
    let update = |kind, id| h3_frame(kind, &with_bytes(&[id], b"u=1"));
    let of = |kind, ids: &[u64]| -> NamedBytes {
        ids.iter().map(|id| (format!("{kind:#x} {id}"), update(kind, *id))).collect()
    };
    vec![
        error("PRIORITY_UPDATE of a stream that carries no request").stream_starts(
            Progress::Http,
            CONTROL,
            of(PRIORITY_UPDATE, &[1, 2, 3, 4 * 9 + 2]),
        ),
        error("PRIORITY_UPDATE of a stream beyond the limit").stream_starts(
            Progress::Http,
            CONTROL,
            of(PRIORITY_UPDATE, &[4 * REQUESTS_MAX, 4 * REQUESTS_MAX + 4, VARINT_MAX - 3]),
        ),
        error("PRIORITY_UPDATE of a push ID that quiche rejects").stream_starts(
            Progress::Http,
            CONTROL,
            of(PRIORITY_UPDATE_PUSH, &[1, 2, 4, 5]),
        ),
        rule("an invalid priority", "RFC 9218, 7", Served).stream_starts(
            Progress::Http,
            CONTROL,
            ["", "u=9", "\0\0", "u=1,u=2,i=?2", "(((((((", "\u{e9}"].map(|value| {
                (
                    format!("{value:?}"),
                    h3_frame(PRIORITY_UPDATE, &with_bytes(&[0], value.as_bytes())),
                )
            }),
        ),
    ]
}
