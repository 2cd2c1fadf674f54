//! HTTP/3 streams: any bytes, or requests with any fields.
#![no_main]

use std::cell::RefCell;

use fuzz::http::request::Request;
use fuzz::Listener;
use libfuzzer_sys::fuzz_target;
use quiche::h3;

thread_local! {
    static LISTENER: RefCell<Listener> = RefCell::default();
}

/// A control stream with SETTINGS.
const CONTROL: [u8; 3] = [0, 4, 0];

/// The client's streams that data comes on.
const STREAMS: [u64; 8] = [0, 4, 8, 2, 6, 10, 14, 12];

fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    match mode % 2 {
        0 => on_streams(data, mode & 2 == 0),
        _ => on_fields(data),
    }
});

/// Sends pieces of data, each of which begins with its stream, whether it is the last, and its
/// length.
fn on_streams(mut data: &[u8], is_ordinary: bool) {
    LISTENER.with_borrow_mut(|listener| {
        let mut ends = listener.connect();
        if is_ordinary {
            ends.on_stream(2, &CONTROL, false);
        }
        while let Some(([head, length], rest)) = data.split_first_chunk() {
            let (piece, rest) = rest.split_at(usize::from(*length).min(rest.len()));
            let id = STREAMS[usize::from(head % 8)];
            ends.on_stream(id, piece, head & 8 != 0);
            data = rest;
        }
    });
}

/// Parses a request from lines, each with a name and a value.
fn on_fields(data: &[u8]) {
    let mut fields = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        let middle = line.iter().position(|byte| *byte == b'=').unwrap_or(line.len());
        let (name, value) = line.split_at(middle);
        fields.push(h3::Header::new(name, value.get(1..).unwrap_or_default()));
    }
    if let Ok(request) = Request::read(&fields) {
        assert!(!request.host.is_empty() && !request.host.contains(['@', '/', '[']));
    }
}
