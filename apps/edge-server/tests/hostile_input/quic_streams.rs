//! QUIC streams (RFC 9000, 2 to 4 and 19): limits, states and final sizes.

use crate::case::get;
use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::wire::numbers;
use crate::wire::stream;
use crate::wire::with_bytes;
use crate::wire::FINAL_SIZE_ERROR;
use crate::wire::FLOW_CONTROL_ERROR;
use crate::wire::FRAME_ENCODING_ERROR;
use crate::wire::STREAM_LIMIT_ERROR;
use crate::wire::STREAM_STATE_ERROR;
use crate::wire::VARINT_MAX;

/// The server's limits.
const STREAM_WINDOW_BYTES: u64 = 1 << 16;
const CONNECTION_WINDOW_BYTES: u64 = 1 << 20;
const REQUESTS_MAX: u64 = 128;
const UNI_STREAMS_MAX: u64 = 16;

/// Streams that the server never opens, bidirectional and unidirectional.
const SERVER_BIDI: [u64; 2] = [1, 0x4001];
const SERVER_UNI: [u64; 2] = [0x403, VARINT_MAX];

/// The server's control stream.
const SERVER_CONTROL: u64 = 3;

const RESET_STREAM: u64 = 0x04;
const STOP_SENDING: u64 = 0x05;
const MAX_STREAM_DATA: u64 = 0x11;
const STREAM_DATA_BLOCKED: u64 = 0x15;

pub fn rules() -> Vec<Rule> {
    [states(), limits(), sizes()].into_iter().flatten().collect()
}

fn named(
    frame: u64,
    streams: impl IntoIterator<Item = u64>,
    rest: &[u64],
) -> Vec<(String, Vec<u8>)> {
    let of = |id: u64| (format!("{frame:#x} on {id}"), numbers(&[&[frame, id], rest].concat()));
    streams.into_iter().map(of).collect()
}

fn data(streams: impl IntoIterator<Item = u64>) -> Vec<(String, Vec<u8>)> {
    let of = |id: u64| (format!("STREAM on {id}"), stream(id, 0, b"x", false));
    streams.into_iter().map(of).collect()
}

fn states() -> Vec<Rule> {
    let state = |name, section| rule(name, section, Transport(STREAM_STATE_ERROR));
    let mine = [2, 6, 14];
    vec![
        state("STREAM on a stream that only the server sends on", "RFC 9000, 19.8")
            .frames(Space::Data, data([SERVER_CONTROL].into_iter().chain(SERVER_UNI))),
        state("STREAM on a stream that the server has not opened", "RFC 9000, 19.8")
            .frames(Space::Data, data(SERVER_BIDI)),
        state("RESET_STREAM of a stream that only the server sends on", "RFC 9000, 19.4")
            .frames(Space::Data, named(RESET_STREAM, [SERVER_CONTROL, 0x403], &[0, 0])),
        state("RESET_STREAM of a stream that the server has not opened", "RFC 9000, 3.2")
            .frames(Space::Data, named(RESET_STREAM, SERVER_BIDI, &[0, 0])),
        state("STOP_SENDING on a stream that only the client sends on", "RFC 9000, 19.5")
            .frames(Space::Data, named(STOP_SENDING, mine, &[0])),
        state("STOP_SENDING on a stream that the server has not opened", "RFC 9000, 19.5")
            .frames(Space::Data, named(STOP_SENDING, SERVER_BIDI, &[0]))
            .frames(Space::Data, named(STOP_SENDING, SERVER_UNI, &[0])),
        state("MAX_STREAM_DATA on a stream that only the client sends on", "RFC 9000, 19.10")
            .frames(Space::Data, named(MAX_STREAM_DATA, mine, &[9])),
        state("MAX_STREAM_DATA on a stream that the server has not opened", "RFC 9000, 19.10")
            .frames(Space::Data, named(MAX_STREAM_DATA, SERVER_BIDI, &[9]))
            .frames(Space::Data, named(MAX_STREAM_DATA, SERVER_UNI, &[9])),
        state("STREAM_DATA_BLOCKED on a stream that only the server sends on", "RFC 9000, 19.13")
            .frames(Space::Data, named(STREAM_DATA_BLOCKED, [SERVER_CONTROL, 0x403], &[9])),
    ]
}

