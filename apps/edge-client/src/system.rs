//! Clock and random numbers of this program.

use std::time::Instant;

/// Length of our connection IDs in bytes.
pub const CONNECTION_ID_LEN: usize = 16;

/// Returns the time on the transport's clock.
pub fn now() -> Instant {
    quiche::clock::now()
}

/// Returns a new, unpredictable connection ID.
pub fn random_connection_id() -> [u8; CONNECTION_ID_LEN] {
    let mut id = [0; CONNECTION_ID_LEN];
    boring::rand::rand_bytes(&mut id).expect("BoringSSL has randomness");
    id
}
