//! Expected SHA-256 of a body.

use std::str::FromStr;

use ring::digest::Digest;
use ring::digest::SHA256_OUTPUT_LEN;

/// The SHA-256 that a body must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256([u8; SHA256_OUTPUT_LEN]);

impl Sha256 {
    pub fn matches(&self, digest: &Digest) -> bool {
        self.0 == digest.as_ref()
    }
}

impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        hex::decode_to_slice(text, &mut bytes)
            .map_err(|_| format!("a SHA-256 has {} hexadecimal digits", 2 * SHA256_OUTPUT_LEN))?;
        Ok(Self(bytes))
    }
}