fn limits() -> Vec<Rule> {
    let beyond = [4 * REQUESTS_MAX, 4 * REQUESTS_MAX + 400, VARINT_MAX - 3];
    let beyond_uni = [4 * UNI_STREAMS_MAX + 2, VARINT_MAX - 1];
    let flow = |name, section| rule(name, section, Transport(FLOW_CONTROL_ERROR));
    let too_many = (1 << 60) + 1;
    vec![
        rule("a stream above the limit", "RFC 9000, 4.6", Transport(STREAM_LIMIT_ERROR))
            .frames(Space::Data, data(beyond))
            .frames(Space::Data, data(beyond_uni))
            .frames(Space::Data, named(RESET_STREAM, beyond, &[0, 0]))
            .frames(Space::Data, named(RESET_STREAM, beyond_uni, &[0, 0]))
            .frames(Space::Data, named(STOP_SENDING, beyond, &[0]))
            .frames(Space::Data, named(MAX_STREAM_DATA, beyond, &[9]))
            .frames(Space::Data, named(STREAM_DATA_BLOCKED, beyond, &[9]))
            .frames(Space::Data, named(STREAM_DATA_BLOCKED, beyond_uni, &[9])),
        rule("MAX_STREAMS above 2^60", "RFC 9000, 19.11", Transport(FRAME_ENCODING_ERROR))
            .frames(Space::Data, named(0x12, [too_many, VARINT_MAX], &[]))
            .frames(Space::Data, named(0x13, [too_many, VARINT_MAX], &[])),
        rule("STREAMS_BLOCKED above 2^60", "RFC 9000, 19.14", Transport(FRAME_ENCODING_ERROR))
            .frames(Space::Data, named(0x16, [too_many, VARINT_MAX], &[]))
            .frames(Space::Data, named(0x17, [too_many, VARINT_MAX], &[])),
        flow("data beyond a stream's window", "RFC 9000, 4.1").frames(
            Space::Data,
            [
                ("by a byte", stream(0, STREAM_WINDOW_BYTES, b"x", false)),
                ("by far", stream(0, 1 << 40, b"x", true)),
                ("with nothing", stream(0, STREAM_WINDOW_BYTES + 1, b"", false)),
                ("its end alone", stream(0, STREAM_WINDOW_BYTES + 1, b"", true)),
                ("of one direction", stream(6, STREAM_WINDOW_BYTES, b"x", false)),
            ],
        ),
        flow("data beyond the connection's window", "RFC 9000, 4.1").cases(
            Progress::Established,
            [("by bytes far apart", b"x".as_slice()), ("by nothing", b"")],
            |peer, bytes| {
                let streams = CONNECTION_WINDOW_BYTES / STREAM_WINDOW_BYTES + 1;
                let at = STREAM_WINDOW_BYTES - 1;
                let frames = (0..streams).flat_map(|n| stream(4 * n, at, bytes, false));
                let frames: Vec<u8> = frames.collect();
                peer.send(Space::Data, &frames);
            },
        ),
        flow("a final size beyond a stream's window", "RFC 9000, 4.5").frames(
            Space::Data,
            [
                ("by a byte", numbers(&[RESET_STREAM, 0, 0, STREAM_WINDOW_BYTES + 1])),
                ("by far", numbers(&[RESET_STREAM, 0, 0, VARINT_MAX])),
            ],
        ),
        flow("final sizes beyond the connection's window", "RFC 9000, 4.5").case(
            "of 17 streams",
            Progress::Established,
            |peer| {
                let streams = CONNECTION_WINDOW_BYTES / STREAM_WINDOW_BYTES + 1;
                let frames = (0..streams)
                    .flat_map(|n| numbers(&[RESET_STREAM, 4 * n, 0, STREAM_WINDOW_BYTES]));
                let frames: Vec<u8> = frames.collect();
                peer.send(Space::Data, &frames);
            },
        ),
    ]
}

fn sizes() -> Vec<Rule> {
    let size = |name, section| rule(name, section, Transport(FINAL_SIZE_ERROR));
    let ended = || stream(0, 0, b"1234", true);
    let then = |frame: Vec<u8>| [ended(), frame].concat();
    let started = |frame: Vec<u8>| [stream(0, 0, b"1234", false), frame].concat();
    let reset = |size| numbers(&[RESET_STREAM, 0, 0, size]);
    vec![
        size("data beyond the end of a stream", "RFC 9000, 4.5").frames(
            Space::Data,
            [
                ("after it", then(stream(0, 4, b"5", false))),
                ("across it", then(stream(0, 2, b"3456", false))),
                ("far after it", then(stream(0, 4000, b"x", false))),
            ],
        ),
        size("another final size", "RFC 9000, 4.5").frames(
            Space::Data,
            [
                ("later", then(stream(0, 4, b"5", true))),
                ("earlier", then(stream(0, 0, b"12", true))),
                ("with nothing", then(stream(0, 2, b"", true))),
            ],
        ),
        size("a final size below the received data", "RFC 9000, 4.5").frames(
            Space::Data,
            [
                ("in data", started(stream(0, 0, b"12", true))),
                ("with nothing", started(stream(0, 3, b"", true))),
            ],
        ),
        size("a reset below the received data", "RFC 9000, 4.5").frames(
            Space::Data,
            [("to nothing", started(reset(0))), ("by a byte", started(reset(3)))],
        ),
        size("a reset to another final size", "RFC 9000, 4.5")
            .frames(Space::Data, [("less", then(reset(3))), ("more", then(reset(5)))]),
        size("two resets to different sizes", "RFC 9000, 4.5").frames(
            Space::Data,
            [("more", [reset(4), reset(5)].concat()), ("less", [reset(4), reset(3)].concat())],
        ),
        rule("data beyond the largest offset", "RFC 9000, 19.8", Transport(FRAME_ENCODING_ERROR))
            .frames(
                Space::Data,
                [
                    ("by a byte", with_bytes(&[0x0e, 0, VARINT_MAX, 1], b"x")),
                    ("by two", with_bytes(&[0x0e, 0, VARINT_MAX - 1, 2], b"xx")),
                    ("without length", with_bytes(&[0x0c, 0, VARINT_MAX], b"xxx")),
                ],
            ),
        rule("a reset after the end of a stream", "RFC 9000, 3.2", Served).frames(
            Space::Data,
            [
                ("nothing came", [stream(0, 0, b"", true), reset(0)].concat()),
                ("something came", then(reset(4))),
                ("a request came", reset_request()),
            ],
        ),
        rule("data after a reset", "RFC 9000, 3.2", Served)
            .frames(Space::Data, [("within", [reset(4), stream(0, 0, b"1234", true)].concat())]),
    ]
}

/// Returns a request that is reset in the same packet.
fn reset_request() -> Vec<u8> {
    let request = get("/");
    let size = request.len() as u64;
    [stream(0, 0, &request, true), numbers(&[RESET_STREAM, 0, 0, size])].concat()
}
