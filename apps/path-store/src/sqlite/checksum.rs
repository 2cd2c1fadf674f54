//! Checksum of the columns of a row.

/// A checksum of columns. Lengths and presence are part of it: no two rows have
/// the same text.
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
