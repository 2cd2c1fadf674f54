//! Encoders of content codings: a file as it is read, into memory.

use std::io;
use std::io::Read;
use std::io::Write;

use brotli::CompressorWriter;
use flate2::write::GzEncoder;
use flate2::Compression;

use crate::http::content_coding::Coding;

/// Levels at which text takes little more space than at the highest, and a fraction of the time.
const BROTLI_QUALITY: u32 = 5;
const ZSTD_LEVEL: i32 = 9;
const GZIP_LEVEL: u32 = 6;

/// Window of Brotli, its logarithm: 1 MiB. With 4 MiB the encoder takes three times as much memory, and
/// web pages are no smaller. That of zstd follows from level and length, and at this level is less than
/// the 8 MiB that RFC 9659 allows.
const BROTLI_WINDOW_LOG: u32 = 20;

/// Bytes that an encoder gets, or gives, at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Result of an encoder, of so many bytes at most. What is beyond is left out, and noticed: an error
/// in the midst of an encoder is not in every library's mind.
struct BoundedOutput {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_exceeded: bool,
}

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_exceeded |= bytes.len() > self.bytes_max - self.bytes.len();
        if !self.is_exceeded {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encodes `length` bytes of a source, or returns `None` if the result has more than `bytes_max`.
///
/// # Errors
///
/// The source cannot be read, or has fewer or more bytes.
pub fn encode(
    source: impl Read,
    length: u64,
    coding: Coding,
    bytes_max: usize,
) -> io::Result<Option<Vec<u8>>> {
    let output = BoundedOutput { bytes: Vec::new(), bytes_max, is_exceeded: false };
    let output = match coding {
        Coding::Brotli => {
            let mut encoder =
                CompressorWriter::new(output, CHUNK_BYTES, BROTLI_QUALITY, BROTLI_WINDOW_LOG);
            copy(source, length, &mut encoder, |encoder| encoder.get_ref().is_exceeded)?;
            encoder.into_inner()
        }
        Coding::Zstd => {
            let mut encoder = zstd::Encoder::new(output, ZSTD_LEVEL)?;
            encoder.set_pledged_src_size(Some(length))?;
            let is_exceeded =
                copy(source, length, &mut encoder, |encoder| encoder.get_ref().is_exceeded)?;
            // It would miss what it was promised.
            if is_exceeded {
                return Ok(None);
            }
            encoder.finish()?
        }
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(output, Compression::new(GZIP_LEVEL));
            copy(source, length, &mut encoder, |encoder| encoder.get_ref().is_exceeded)?;
            encoder.finish()?
        }
    };
    Ok((!output.is_exceeded).then_some(output.bytes))
}

/// Gives an encoder the whole source, unless the output is exceeded before. Returns whether it is.
fn copy<E: Write>(
    source: impl Read,
    length: u64,
    encoder: &mut E,
    is_exceeded: impl Fn(&E) -> bool,
) -> io::Result<bool> {
    // One byte more would tell that it has grown.
    let mut source = source.take(length + 1);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = length;
    while !is_exceeded(encoder) {
        let count = source.read(&mut chunk)?;
        if count == 0 && left == 0 {
            return Ok(is_exceeded(encoder));
        }
        left = match left.checked_sub(count as u64) {
            Some(left) if count > 0 => left,
            _ => return Err(io::Error::other("the length changed")),
        };
        encoder.write_all(&chunk[..count])?;
    }
    Ok(true)
}

/// Returns what was encoded.
#[cfg(test)]
pub fn decode(bytes: &[u8], coding: Coding) -> Vec<u8> {
    let mut decoded = Vec::new();
    match coding {
        Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut decoded),
        Coding::Zstd => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut decoded),
        Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut decoded),
    }
    .unwrap();
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns text that is worth it, and bytes that are not.
    fn contents(length: usize) -> [Vec<u8>; 2] {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let text = (0..length).map(|at| b"the server"[at % 10]).collect();
        [text, (0..length).map(|_| random()).collect()]
    }

    #[test]
    fn decoded_result_is_the_source() {
        for length in [0, 1, 1024, CHUNK_BYTES, CHUNK_BYTES + 1, 1 << 20] {
            for source in contents(length) {
                for coding in Coding::ALL {
                    let encode =
                        || encode(&source[..], length as u64, coding, 2 << 20).unwrap().unwrap();
                    let encoded = encode();
                    assert_eq!(encode(), encoded, "{coding:?}: the same each time");
                    assert_eq!(decode(&encoded, coding), source, "{coding:?} {length}");
                }
            }
        }
    }

    #[test]
    fn result_of_too_many_bytes_is_none() {
        let [text, random] = contents(1 << 20);
        for coding in Coding::ALL {
            let encode = |source: &[u8], bytes_max| {
                encode(source, source.len() as u64, coding, bytes_max).unwrap()
            };
            let length = encode(&text, 1 << 20).unwrap().len();
            assert!(length < 10_000, "{coding:?}: {length}");
            assert_eq!(encode(&text, length).map(|bytes| bytes.len()), Some(length), "{coding:?}");
            assert_eq!(encode(&text, length - 1), None, "{coding:?}");
            assert_eq!(encode(&random, 1 << 20), None, "{coding:?}");
        }
    }

    #[test]
    fn source_of_another_length_is_an_error() {
        let [text, _] = contents(100_000);
        for coding in Coding::ALL {
            for length in [0, 99_999, 100_001, 200_000] {
                let encoded = encode(&text[..], length, coding, 1 << 20);
                assert!(encoded.is_err(), "{coding:?} {length}");
            }
        }
    }
}
