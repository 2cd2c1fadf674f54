//! Streams and frames of HTTP/3 (RFC 9114, 6 and 7; RFC 9218, 7).

use crate::case::get;
use crate::case::kind;
use crate::case::Answer::*;
use crate::case::Kind;
use crate::case::Stage;
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

/// The client's streams of one direction, the first of which is its control stream.
const CONTROL: u64 = 2;
const NEXT_UNI: u64 = 6;

/// Types of streams (RFC 9114, 6.2; RFC 9204, 4.2).
const CONTROL_TYPE: u64 = 0x00;
const PUSH_TYPE: u64 = 0x01;
const ENCODER_TYPE: u64 = 0x02;
const DECODER_TYPE: u64 = 0x03;

/// Frames that HTTP/2 had (RFC 9114, 7.2.8).
const OF_HTTP2: [u64; 4] = [0x02, 0x06, 0x08, 0x09];

const RESET_STREAM: u64 = 0x04;

/// The server's limit.
const REQUESTS_MAX: u64 = 128;

type Pieces = Vec<(String, Vec<u8>)>;

pub fn kinds() -> Vec<Kind> {
    [control(), settings(), streams(), placement(), sequences(), layout(), ids(), priorities()]
        .into_iter()
        .flatten()
        .collect()
}

fn number_frame(kind: u64, value: u64) -> Vec<u8> {
    h3_frame(kind, &varint(value))
}

fn of_types(kinds: impl IntoIterator<Item = u64>, payload: &[u8]) -> Pieces {
    kinds.into_iter().map(|kind| (format!("{kind:#x}"), h3_frame(kind, payload))).collect()
}

fn control() -> Vec<Kind> {
    let first = |frame: Vec<u8>| [numbers(&[CONTROL_TYPE]), frame].concat();
    let frames = of_types([DATA, HEADERS, CANCEL_PUSH, GOAWAY, MAX_PUSH_ID, 0x21, 0x40], &[0]);
    let firsts: Pieces = frames.into_iter().map(|(name, frame)| (name, first(frame))).collect();
    vec![
        kind(
            "another frame than SETTINGS at first",
            "RFC 9114, 6.2.1",
            Application(H3_MISSING_SETTINGS),
        )
        .pieces(Stage::Open, CONTROL, firsts),
        kind("SETTINGS twice", "RFC 9114, 7.2.4", Application(H3_FRAME_UNEXPECTED)).pieces(
            Stage::Http,
            CONTROL,
            [("empty", h3_frame(SETTINGS, &[])), ("other", h3_frame(SETTINGS, &numbers(&[6, 9])))],
        ),
        kind(
            "a critical stream that ends",
            "RFC 9114, 6.2.1",
            Application(H3_CLOSED_CRITICAL_STREAM),
        )
        .input("control", Stage::Http, |peer| peer.write(CONTROL, &[], true))
        .input("control, at once", Stage::Open, |peer| {
            let bytes = [numbers(&[CONTROL_TYPE]), h3_frame(SETTINGS, &[])].concat();
            peer.write(CONTROL, &bytes, true);
        })
        .input("control, by a reset", Stage::Http, |peer| {
            peer.round_trip();
            peer.send(Space::Data, &numbers(&[RESET_STREAM, CONTROL, 0, 3]));
        })
        .streams(NEXT_UNI, [("encoder", varint(ENCODER_TYPE)), ("decoder", varint(DECODER_TYPE))])
        .inputs(
            Stage::Http,
            [("encoder, by a reset", ENCODER_TYPE), ("decoder, by a reset", DECODER_TYPE)],
            |peer, kind| {
                peer.write(NEXT_UNI, &varint(*kind), false);
                peer.round_trip();
                peer.send(Space::Data, &numbers(&[RESET_STREAM, NEXT_UNI, 0, 1]));
            },
        ),
    ]
}

