//! Datagrams, and the frames of packets: to a server that knows nothing of the client
//! yet, or on a connection.
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
        0 => listener.meet(pieces(data)),
        _ => {
            let mut ends = listener.connect();
            pieces(data).for_each(|frames| ends.on_frames(frames));
        }
    });
});

/// Pieces that each begin with their length, in two bytes.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        Some(piece)
    })
}
