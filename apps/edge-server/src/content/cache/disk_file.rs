//! File of a cached response: a head in JSON, and the body in pieces with checksums.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use std::time::UNIX_EPOCH;

use ring::digest;
use serde::Deserialize;
use serde::Serialize;

use crate::content::cache::entry;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::entry::ReceivedHead;
use crate::content::cache::freshness::ExchangeTimes;
use crate::content::cache::slices::SliceLayout;
use crate::content::cache::vary::SelectingFields;
use crate::http::response::Field;
use crate::http::shared_body::SharedBodyReader;

/// What a file begins with: another version of the program may have another format.
const MAGIC: &[u8; 16] = b"edge cache v2\r\n\0";

/// Length of a file's name: hexadecimal digits of a digest.
pub const NAME_BYTES: usize = 32;

/// Length of a piece of the body, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The longest head, in bytes.
const HEAD_BYTES_MAX: u32 = 4 << 20;

/// Head of a response, as the file has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskHead {
    pub key: String,
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub date: Option<String>,
    pub sent_ms: u64,
    pub received_ms: u64,
    pub selecting: Vec<(String, Option<String>)>,
    pub slices: Option<SliceLayout>,
    pub length: u64,

    /// Of each piece of the body.
    pub checksums: Vec<u32>,
}

/// Pieces of a body that are still to be read.
pub struct DiskPieces {
    file: File,
    left: u64,
    checksums: std::vec::IntoIter<u32>,
}

impl DiskHead {
    /// Returns the head of a response whose whole body the reader has.
    ///
    /// # Errors
    ///
    /// The body is not whole.
    pub fn of(key: &str, response: &CachedResponse, reader: &SharedBodyReader) -> io::Result<Self> {
        let CachedResponse { status, fields, date, freshness, selecting, slices, .. } = response;
        let length = reader.length().ok_or(io::ErrorKind::UnexpectedEof)?;
        let fields = fields.iter().map(|field| (field.name.to_string(), field.value.to_string()));
        let ms = |at: std::time::SystemTime| {
            at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
        };
        Ok(Self {
            key: key.to_owned(),
            status: *status,
            fields: fields.collect(),
            date: date.as_deref().map(str::to_owned),
            sent_ms: ms(freshness.sent),
            received_ms: ms(freshness.received),
            selecting: selecting.to_list(),
            slices: *slices,
            length,
            checksums: checksums(reader, length)?,
        })
    }

    /// Returns the name of its file.
    pub fn file_name(&self) -> String {
        let text = format!("{}\n{:?}", self.key, self.selecting);
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        digest.as_ref()[..NAME_BYTES / 2].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn selecting(&self) -> SelectingFields {
        SelectingFields::from_list(&self.selecting)
    }

    pub fn tags(&self) -> Vec<String> {
        entry::tags(&self.response_fields()).map(str::to_owned).collect()
    }

    /// Returns the head as it was received.
    pub fn received(&self) -> ReceivedHead {
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        let times = ExchangeTimes { sent: at(self.sent_ms), received: at(self.received_ms) };
        let date = self.date.as_deref().map(Into::into);
        ReceivedHead {
            status: self.status,
            fields: self.response_fields(),
            date,
            times,
            lacks_rules: false,
        }
    }

    fn response_fields(&self) -> Vec<Field> {
        let fields = self.fields.iter();
        fields.map(|(name, value)| Field::new(name.clone(), value.clone())).collect()
    }
}

impl DiskPieces {
    /// Reads the next piece, `None` at the end.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not what was written.
    pub fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(checksum) = self.checksums.next() else {
            return Ok(None);
        };
        let mut piece = vec![0; self.left.min(PIECE_BYTES as u64) as usize];
        self.file.read_exact(&mut piece)?;
        self.left -= piece.len() as u64;
        match crc32fast::hash(&piece) == checksum {
            true => Ok(Some(piece)),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Writes a file. Returns its length.
///
/// # Errors
///
/// The disk does not take it, or the body is not whole.
pub fn write(path: &Path, head: &DiskHead, reader: &SharedBodyReader) -> io::Result<u64> {
    let text = serde_json::to_vec(head)?;
    // Access rules may keep others from it.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    file.write_all(MAGIC)?;
    file.write_all(&(text.len() as u32).to_le_bytes())?;
    file.write_all(&crc32fast::hash(&text).to_le_bytes())?;
    file.write_all(&text)?;
    let mut written = 0;
    while written < head.length {
        let bytes = block(reader, written)?;
        file.write_all(&bytes)?;
        written += bytes.len() as u64;
    }
    file.flush()?;
    Ok((MAGIC.len() + 8 + text.len()) as u64 + head.length)
}

/// Reads the head of a file, and returns the pieces that follow it.
///
/// # Errors
///
/// It cannot be read, or is not what was written.
pub fn read_head(path: &Path) -> io::Result<(DiskHead, DiskPieces)> {
    let mut file = File::open(path)?;
    let mut start = [0; MAGIC.len() + 8];
    file.read_exact(&mut start)?;
    let (magic, numbers) = start.split_at(MAGIC.len());
    let number = |at: usize| {
        u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]])
    };
    let length = number(0);
    if magic != MAGIC || length > HEAD_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text)?;
    if crc32fast::hash(&text) != number(4) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let head: DiskHead = serde_json::from_slice(&text)?;
    let checksums = head.checksums.clone().into_iter();
    let is_whole = file.metadata()?.len() == (start.len() + text.len()) as u64 + head.length;
    let pieces = head.length.div_ceil(PIECE_BYTES as u64) == checksums.len() as u64;
    if !is_whole || !pieces {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let left = head.length;
    Ok((head, DiskPieces { file, left, checksums }))
}

