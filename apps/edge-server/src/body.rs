//! Bodies of responses, produced piece by piece and never wholly in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Length of the pattern that `/bytes/N` repeats, in bytes. A power of two.
const PATTERN_BYTES: usize = 1 << 16;

/// Memory for pieces of files, in bytes: the most that is read at a time.
pub const SCRATCH_BYTES: usize = 256 << 10;

/// Every byte depends on its position, and neighbouring pages differ.
static PATTERN: [u8; PATTERN_BYTES] = {
    let mut pattern = [0; PATTERN_BYTES];
    let mut at = 0;
    while at < PATTERN_BYTES {
        pattern[at] = (at ^ (at >> 8)) as u8;
        at += 1;
    }
    pattern
};

/// What a response carries.
#[derive(Debug)]
pub enum Body {
    /// The first bytes of a file.
    File {
        file: File,
        length: u64,
    },

    /// A repeated pattern of this length in bytes.
    Pattern {
        length: u64,
    },

    Text(String),
}

impl Body {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } | Self::Pattern { length } => *length,
            Self::Text(text) => text.len() as u64,
        }
    }

    /// The bytes from `offset`, at most `bytes_max` of them, some of them at
    /// least unless `offset` is the end or `bytes_max` is 0. A file's bytes are
    /// read into `scratch`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has become shorter.
    pub fn piece<'a>(
        &'a self,
        offset: u64,
        bytes_max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        let left = usize::try_from(self.length() - offset).unwrap_or(usize::MAX);
        let bytes_max = bytes_max.min(left);
        match self {
            Self::File { file, .. } => {
                let bytes_max = bytes_max.min(scratch.len());
                let count = file.read_at(&mut scratch[..bytes_max], offset)?;
                if count == 0 && bytes_max > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(&scratch[..count])
            }
            Self::Pattern { .. } => {
                let start = (offset % PATTERN_BYTES as u64) as usize;
                let end = (start + bytes_max).min(PATTERN_BYTES);
                Ok(&PATTERN[start..end])
            }
            Self::Text(text) => Ok(&text.as_bytes()[offset as usize..][..bytes_max]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The whole body, taken in pieces of at most `bytes_max`.
    fn read(body: &Body, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut scratch = vec![0; 100];
        let mut whole = Vec::new();
        while (whole.len() as u64) < body.length() {
            let offset = whole.len() as u64;
            whole.extend_from_slice(body.piece(offset, bytes_max, &mut scratch)?);
        }
        Ok(whole)
    }

    #[test]
    fn pieces_make_the_whole_whatever_their_size() {
        let mut file = tempfile::tempfile().unwrap();
        let contents: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&contents).unwrap();
        let file = Body::File { file, length: 1000 };
        let text = Body::Text("gone\n".to_owned());
        for bytes_max in [1, 7, 100, 5000] {
            assert_eq!(read(&file, bytes_max).unwrap(), contents);
            assert_eq!(read(&text, bytes_max).unwrap(), b"gone\n");
        }

        let pattern = Body::Pattern { length: 3 * PATTERN_BYTES as u64 + 5 };
        let whole = read(&pattern, 100_000).unwrap();
        assert_eq!(whole.len() as u64, pattern.length());
        assert_eq!(whole, read(&pattern, 1000).unwrap());
        assert_eq!(whole[..5], whole[3 * PATTERN_BYTES..]);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"short").unwrap();
        let body = Body::File { file, length: 100 };
        assert_eq!(read(&body, 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
