//! Worker octet of a connection ID: the last one of the server's IDs. It is masked, so that IDs do not
//! show in plain sight that they are of the same worker.
//!
//! The kernel computes the same mask for each packet in a few instructions of classic BPF, which has no
//! cipher: somebody who collects enough IDs of a connection can compute the key, and then learns which
//! worker an ID is of, and which generation of the process if the ID is not encrypted, and no more.

use crate::quic::random;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 12;

/// Length of what a mask is computed from: two words, in bytes.
pub const INPUT_BYTES: usize = 8;

/// Shifts of the mask's computation.
pub const FOLD_SHIFT: u32 = 16;
pub const MASK_SHIFT: u32 = 24;

/// Key of masks, the same in all processes that take over from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerMaskKey {
    /// Summand, and odd factors.
    pub xor: u32,
    pub factors: [u32; 2],
}

impl WorkerMaskKey {
    /// Returns a random key, or `None` if the system has no randomness.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        random::fill(&mut bytes)?;
        Some(Self::from_bytes(bytes))
    }

    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        let [xor, one, other] = words(&bytes);
        Self { xor, factors: [one | 1, other | 1] }
    }

    pub fn to_bytes(self) -> [u8; KEY_BYTES] {
        let [one, other] = self.factors;
        let words = [self.xor, one, other].map(u32::to_be_bytes);
        let mut bytes = [0; KEY_BYTES];
        bytes.iter_mut().zip(words.as_flattened()).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Returns the mask for the bytes in front of the worker octet.
    pub fn mask(self, input: &[u8; INPUT_BYTES]) -> u8 {
        let [first, second] = words(input);
        let [one, other] = self.factors;
        let product = (first ^ self.xor).wrapping_mul(one);
        let folded = product ^ product >> FOLD_SHIFT;
        (folded.wrapping_add(second).wrapping_mul(other) >> MASK_SHIFT) as u8
    }
}

/// Returns as many words as there are.
fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) };
    std::array::from_fn(|at| {
        let word = bytes[4 * at..].first_chunk();
        word.copied().map_or(0, u32::from_be_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_survives_as_bytes() {
        let key = WorkerMaskKey::random().unwrap();
        assert_eq!(WorkerMaskKey::from_bytes(key.to_bytes()), key);
    }

    #[test]
    fn masks_are_spread_evenly() {
        const COUNT: u32 = 1 << 16;
        let key = WorkerMaskKey::from_bytes([0x5a; KEY_BYTES]);
        let mut counts = [0u32; 256];
        for number in 0..COUNT {
            let mut input = [0; INPUT_BYTES];
            input[..4].copy_from_slice(&number.to_be_bytes());
            input[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
            counts[usize::from(key.mask(&input))] += 1;
        }
        assert!(
            counts.iter().all(|count| (COUNT / 512..COUNT / 128).contains(count)),
            "{counts:?}"
        );
    }
}
