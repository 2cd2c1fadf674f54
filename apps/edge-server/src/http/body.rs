//! Bodies of responses, produced piece by piece and never wholly in memory.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
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

/// Where bytes come from.
#[derive(Debug)]
pub enum Source {
    File(File),

    /// A pattern, repeated without end.
    Pattern,

    Text(Cow<'static, str>),
}

/// What a response carries: some of a source's bytes, and text between them.
#[derive(Debug)]
pub struct Body {
    source: Source,
    parts: Parts,
}

#[derive(Debug)]
enum Parts {
    /// These bytes of the source.
    One(Range<u64>),

    /// In the order of their positions, without gaps.
    Many(Vec<Part>),
}

/// Text, and bytes of the source after it.
#[derive(Debug)]
struct Part {
    /// Its position in the body.
    start: u64,
    text: String,
    range: Range<u64>,
}

impl Body {
    /// Nothing.
    pub fn empty() -> Self {
        Self::text("")
    }

    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let range = 0..text.len() as u64;
        Self::of(Source::Text(text), range)
    }

    /// A range of a source's bytes.
    pub fn of(source: Source, range: Range<u64>) -> Self {
        Self { source, parts: Parts::One(range) }
    }

    /// Ranges of a source's bytes, each after its text, and `end` after them all.
    pub fn in_parts(source: Source, parts: Vec<(String, Range<u64>)>, end: String) -> Self {
        let mut start = 0;
        let mut placed = Vec::with_capacity(parts.len() + 1);
        for (text, range) in parts.into_iter().chain([(end, 0..0)]) {
            let part = Part { start, text, range };
            start = part.end();
            placed.push(part);
        }
        Self { source, parts: Parts::Many(placed) }
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match &self.parts {
            Parts::One(range) => range.end - range.start,
            Parts::Many(parts) => parts.last().map_or(0, Part::end),
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
        let parts = match &self.parts {
            Parts::One(range) => {
                return self.source.piece(range.start + offset..range.end, bytes_max, scratch);
            }
            Parts::Many(parts) => parts,
        };
        let index = parts.partition_point(|part| part.end() <= offset);
        let Some(part) = parts.get(index) else { return Ok(&[]) };
        let offset = offset - part.start;
        let text = part.text.as_bytes();
        match text.get(offset as usize..).filter(|left| !left.is_empty()) {
            Some(left) => Ok(&left[..bytes_max.min(left.len())]),
            None => {
                let start = part.range.start + offset - text.len() as u64;
                self.source.piece(start..part.range.end, bytes_max, scratch)
            }
        }
    }
}

impl Part {
    fn end(&self) -> u64 {
        self.start + self.text.len() as u64 + (self.range.end - self.range.start)
    }
}

impl Source {
    fn piece<'a>(
        &'a self,
        range: Range<u64>,
        bytes_max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        let offset = range.start;
        let left = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
        let bytes_max = bytes_max.min(left);
        match self {
            Self::File(file) => {
                let bytes_max = bytes_max.min(scratch.len());
                let count = file.read_at(&mut scratch[..bytes_max], offset)?;
                if count == 0 && bytes_max > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(&scratch[..count])
            }
            Self::Pattern => {
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
        assert!(body.piece(body.length(), bytes_max, &mut scratch)?.is_empty());
        Ok(whole)
    }

    fn thousand() -> (File, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let contents: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&contents).unwrap();
        (file, contents)
    }

    #[test]
    fn pieces_make_the_whole_whatever_their_size() {
        let (file, contents) = thousand();
        let file = Body::of(Source::File(file), 0..1000);
        let text = Body::text("gone\n");
        for bytes_max in [1, 7, 100, 5000] {
            assert_eq!(read(&file, bytes_max).unwrap(), contents);
            assert_eq!(read(&text, bytes_max).unwrap(), b"gone\n");
        }

        let pattern = Body::of(Source::Pattern, 0..3 * PATTERN_BYTES as u64 + 5);
        let whole = read(&pattern, 100_000).unwrap();
        assert_eq!(whole.len() as u64, pattern.length());
        assert_eq!(whole, read(&pattern, 1000).unwrap());
        assert_eq!(whole[..5], whole[3 * PATTERN_BYTES..]);
        let part = Body::of(Source::Pattern, 1000..70_000);
        assert_eq!(read(&part, 100_000).unwrap(), whole[1000..70_000]);
    }

    #[test]
    fn parts_are_ranges_with_text_between_them() {
        let (file, contents) = thousand();
        let parts = vec![("<a>".to_owned(), 10..14), ("<b>".to_owned(), 500..800)];
        let body = Body::in_parts(Source::File(file), parts, "<end>".to_owned());
        let expected = [b"<a>", &contents[10..14], b"<b>", &contents[500..800], b"<end>"].concat();
        assert_eq!(body.length(), expected.len() as u64);
        for bytes_max in [1, 2, 99, 5000] {
            assert_eq!(read(&body, bytes_max).unwrap(), expected, "{bytes_max}");
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"short").unwrap();
        let body = Body::of(Source::File(file), 0..100);
        assert_eq!(read(&body, 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
