//! Tokens of Initial packets: only unchanged tokens of the server are valid.
#![no_main]

use std::time::Duration;
use std::time::UNIX_EPOCH;

use fuzz::quic::secrets;
use fuzz::quic::token::Tokens;
use fuzz::quic::token::PAYLOAD_BYTES;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    let mut tokens = Tokens::new(secrets::open(None).unwrap());
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let client = "192.0.2.7:4433".parse().unwrap();
    let made = match mode % 3 {
        0 => return assert!(tokens.validate(data, client, b"changed.", now).is_err()),
        1 => tokens.for_retry(client, b"original", b"changed.", now).unwrap(),
        _ => tokens.for_next_connection(client.ip(), &[7; PAYLOAD_BYTES], now).unwrap(),
    };
    // The token after these changes.
    let mut token = made.clone();
    for pair in data.chunks_exact(2) {
        let at = usize::from(pair[0]) % token.len();
        token[at] ^= pair[1];
    }
    token.truncate(made.len() - data.len() % 2);
    let validated = tokens.validate(&token, client, b"changed.", now);
    assert_eq!(validated.is_ok(), token == made);
});
