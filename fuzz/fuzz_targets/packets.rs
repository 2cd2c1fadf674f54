//! Datagrams and frames, to a server that does not know the client, or on a connection.
#![no_main]

use std::cell::RefCell;

use fuzz::Listener;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static LISTENER: RefCell<Listener> = RefCell::default();
}

fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    LISTENER.with_borrow_mut(|listener| match mode % 2 {
        0 => listener.receive_first(pieces(data)),
        _ => {
            let mut ends = listener.connect();
            pieces(data).for_each(|frames| ends.on_frames(frames));
        }
    });
});

/// Splits data into pieces, each of which begins with its length in two bytes.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        Some(piece)
    })
}
