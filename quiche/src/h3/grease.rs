//! GREASE of a connection: its reserved values (RFC 9114, 7.2.8), drawn
//! together, as each draw costs more than coding and sending the value.

use crate::rand;

/// Number of reserved values: 31 * N + 33 fits a variable-length integer.
const VALUES: u64 = 148_764_065_110_560_899;

/// The reserved values of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grease {
    /// A setting and its value.
    pub setting: (u64, u64),

    pub stream_type: u64,

    /// Type of an empty frame, and of one with content.
    pub frame_types: (u64, u64),
}

impl Grease {
    /// Draws new values.
    pub fn draw() -> Self {
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
        let (one, other) = (Grease::draw(), Grease::draw());
        assert_ne!(one, other);
        let Grease {
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
    fn largest_grease_value_fits_a_varint() {
        assert_eq!(reserved(0u64.to_ne_bytes()), 0x21);
        assert_eq!(octets::varint_len(reserved((VALUES - 1).to_ne_bytes())), 8);
        assert_eq!(reserved(VALUES.to_ne_bytes()), 0x21);
    }
}
