//! Checksum of a row.

/// CRC-32 of columns. It includes their lengths and presence, so that different rows never
/// have the same input.
#[derive(Default)]
pub struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Adds the next column; None for NULL.
    pub fn add(&mut self, column: Option<&[u8]>) {
        let length = column.map_or(u32::MAX, |c| u32::try_from(c.len()).unwrap_or(u32::MAX));
        self.0.update(&length.to_be_bytes());
        self.0.update(column.unwrap_or_default());
    }

    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}
