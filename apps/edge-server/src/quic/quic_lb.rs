//! QUIC-LB encoding of a connection ID (draft-ietf-quic-load-balancers-21): its first octet, and the
//! block of server ID and nonce, in the clear or encrypted with AES-128-ECB.
//!
//! Other parts of a connection ID are not of this module.

use boring::symm::Cipher;
use boring::symm::Crypter;
use boring::symm::Mode;

use crate::config::quic_lb::ServerId;

/// Most octets of a block.
const BLOCK_BYTES_MAX: usize = 19;

/// Length of a key, and of what the cipher takes at a time, in bytes.
pub const KEY_BYTES: usize = 16;
const CIPHER_BYTES: usize = 16;

/// Passes of the general algorithm.
const PASSES: u8 = 4;

/// Place of the configuration's ID in the first octet, above the length of the connection ID.
const CONFIG_ID_SHIFT: u32 = 5;
pub const LENGTH_MASK: u8 = 0x1f;

/// Configuration's ID of connection IDs that name no server.
pub const UNROUTABLE: u8 = 0b111;

/// Returns the first octet of a connection ID of so many bytes.
pub const fn first_octet(config_id: u8, id_bytes: usize) -> u8 {
    config_id << CONFIG_ID_SHIFT | (id_bytes as u8 - 1) & LENGTH_MASK
}

/// Returns the configuration's ID that a first octet names.
pub const fn config_id(first_octet: u8) -> u8 {
    first_octet >> CONFIG_ID_SHIFT
}

/// Returns how many bytes a first octet says that its connection ID has.
pub const fn described_bytes(first_octet: u8) -> usize {
    1 + (first_octet & LENGTH_MASK) as usize
}

/// Encoding of one configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct QuicLbEncoding {
    pub config_id: u8,

    /// Server ID in IDs that are encoded; all of one configuration have its length.
    pub server_id: ServerId,
    pub nonce_bytes: usize,
    pub key: Option<[u8; KEY_BYTES]>,
}

/// Block of a connection ID in the clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub server_id: ServerId,
    pub nonce: Vec<u8>,
}

impl QuicLbEncoding {
    /// Returns the length of the block.
    fn block_bytes(&self) -> usize {
        self.server_id.as_bytes().len() + self.nonce_bytes
    }

    /// Writes the first octet and the block of an ID, with a nonce of the configuration's length. Returns
    /// `None` if the ID has no room for them.
    pub fn encode(&self, nonce: &[u8], id: &mut [u8]) -> Option<()> {
        let id_bytes = id.len();
        let (first, rest) = id.split_first_mut()?;
        let block = rest.get_mut(..self.block_bytes())?;
        let (server_id, of_nonce) = block.split_at_mut(self.server_id.as_bytes().len());
        server_id.copy_from_slice(self.server_id.as_bytes());
        of_nonce.copy_from_slice(nonce.get(..self.nonce_bytes)?);
        if let Some(key) = &self.key {
            match block.first_chunk_mut().filter(|_| self.block_bytes() == CIPHER_BYTES) {
                Some(block) => *block = BlockCipher::new(key, Mode::Encrypt)?.apply(block)?,
                None => four_passes(key, block, 1..=PASSES)?,
            }
        }
        *first = first_octet(self.config_id, id_bytes);
        Some(())
    }

    /// Returns the block of an ID in the clear, or `None` if the ID is of another configuration or too
    /// short.
    pub fn decode(&self, id: &[u8]) -> Option<Block> {
        let (first, rest) = id.split_first()?;
        if config_id(*first) != self.config_id {
            return None;
        }
        let mut buffer = [0; BLOCK_BYTES_MAX];
        let block = buffer.get_mut(..self.block_bytes())?;
        block.copy_from_slice(rest.get(..self.block_bytes())?);
        if let Some(key) = &self.key {
            match block.first_chunk_mut().filter(|_| self.block_bytes() == CIPHER_BYTES) {
                Some(block) => *block = BlockCipher::new(key, Mode::Decrypt)?.apply(block)?,
                None => four_passes(key, block, (1..=PASSES).rev())?,
            }
        }
        let (server_id, nonce) = block.split_at(self.server_id.as_bytes().len());
        Some(Block { server_id: ServerId::from_bytes(server_id)?, nonce: nonce.to_vec() })
    }
}

/// Encrypts a block in place, or decrypts it if the passes are in reverse order: a Feistel network, which
/// splits a middle octet between its halves.
fn four_passes(
    key: &[u8; KEY_BYTES],
    block: &mut [u8],
    passes: impl Iterator<Item = u8>,
) -> Option<()> {
    let is_odd = block.len() % 2 == 1;
    let half_bytes = block.len().div_ceil(2);
    let (mut left, mut right) = ([0; CIPHER_BYTES], [0; CIPHER_BYTES]);
    left[..half_bytes].copy_from_slice(&block[..half_bytes]);
    right[..half_bytes].copy_from_slice(&block[block.len() - half_bytes..]);
    let clear_middle = |left: &mut [u8; CIPHER_BYTES], right: &mut [u8; CIPHER_BYTES]| {
        if is_odd {
            left[half_bytes - 1] &= 0xf0;
            right[0] &= 0x0f;
        }
    };
    clear_middle(&mut left, &mut right);
    let mut cipher = BlockCipher::new(key, Mode::Encrypt)?;
    for pass in passes {
        let (from, into) = if pass % 2 == 1 { (&left, &mut right) } else { (&right, &mut left) };
        let mut input = *from;
        input[CIPHER_BYTES - 2] = block.len() as u8;
        input[CIPHER_BYTES - 1] = pass;
        let output = cipher.apply(&input)?;
        into.iter_mut().zip(output).take(half_bytes).for_each(|(octet, mask)| *octet ^= mask);
        clear_middle(&mut left, &mut right);
    }
    let end = block.len() - half_bytes;
    block[end..].copy_from_slice(&right[..half_bytes]);
    block[..end].copy_from_slice(&left[..end]);
    if is_odd {
        block[end] |= left[end];
    }
    Some(())
}