fn checksums(reader: &SharedBodyReader, length: u64) -> io::Result<Vec<u32>> {
    let mut checksums = Vec::new();
    let (mut hasher, mut at) = (crc32fast::Hasher::new(), 0);
    while at < length {
        let bytes = block(reader, at)?;
        hasher.update(&bytes);
        at += bytes.len() as u64;
        // Pieces are whole blocks.
        if at % PIECE_BYTES as u64 == 0 || at == length {
            checksums.push(std::mem::take(&mut hasher).finalize());
        }
    }
    Ok(checksums)
}

fn block(reader: &SharedBodyReader, at: u64) -> io::Result<bytes::Bytes> {
    let bytes = reader.from(at, usize::MAX)?;
    bytes.filter(|bytes| !bytes.is_empty()).ok_or(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use crate::content::cache::rules::CacheSettings;
    use crate::http::shared_body::SharedBody;

    fn response(body: &[u8]) -> CachedResponse {
        let (shared, writer) = SharedBody::new(None, &Arc::default());
        writer.push(body);
        assert!(writer.finish());
        let times = ExchangeTimes { sent: UNIX_EPOCH, received: UNIX_EPOCH };
        let fields = vec![Field::new("etag", "\"a\""), Field::new("cache-tag", "t, u")];
        let head =
            ReceivedHead { status: 200, fields, date: Some("d".into()), times, lacks_rules: false };
        CachedResponse::new(head, SelectingFields::default(), shared, &CacheSettings::default())
    }

    #[test]
    fn file_gives_back_what_was_written_and_no_torn_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1] {
            let body: Vec<_> = (0..length).map(|at| (at % 249) as u8).collect();
            let response = response(&body);
            let reader = response.body.reader().unwrap();
            let head = DiskHead::of("a/b", &response, &reader).unwrap();
            let bytes = write(&path, &head, &reader).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
            let (read, mut pieces) = read_head(&path).unwrap();
            assert_eq!((read.key.as_str(), read.tags()), ("a/b", vec!["t".into(), "u".to_owned()]));
            let mut whole = Vec::new();
            while let Some(piece) = pieces.next().unwrap() {
                whole.extend(piece);
            }
            assert!(whole == body, "{length}");
            let good = std::fs::read(&path).unwrap();
            for at in [3, 20, 40, good.len() - 1] {
                let mut torn = good.clone();
                torn[at] ^= 1;
                std::fs::write(&path, &torn).unwrap();
                let read = read_head(&path).and_then(|(_, mut pieces)| {
                    while pieces.next()?.is_some() {}
                    Ok(())
                });
                assert!(read.is_err(), "{length} {at}");
            }
            std::fs::write(&path, &good[..good.len() - 1]).unwrap();
            assert!(read_head(&path).is_err(), "{length}");
        }
    }
}
