//! QPACK (RFC 9204): the server has no dynamic table, so that references to it are errors.

use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::wire::h3_frame;
use crate::wire::literal;
use crate::wire::prefixed;
use crate::wire::section;
use crate::wire::H3_EXCESSIVE_LOAD;
use crate::wire::QPACK_DECOMPRESSION_FAILED;

const HEADERS: u64 = 0x01;

/// Stream of instructions, and the stream types.
pub const INSTRUCTIONS: u64 = 6;
pub const ENCODER: u8 = 0x02;
pub const DECODER: u8 = 0x03;

/// Number of entries in the static table.
const STATIC_ENTRIES: u64 = 99;

const FIELDS: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];

pub fn rules() -> Vec<Rule> {
    [sections(), strings(), bombs(), instructions()].into_iter().flatten().collect()
}

/// Returns a request whose field section continues with these bytes.
fn request(more: &[u8]) -> Vec<u8> {
    h3_frame(HEADERS, &[&section(&FIELDS), more].concat())
}

/// Returns a request whose field section begins with these bytes.
fn beginning(prefix: &[u8]) -> Vec<u8> {
    h3_frame(HEADERS, &[prefix, &section(&FIELDS)[2..]].concat())
}

pub fn integer(pattern: u8, bits: u32, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    prefixed(&mut bytes, pattern, bits, value);
    bytes
}

fn failed(name: &'static str, section: &'static str, cases: Vec<(&'static str, Vec<u8>)>) -> Rule {
    rule(name, section, Application(QPACK_DECOMPRESSION_FAILED)).streams(0, cases)
}

fn sections() -> Vec<Rule> {
    let literal_of = |pattern, bits, index| [integer(pattern, bits, index), vec![1, b'v']].concat();
    vec![
        failed(
            "a section that needs a dynamic table",
            "RFC 9204, 4.5.1.1",
            vec![
                ("1", beginning(&[1, 0])),
                ("2", beginning(&[2, 0])),
                ("255", beginning(&[&integer(0, 8, 255)[..], &[0]].concat())),
                ("the largest", beginning(&[&integer(0, 8, u64::MAX)[..], &[0]].concat())),
            ],
        ),
        failed(
            "a base below 0",
            "RFC 9204, 4.5.1.2",
            vec![("by one", beginning(&[0, 0x80])), ("by far", beginning(&[0, 0xff, 0x80, 0x01]))],
        ),
        failed(
            "a field of the dynamic table",
            "RFC 9204, 3.2.4",
            vec![
                ("the first", request(&integer(0x80, 6, 0))),
                ("a late one", request(&integer(0x80, 6, 1000))),
                ("beyond the base", request(&integer(0x10, 4, 0))),
            ],
        ),
        failed(
            "a name of the dynamic table",
            "RFC 9204, 3.2.4",
            vec![
                ("the first", request(&literal_of(0x40, 4, 0))),
                ("never indexed", request(&literal_of(0x60, 4, 5))),
                ("beyond the base", request(&literal_of(0x00, 3, 0))),
            ],
        ),
        failed(
            "a field beyond the static table",
            "RFC 9204, 3.1",
            vec![
                ("the next", request(&integer(0xc0, 6, STATIC_ENTRIES))),
                ("the largest", request(&integer(0xc0, 6, u64::MAX))),
                ("a name", request(&literal_of(0x50, 4, STATIC_ENTRIES))),
                ("a name far off", request(&literal_of(0x50, 4, 1 << 40))),
            ],
        ),
        failed(
            "a truncated section",
            "RFC 9204, 4.5",
            vec![
                ("empty", h3_frame(HEADERS, &[])),
                ("without base", h3_frame(HEADERS, &[0])),
                ("an index", request(&[0xff])),
                ("a name", request(&[0x23, b'a'])),
                ("no value", request(&[0x21, b'a'])),
                ("a value", request(&[0x21, b'a', 9, b'v'])),
                ("the value of a name", request(&[0x51, 9, b'v'])),
            ],
        ),
        failed(
            "an integer that overflows",
            "RFC 9204, 4.1.1",
            vec![
                ("an index", request(&[&[0xff], &[0xff; 11][..], &[1]].concat())),
                ("a length", request(&[&[0x27], &[0xff; 9][..], &[0x7f]].concat())),
                ("without end", request(&[0xff; 300])),
            ],
        ),
    ]
}

fn strings() -> Vec<Rule> {
    vec![
        failed(
            "a string that exceeds its section",
            "RFC 9204, 4.1.2",
            vec![
                ("a name", request(&integer(0x20, 3, 1 << 30))),
                ("a value", request(&[&[0x21, b'a'][..], &integer(0, 7, 1 << 40)].concat())),
            ],
        ),
        failed(
            "an invalid Huffman code",
            "RFC 7541, 5.2",
            vec![
                ("padded with zeros", request(&[0x21, b'a', 0x81, 0x18])),
                ("padded with a byte", request(&[0x21, b'a', 0x82, 0x1f, 0xff])),
                ("the end of strings", request(&[0x21, b'a', 0x84, 0xff, 0xff, 0xff, 0xff])),
            ],
        ),
    ]
}

/// Returns a section of `count` indexed static fields, which expand from one byte each.
fn indexed(count: usize) -> Vec<u8> {
    // content-security-policy: script-src 'none'; …
    [&[0, 0][..], &[0xc0 | 58].repeat(count)].concat()
}

fn bombs() -> Vec<Rule> {
    let large = |count: usize, length: usize| {
        let mut bytes = section(&FIELDS);
        for _ in 0..count {
            literal(&mut bytes, b"x", &vec![b'y'; length]);
        }
        h3_frame(HEADERS, &bytes)
    };
    let coded = |length: usize| {
        // Five bits encode an 'a'.
        let code = [0x18, 0xc6, 0x31, 0x8c, 0x63].repeat(length / 5);
        let value = [integer(0x80, 7, code.len() as u64), code].concat();
        request(&[&[0x21, b'a'][..], &value].concat())
    };
    vec![
        rule(
            "a section larger than the server decodes",
            "RFC 9114, 4.2.2",
            Application(H3_EXCESSIVE_LOAD),
        )
        .streams(
            0,
            [
                ("fields of a byte", h3_frame(HEADERS, &indexed(60_000))),
                ("many fields", large(2000, 1)),
                ("a long value", large(1, 70_000)),
                ("a Huffman-coded value", coded(50_000)),
            ],
        ),
        rule("a section above the limit", "RFC 9114, 4.2.2", Status("431")).streams(
            0,
            [
                ("many fields", large(1000, 1)),
                ("a long value", large(1, 40_000)),
                ("a Huffman-coded value", coded(25_000)),
            ],
        ),
    ]
}

fn instructions() -> Vec<Rule> {
    let encoder = |bytes: &[u8]| [&[ENCODER], bytes].concat();
    let decoder = |bytes: &[u8]| [&[DECODER], bytes].concat();
    vec![rule("instructions without effect", "RFC 9204, 4.4.2", Served).stream_starts(
        Progress::Http,
        INSTRUCTIONS,
        [
            ("a capacity of 0", encoder(&[0x20])),
            ("repeated", encoder(&[0x20; 3000])),
            ("a stream cancelled", decoder(&[0x40])),
            ("repeated stream cancellations", decoder(&[0x44; 3000])),
            ("half an instruction", decoder(&[0x7f, 0x80])),
        ],
    )]
}