/// AES-128-ECB, one block at a time.
struct BlockCipher(Crypter);

impl BlockCipher {
    fn new(key: &[u8; KEY_BYTES], mode: Mode) -> Option<Self> {
        let mut crypter = Crypter::new(Cipher::aes_128_ecb(), mode, key, None).ok()?;
        crypter.pad(false);
        Some(Self(crypter))
    }

    fn apply(&mut self, block: &[u8; CIPHER_BYTES]) -> Option<[u8; CIPHER_BYTES]> {
        let mut output = [0; 2 * CIPHER_BYTES];
        self.0.update(block, &mut output).ok()?;
        output.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::Rng;
    use rand_pcg::rand_core::SeedableRng;
    use rand_pcg::Pcg64;

    fn octets(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn encoding(config_id: u8, server_id: &str, nonce_bytes: usize, key: &str) -> QuicLbEncoding {
        let key = octets(key).try_into().ok();
        QuicLbEncoding { config_id, server_id: server_id.parse().unwrap(), nonce_bytes, key }
    }

    // Appendix "Load Balancer Test Vectors", and the example of four passes. Two rows are printed with
    // slips: the second has an odd number of digits (a zero of the nonce and the first octet's length are
    // misplaced), and the first octet of the last names configuration 0.
    #[test]
    fn connection_ids_match_the_test_vectors() {
        const KEY: &str = "8f95f09245765f80256934e50c66207f";
        const EXAMPLE_KEY: &str = "fdf726a9893ec05c0632d3956680baf0";
        for (key, server_id, nonce, id) in [
            ("", "c4605e", "4504cc4f", "07c4605e4504cc4f"),
            ("", "350d28b420", "03487d970b", "2a350d28b42003487d970b"),
            (KEY, "ed793a", "ee080dbf", "0720b1d07b359d3c"),
            (KEY, "ed793a51d49b8f5fab65", "ee080dbf48", "2fcc381bc74cb4fbad2823a3d1f8fed2"),
            (KEY, "ed793a51d49b8f5f", "ee080dbf48c0d1e5", "504dd2d05a7b0de9b2b9907afb5ecf8cc3"),
            (
                KEY,
                "ed793a51d49b8f5fab",
                "ee080dbf48c0d1e55d",
                "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc",
            ),
            (EXAMPLE_KEY, "31441a", "9c69c275", "0767947d29be054a"),
        ] {
            let (nonce, id) = (octets(nonce), octets(id));
            let encoding = encoding(config_id(id[0]), server_id, nonce.len(), key);
            let mut encoded = vec![0; id.len()];
            encoding.encode(&nonce, &mut encoded).unwrap();
            assert_eq!(encoded, id, "{server_id}");
            let server_id = server_id.parse().unwrap();
            assert_eq!(encoding.decode(&id), Some(Block { server_id, nonce }));
            assert_eq!(described_bytes(id[0]), id.len());
        }
    }

    #[test]
    fn block_of_every_length_is_decoded() {
        let mut random = Pcg64::seed_from_u64(7);
        let mut fill =
            |count: usize| -> Vec<u8> { (0..count).map(|_| random.next_u64() as u8).collect() };
        for server_id_bytes in 1..=ServerId::BYTES_MAX {
            for nonce_bytes in 4..=BLOCK_BYTES_MAX - server_id_bytes {
                for has_key in [false, true] {
                    let config_id = (server_id_bytes % 7) as u8;
                    let server_id = ServerId::from_bytes(&fill(server_id_bytes)).unwrap();
                    let key = has_key.then(|| fill(KEY_BYTES).try_into().unwrap());
                    let encoding = QuicLbEncoding { config_id, server_id, nonce_bytes, key };
                    let (nonce, mut id) = (fill(nonce_bytes), fill(20));
                    let end = id[1 + server_id_bytes + nonce_bytes..].to_vec();
                    encoding.encode(&nonce, &mut id).unwrap();
                    let shown = format!("{server_id_bytes} {nonce_bytes} {id:02x?}");
                    assert!(id.ends_with(&end), "{shown}");
                    let block = Block { server_id: encoding.server_id, nonce };
                    assert_eq!(encoding.decode(&id), Some(block), "{shown}");
                    let hidden = id[1..].starts_with(encoding.server_id.as_bytes());
                    assert!(server_id_bytes < 4 || hidden != has_key, "{shown}");
                }
            }
        }
    }

    #[test]
    fn id_of_other_configuration_or_length_is_refused() {
        for key in ["", "8f95f09245765f80256934e50c66207f"] {
            let encoding = encoding(3, "0a02", 9, key);
            let mut id = [0; 12];
            encoding.encode(&[5; 9], &mut id).unwrap();
            assert!(encoding.decode(&id).is_some());
            for length in 0..id.len() {
                assert_eq!(encoding.decode(&id[..length]), None, "{length}");
            }
            for other in (0..8).filter(|config_id| *config_id != 3) {
                id[0] = first_octet(other, id.len());
                assert_eq!(encoding.decode(&id), None, "{other}");
            }
            assert_eq!(encoding.encode(&[5; 9], &mut id[..11]), None);
        }
    }
}
