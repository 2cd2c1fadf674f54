//! The clock and the randomness of this program, read nowhere else.

use std::time::Instant;

/// Length of our connection IDs in bytes.
pub const CONNECTION_ID_LEN: usize = 16;

/// The present, on the clock that the transport uses too.
pub fn now() -> Instant {
    quiche::clock::now()
}

/// A fresh, unpredictable connection ID.
pub fn random_connection_id() -> [u8; CONNECTION_ID_LEN] {
    let mut id = [0; CONNECTION_ID_LEN];
    boring::rand::rand_bytes(&mut id).expect("BoringSSL has randomness");
    id
}
