//! GREASE of a connection: its reserved values (RFC 9114, 7.2.8), drawn
//! together, since each draw costs more than coding and sending the value.

use crate::rand;
use std::sync::OnceLock;

/// Number of reserved values: 31 * N + 33 fits a variable-length integer.
const VALUES: u64 = 148_764_065_110_560_899;

/// GREASE of a connection, which draws no random bytes unless it is sent.
#[derive(Default)]
pub(super) struct Grease(OnceLock<GreaseValues>);

impl Grease {
    /// Returns the values of this connection.
    pub fn values(&self) -> GreaseValues {
        *self.0.get_or_init(GreaseValues::draw)
    }
}

/// The reserved values of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GreaseValues {
    /// A setting and its value.
    pub setting: (u64, u64),

    pub stream_type: u64,

    /// Type of an empty frame, and of one with content.
    pub frame_types: (u64, u64),
}

impl GreaseValues {
    /// Draws new values.
    fn draw() -> Self {
        let mut bytes = [[0; 8]; 5];
        rand::rand_bytes(bytes.as_flattened_mut());
        let [id, value, stream_type, empty, filled] = bytes.map(reserved);
        Self {
            setting: (id, value),
            stream_type,
            frame_types: (empty, filled),
        }
    }
}

fn reserved(bytes: [u8; 8]) -> u64 {
    31 * (u64::from_ne_bytes(bytes) % VALUES) + 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grease_values_are_reserved_and_differ() {
        let (one, other) = (GreaseValues::draw(), GreaseValues::draw());
        assert_ne!(one, other);
        let GreaseValues {
            setting,
            stream_type,
            frame_types,
        } = one;
        let mut all = vec![
            setting.0,
            setting.1,
            stream_type,
            frame_types.0,
            frame_types.1,
        ];
        for value in &all {
            assert_eq!(value % 0x1f, 0x21 % 0x1f);
            assert!(*value >= 0x21 && *value < 1 << 62);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn grease_values_of_a_connection_stay() {
        let grease = Grease::default();
        assert!(grease.0.get().is_none());
        assert_eq!(grease.values(), grease.values());
    }

    #[test]
    fn largest_grease_value_fits_a_varint() {
        assert_eq!(reserved(0u64.to_ne_bytes()), 0x21);
        assert_eq!(octets::varint_len(reserved((VALUES - 1).to_ne_bytes())), 8);
        assert_eq!(reserved(VALUES.to_ne_bytes()), 0x21);
    }
}