fn settings() -> Vec<Kind> {
    let first = |settings: &[u64]| {
        [numbers(&[CONTROL_TYPE]), h3_frame(SETTINGS, &numbers(settings))].concat()
    };
    let named = |all: &[(&'static str, &[u64])]| -> Pieces {
        all.iter().map(|(name, values)| (name.to_string(), first(values))).collect()
    };
    let cut = |payload: &[u8]| [numbers(&[CONTROL_TYPE]), h3_frame(SETTINGS, payload)].concat();
    vec![
        kind("a setting of HTTP/2", "RFC 9114, 7.2.4.1", Application(H3_SETTINGS_ERROR)).pieces(
            Stage::Open,
            CONTROL,
            [0, 2, 3, 4, 5].map(|id| (format!("{id:#x}"), first(&[id, 1]))),
        ),
        kind(
            "a setting that is neither 0 nor 1",
            "RFC 9220, 3; RFC 9297, 2.1.1",
            Application(H3_SETTINGS_ERROR),
        )
        .pieces(
            Stage::Open,
            CONTROL,
            named(&[("ENABLE_CONNECT_PROTOCOL", &[0x08, 2]), ("H3_DATAGRAM", &[0x33, 2])]),
        ),
        kind(
            "H3_DATAGRAM without DATAGRAM frames",
            "RFC 9297, 2.1.1",
            Application(H3_SETTINGS_ERROR),
        )
        .pieces(Stage::Open, CONTROL, named(&[("1", &[0x33, 1])])),
        kind("SETTINGS that end too early", "RFC 9114, 7.1", Application(H3_FRAME_ERROR)).pieces(
            Stage::Open,
            CONTROL,
            [
                ("an identifier alone", cut(&[6])),
                ("half a value", cut(&[6, 0x40])),
                ("half an identifier", cut(&[0x40])),
            ],
        ),
        kind("settings that nobody knows", "RFC 9114, 7.2.4.1", Served).pieces(
            Stage::Open,
            CONTROL,
            named(&[("reserved", &[0x21, 5]), ("another", &[0x3fff, VARINT_MAX])]),
        ),
        kind("settings that leave no room", "RFC 9114, 7.2.4.2; RFC 9204, 5", Served).pieces(
            Stage::Open,
            CONTROL,
            named(&[
                ("large tables", &[1, VARINT_MAX, 7, VARINT_MAX]),
                ("large sections", &[6, VARINT_MAX]),
            ]),
        ),
    ]
}

fn streams() -> Vec<Kind> {
    let creation = |rule, section| kind(rule, section, Application(H3_STREAM_CREATION_ERROR));
    vec![
        creation("a second critical stream", "RFC 9114, 6.2.1; RFC 9204, 4.2")
            .pieces(Stage::Http, NEXT_UNI, [("control", varint(CONTROL_TYPE))])
            .inputs(
                Stage::Http,
                [("encoder", ENCODER_TYPE), ("decoder", DECODER_TYPE)],
                |peer, kind| {
                    peer.write(NEXT_UNI, &varint(*kind), false);
                    peer.write(NEXT_UNI + 4, &varint(*kind), false);
                },
            ),
        creation("a push stream of a client", "RFC 9114, 6.2.2").pieces(
            Stage::Http,
            NEXT_UNI,
            [("without ID", varint(PUSH_TYPE)), ("with ID", numbers(&[PUSH_TYPE, 0]))],
        ),
        kind("a stream of a type that nobody knows", "RFC 9114, 6.2.3", Served)
            .pieces(
                Stage::Http,
                NEXT_UNI,
                [
                    ("reserved", with_bytes(&[0x21], &[7; 100])),
                    ("another", numbers(&[0x54, 1, 2, 3])),
                ],
            )
            .streams(NEXT_UNI, [("that ends", with_bytes(&[0x21], &[7; 100]))]),
        kind("a stream that ends before its type", "RFC 9114, 6.2", Served)
            .streams(NEXT_UNI, [("empty", vec![]), ("half a type", vec![0x40])])
            .input("by a reset", Stage::Http, |peer| {
                peer.send(Space::Data, &numbers(&[RESET_STREAM, NEXT_UNI, 0, 0]));
            }),
        kind("types in more bytes than they need", "RFC 9114, 7.1", Served).input(
            "a control stream",
            Stage::Open,
            |peer| {
                let bytes = [varint_in(0, 8), varint_in(SETTINGS, 8), varint_in(0, 8)].concat();
                peer.write(CONTROL, &bytes, false);
            },
        ),
    ]
}

fn placement() -> Vec<Kind> {
    let unexpected = |rule, section| kind(rule, section, Application(H3_FRAME_UNEXPECTED));
    let not_there = [CANCEL_PUSH, SETTINGS, GOAWAY, MAX_PUSH_ID];
    let after = |frames: Pieces| {
        let get = get("/");
        frames.into_iter().map(move |(name, frame)| (name, [&get[..], &frame].concat()))
    };
    vec![
        unexpected("a frame of the control stream on a request's", "RFC 9114, 7.2")
            .pieces(Stage::Http, 0, of_types(not_there, &[0]))
            .pieces(Stage::Http, 0, after(of_types(not_there, &[0])).collect::<Pieces>()),
        unexpected("PRIORITY_UPDATE on a request's stream", "RFC 9218, 7.2").pieces(
            Stage::Http,
            0,
            of_types([PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH], b"\0u=1"),
        ),
        unexpected("a frame of requests on the control stream", "RFC 9114, 7.2").pieces(
            Stage::Http,
            CONTROL,
            of_types([DATA, HEADERS, PUSH_PROMISE], &[0, 0]),
        ),
        unexpected("PUSH_PROMISE from a client", "RFC 9114, 7.2.5")
            .pieces(Stage::Http, 0, of_types([PUSH_PROMISE], &[0, 0, 0]))
            .pieces(
                Stage::Http,
                4,
                after(of_types([PUSH_PROMISE], &[0, 0, 0])).collect::<Pieces>(),
            ),
        unexpected("a frame of HTTP/2", "RFC 9114, 7.2.8")
            .pieces(Stage::Http, CONTROL, of_types(OF_HTTP2, &[0]))
            .pieces(Stage::Http, 0, after(of_types(OF_HTTP2, &[0])).collect::<Pieces>()),
        kind("frames that nobody knows", "RFC 9114, 9", Served)
            .pieces(Stage::Http, CONTROL, of_types([0x21, 0x40, VARINT_MAX], &[7; 50]))
            .streams(0, after(of_types([0x21, 0x3fff], &[7; 50])).collect::<Pieces>()),
    ]
}

fn sequences() -> Vec<Kind> {
    let unexpected = |rule| kind(rule, "RFC 9114, 4.1", Application(H3_FRAME_UNEXPECTED));
    let get = || get("/");
    let data = || h3_frame(DATA, b"data");
    let trailers = || headers(&[("x-sum", "1")]);
    vec![
        unexpected("DATA before HEADERS").pieces(
            Stage::Http,
            0,
            [
                ("with content", data()),
                ("empty", h3_frame(DATA, &[])),
                ("after an unknown frame", [h3_frame(0x21, &[]), data()].concat()),
            ],
        ),
        unexpected("DATA after trailers").pieces(
            Stage::Http,
            0,
            [("and content", [get(), data(), trailers(), data()].concat())],
        ),
        unexpected("HEADERS after trailers").pieces(
            Stage::Http,
            0,
            [
                ("and content", [get(), data(), trailers(), trailers()].concat()),
                ("without content", [get(), trailers(), trailers()].concat()),
            ],
        ),
        kind(
            "a stream without a request",
            "RFC 9114, 4.1",
            Reset { stream: 0, code: H3_REQUEST_INCOMPLETE },
        )
        .streams(0, [("empty", vec![]), ("unknown frames alone", h3_frame(0x21, &[7; 20]))]),
    ]
}

fn layout() -> Vec<Kind> {
    let error = |rule| kind(rule, "RFC 9114, 7.1", Application(H3_FRAME_ERROR));
    let one_number = [CANCEL_PUSH, GOAWAY, MAX_PUSH_ID];
    let load = |rule, section| kind(rule, section, Application(H3_EXCESSIVE_LOAD));
    vec![
        error("a frame with more than its fields").pieces(
            Stage::Http,
            CONTROL,
            of_types(one_number, &[0, 0]),
        ),
        error("a frame with less than its fields")
            .pieces(Stage::Http, CONTROL, of_types(one_number, &[]))
            .pieces(Stage::Http, CONTROL, of_types(one_number, &[0x40])),
        error("PRIORITY_UPDATE without a whole ID")
            .pieces(Stage::Http, CONTROL, of_types([PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH], &[]))
            .pieces(
                Stage::Http,
                CONTROL,
                of_types([PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH], &[0xc0]),
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
        load("a frame longer than anybody needs", "RFC 9114, 10.5")
            .pieces(
                Stage::Http,
                0,
                [
                    ("HEADERS", numbers(&[HEADERS, 1 << 20])),
                    ("HEADERS, the longest", numbers(&[HEADERS, VARINT_MAX])),
                ],
            )
            .pieces(
                Stage::Http,
                CONTROL,
                [
                    ("PRIORITY_UPDATE", numbers(&[PRIORITY_UPDATE, 1 << 20])),
                    ("an unknown one", numbers(&[0x21, VARINT_MAX])),
                ],
            ),
    ]
}

fn ids() -> Vec<Kind> {
    let error = |rule, section| kind(rule, section, Application(H3_ID_ERROR));
    let twice =
        |kind, first, second| [number_frame(kind, first), number_frame(kind, second)].concat();
    vec![
        error("MAX_PUSH_ID that goes back", "RFC 9114, 7.2.7").pieces(
            Stage::Http,
            CONTROL,
            [("by one", twice(MAX_PUSH_ID, 8, 7)), ("to 0", twice(MAX_PUSH_ID, VARINT_MAX, 0))],
        ),
        error("GOAWAY that goes on", "RFC 9114, 5.2").pieces(
            Stage::Http,
            CONTROL,
            [("by one", twice(GOAWAY, 8, 9)), ("from 0", twice(GOAWAY, 0, VARINT_MAX))],
        ),
    ]
}

fn priorities() -> Vec<Kind> {
    let error = |rule| kind(rule, "RFC 9218, 7.2", Application(H3_ID_ERROR));
    let update = |kind, id| h3_frame(kind, &with_bytes(&[id], b"u=1"));
    let of = |kind, ids: &[u64]| -> Pieces {
        ids.iter().map(|id| (format!("{kind:#x} {id}"), update(kind, *id))).collect()
    };
    vec![
        error("PRIORITY_UPDATE of a stream that is no request's").pieces(
            Stage::Http,
            CONTROL,
            of(PRIORITY_UPDATE, &[1, 2, 3, 4 * 9 + 2]),
        ),
        error("PRIORITY_UPDATE of a stream beyond the limit").pieces(
            Stage::Http,
            CONTROL,
            of(PRIORITY_UPDATE, &[4 * REQUESTS_MAX, 4 * REQUESTS_MAX + 4, VARINT_MAX - 3]),
        ),
        error("PRIORITY_UPDATE of what was never promised").pieces(
            Stage::Http,
            CONTROL,
            of(PRIORITY_UPDATE_PUSH, &[1, 2, 4, 5]),
        ),
        kind("a priority that is none", "RFC 9218, 7", Served).pieces(
            Stage::Http,
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
