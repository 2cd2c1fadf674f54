//! HTTP/2: floods of frames, header bombs, and requests that are malformed. That frames are what RFC
//! 9113 says is tested by h2spec.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::time::Duration;

use boring::ssl::SslStream;

use super::assert_serves;
use super::start;
use super::support::tcp_client;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Types of frames (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

// Error codes (RFC 9113, 7).
const PROTOCOL_ERROR: u32 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;

/// ConnectionOutcome of what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionOutcome {
    /// The stream 1 is reset with this code.
    Reset(u32),

    /// The connection ends with this code.
    GoAway(u32),

    /// A response begins: no status is read.
    Response,
    Closed,
}

/// Returns what a client sends, by its number.
type FrameFlood<'a> = &'a dyn Fn(u32) -> Vec<u8>;

/// A client's connection.
struct FrameClient(SslStream<TcpStream>);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A literal field line without indexing (RFC 7541, 6.2.2), of short name and value.
fn line(name: &str, value: &str) -> Vec<u8> {
    let mut line = vec![0, name.len() as u8];
    line.extend(name.as_bytes());
    line.push(value.len() as u8);
    line.extend(value.as_bytes());
    line
}

fn block(lines: &[(&str, &str)]) -> Vec<u8> {
    lines.iter().flat_map(|(name, value)| line(name, value)).collect()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/a")];

impl FrameClient {
    fn open(address: SocketAddr) -> Self {
        let stream = tcp_client::open(address, b"\x02h2");
        // Longer than any pause of a server that has something to say.
        stream.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut connection = Self(stream);
        connection.send(PREFACE);
        connection.send(&frame(SETTINGS, 0, 0, &[]));
        connection
    }

    /// Sends bytes; false once the server has closed the connection.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Reads frames until one tells the outcome.
    fn outcome(&mut self) -> ConnectionOutcome {
        loop {
            let mut head = [0; 9];
            if self.0.read_exact(&mut head).is_err() {
                return ConnectionOutcome::Closed;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            if self.0.read_exact(&mut payload).is_err() {
                return ConnectionOutcome::Closed;
            }
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match head[3] {
                RST_STREAM => return ConnectionOutcome::Reset(code(0)),
                GOAWAY if code(4) != 0 => return ConnectionOutcome::GoAway(code(4)),
                HEADERS => return ConnectionOutcome::Response,
                _ => (),
            }
        }
    }
}

#[test]
fn malformed_request_is_a_stream_error_or_refused() {
    let (_dir, mut server, address) = start(&[]);
    let without = |name: &str| GET.into_iter().filter(|line| line.0 != name).collect::<Vec<_>>();
    let with = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
    for (lines, expected) in [
        (GET.to_vec(), ConnectionOutcome::Response),
        (without(":method"), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (without(":path"), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (without(":scheme"), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        // Refused with 400, as Host may be the authority.
        (without(":authority"), ConnectionOutcome::Response),
        // h2 takes invalid names and values for errors of the connection.
        (with(&[("Accept", "*/*")]), ConnectionOutcome::GoAway(PROTOCOL_ERROR)),
        (with(&[("connection", "close")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (with(&[("transfer-encoding", "chunked")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        // The server has not offered extended CONNECT (RFC 8441, 3).
        (with(&[(":protocol", "websocket")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (
            [&[(":method", "CONNECT"), (":protocol", "websocket")], &GET[1..]].concat(),
            ConnectionOutcome::Reset(PROTOCOL_ERROR),
        ),
        (with(&[("te", "gzip")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (with(&[(":path", "/b")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (with(&[("x", "a\r\nb")]), ConnectionOutcome::GoAway(PROTOCOL_ERROR)),
        (with(&[("content-length", "5")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
        (with(&[("content-length", "x")]), ConnectionOutcome::Reset(PROTOCOL_ERROR)),
    ] {
        let mut connection = FrameClient::open(address);
        connection.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&lines)));
        assert_eq!(connection.outcome(), expected, "{lines:?}");
    }
    assert_serves(address);
    assert!(server.stop().success());
}

#[test]
fn content_that_is_not_of_its_length_is_a_stream_error() {
    let (_dir, mut server, address) = start(&[]);
    let post =
        [(":method", "POST"), (":scheme", "https"), (":authority", "h"), (":path", "/upload")];
    for content in ["hell", "hello!"] {
        let mut connection = FrameClient::open(address);
        let lines = [&post[..], &[("content-length", "5")]].concat();
        connection.send(&frame(HEADERS, END_HEADERS, 1, &block(&lines)));
        connection.send(&frame(DATA, END_STREAM, 1, content.as_bytes()));
        assert_eq!(connection.outcome(), ConnectionOutcome::Reset(PROTOCOL_ERROR), "{content}");
    }
    assert_serves(address);
    assert!(server.stop().success());
}

#[test]
fn floods_end_the_connection() {
    let (_dir, mut server, address) = start(&[]);
    let request = block(&GET);
    let reset = |number: u32| {
        let stream = 2 * number + 1;
        let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &request);
        [request, frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())].concat()
    };
    let continued = |number: u32| match number {
        0 => frame(HEADERS, 0, 1, &request),
        _ => frame(CONTINUATION, 0, 1, &line("x", &"y".repeat(100)).repeat(100)),
    };
    let empty = |number: u32| match number {
        0 => frame(HEADERS, 0, 1, &request),
        _ => frame(CONTINUATION, 0, 1, &[]),
    };
    let floods: [(&str, FrameFlood<'_>); 3] =
        [("rapid reset", &reset), ("CONTINUATION", &continued), ("empty CONTINUATION", &empty)];
    for (name, flood) in floods {
        let mut connection = FrameClient::open(address);
        // As many as a server could mistake for a busy client.
        let is_open = (0..100_000).all(|number| connection.send(&flood(number)));
        assert!(!is_open, "{name}");
        let outcome = connection.outcome();
        let is_ended = [
            ConnectionOutcome::GoAway(ENHANCE_YOUR_CALM),
            ConnectionOutcome::GoAway(PROTOCOL_ERROR),
            ConnectionOutcome::Closed,
        ];
        assert!(is_ended.contains(&outcome), "{name}: {outcome:?}");
        assert_serves(address);
    }
    assert!(server.stop().success());
}

// Each has a reply, which a client that does not read leaves to the server.
#[test]
fn replies_that_nobody_reads_take_no_memory() {
    let (_dir, mut server, address) = start(&[]);
    let before = server.memory_kib("VmRSS");
    for flood in [frame(PING, 0, 0, &[7; 8]), frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9])] {
        let mut connection = FrameClient::open(address);
        connection.0.get_ref().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let flood = flood.repeat(1000);
        // Until the server reads no more, or closes.
        let _ = (0..2000).all(|_| connection.send(&flood));
        assert_serves(address);
    }
    let after = server.memory_kib("VmRSS");
    assert!(after < before + (64 << 10), "{before} KiB, then {after}");
    assert!(server.stop().success());
}

#[test]
fn header_bomb_is_refused() {
    let (_dir, mut server, address) = start(&[]);
    // An entry of 4000 bytes in the dynamic table, and 4000 references of a byte to it.
    let value = "y".repeat(3900);
    let mut bomb = block(&GET);
    bomb.extend([0x40, 1, b'x', 0x7f]);
    bomb.extend([0xbd, 0x1d]);
    bomb.extend(value.as_bytes());
    bomb.extend([0xbe; 4000]);
    let before = server.memory_kib("VmHWM");
    for _ in 0..20 {
        let mut connection = FrameClient::open(address);
        connection.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &bomb));
        let outcome = connection.outcome();
        assert!(!matches!(outcome, ConnectionOutcome::Closed), "{outcome:?}");
    }
    let after = server.memory_kib("VmHWM");
    assert!(after < before + (16 << 10), "{before} KiB, then {after}");
    assert_serves(address);
    assert!(server.stop().success());
}

// 100 requests for a gigabyte each, with windows for all of it.
#[test]
fn responses_that_nobody_reads_take_no_memory_and_end() {
    let (_dir, mut server, address) = start(&[]);
    let before = server.memory_kib("VmRSS");
    let mut connection = FrameClient::open(address);
    connection.send(&frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    connection.send(&frame(8, 0, 0, &0x7fff_0000u32.to_be_bytes()));
    let lines = [&GET[..3], &[(":path", "/bytes/1000000000")]].concat();
    for number in 0..100 {
        connection.send(&frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &block(&lines)));
    }
    // The server closes it after the time of --stall-timeout.
    std::thread::sleep(Duration::from_secs(2));
    let after = server.memory_kib("VmRSS");
    assert!(after < before + (16 << 10), "{before} KiB, then {after}");
    assert_serves(address);
    let is_closed = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !connection.send(&frame(PING, 0, 0, &[0; 8]))
    });
    assert!(is_closed, "it is still served");
    assert!(server.stop().success());
}
