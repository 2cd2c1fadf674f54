//! Response bodies, produced in chunks and never held in memory as a whole.

use std::fs::File;
use std::io;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::io::ReadWriteFlags;

use crate::http::body_stream::StreamReader;
use crate::http::body_stream::StreamWait;
use crate::http::field::Field;
use crate::http::open_file::OpenFile;
use crate::http::shared_body::SharedBodyReader;
use crate::http::sliced_body::SlicedReader;

/// Length of the pattern that `/bytes/N` repeats, in bytes. It must be a power of two.
const PATTERN_BYTES: usize = 1 << 16;

/// Largest read from a file, in bytes.
const FILE_CHUNK_BYTES_MAX: usize = 64 << 10;

/// Every byte depends on its position and neighbouring pages differ, so that a client detects
/// misplaced data.
static PATTERN: [u8; PATTERN_BYTES] = {
    let mut pattern = [0; PATTERN_BYTES];
    let mut at = 0;
    while at < PATTERN_BYTES {
        pattern[at] = (at ^ (at >> 8)) as u8;
        at += 1;
    }
    pattern
};

/// Source of a body's bytes.
#[derive(Debug)]
pub enum BodySource {
    File(Arc<OpenFile>),

    /// A pattern, repeated without end.
    Pattern,

    Memory(Bytes),

    /// Bytes that come while the body is sent. They are taken from the front.
    Stream(StreamReader),

    /// Bytes that are kept for others, too, and may still come.
    Shared(SharedBodyReader),

    /// Bytes that are kept so in slices.
    Sliced(SlicedReader),
}

/// Body of a response: ranges of a source, with text between them in a multipart body.
#[derive(Debug)]
pub struct Body {
    source: BodySource,
    parts: Parts,

    /// The chunk read from disk that is being sent.
    fetched: Option<FetchedChunk>,
}

/// Part of a body's bytes.
#[derive(Debug)]
pub enum Chunk {
    Ready(Bytes),

    /// The bytes are not in memory.
    Pending(PendingChunk),
}

/// Bytes of a body that the caller has to wait for.
#[derive(Debug)]
pub enum PendingChunk {
    /// The caller reads the range on another thread and calls [`Body::supply()`].
    File(FileRange),

    /// They will be in the stream.
    Stream(StreamWait),
}

/// Range of a file. Reading it may block on the disk.
#[derive(Debug)]
pub struct FileRange {
    file: Arc<OpenFile>,
    offset: u64,
    bytes_max: usize,
}

#[derive(Debug)]
struct FetchedChunk {
    /// Offset in the body.
    start: u64,
    bytes: Bytes,
}

#[derive(Debug)]
enum Parts {
    One(Range<u64>),

    /// In ascending order of `start`, without gaps.
    Many(Vec<Part>),
}

/// Text, followed by a range of the source.
#[derive(Debug)]
struct Part {
    /// Offset in the body.
    start: u64,
    text: Bytes,
    range: Range<u64>,
}

impl Body {
    /// Returns a body without content.
    pub fn empty() -> Self {
        Self::text("")
    }

    /// Returns a body of `text`.
    pub fn text(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        let range = 0..text.len() as u64;
        Self::of(BodySource::Memory(text), range)
    }

    /// Returns a body of one range of `source`.
    pub fn of(source: BodySource, range: Range<u64>) -> Self {
        Self { source, parts: Parts::One(range), fetched: None }
    }

    /// Returns a body of all that comes from a stream.
    pub fn of_stream(stream: StreamReader) -> Self {
        Self::of(BodySource::Stream(stream), 0..u64::MAX)
    }

    /// Returns a body of all that a source has, whose end may not be known.
    pub fn whole(source: BodySource) -> Self {
        let length = source.length().unwrap_or(u64::MAX);
        Self::of(source, 0..length)
    }

    /// Returns a body of several ranges of `source`, each preceded by its text; `end` follows the
    /// last.
    pub fn in_parts(source: BodySource, parts: Vec<(String, Range<u64>)>, end: String) -> Self {
        let mut start = 0;
        let mut placed = Vec::with_capacity(parts.len() + 1);
        for (text, range) in parts.into_iter().chain([(end, 0..0)]) {
            let part = Part { start, text: text.into(), range };
            start = part.end();
            placed.push(part);
        }
        Self { source, parts: Parts::Many(placed), fetched: None }
    }

    /// Returns the length in bytes, if it is known. That of a stream may be known at its end only.
    pub fn length(&self) -> Option<u64> {
        match (&self.source, &self.parts) {
            (BodySource::Stream(stream), _) => stream.length(),
            (BodySource::Shared(reader), Parts::One(Range { end: u64::MAX, .. })) => {
                reader.length()
            }
            (_, Parts::One(range)) => Some(range.end - range.start),
            (_, Parts::Many(parts)) => Some(parts.last().map_or(0, Part::end)),
        }
    }

    /// Returns at most `bytes_max` bytes from `offset`, and at least one unless `offset` is the
    /// end or `bytes_max` is 0. Reads from a file only if that does not block.
    ///
    /// # Errors
    ///
    /// The file cannot be read or was truncated.
    pub fn chunk(&self, offset: u64, bytes_max: usize) -> io::Result<Chunk> {
        if let Some(bytes) = self.fetched.as_ref().and_then(|fetched| fetched.from(offset)) {
            return Ok(Chunk::Ready(first(bytes, bytes_max)));
        }
        let parts = match &self.parts {
            Parts::One(range) => {
                return self.source.chunk(range.start + offset..range.end, bytes_max);
            }
            Parts::Many(parts) => parts,
        };
        let index = parts.partition_point(|part| part.end() <= offset);
        let Some(part) = parts.get(index) else { return Ok(Chunk::Ready(Bytes::new())) };
        let offset = offset - part.start;
        match offset.checked_sub(part.text.len() as u64) {
            None => Ok(Chunk::Ready(first(part.text.slice(offset as usize..), bytes_max))),
            Some(offset) => self.source.chunk(part.range.start + offset..part.range.end, bytes_max),
        }
    }

    /// Returns how many bytes of a stream are there.
    pub fn queued_bytes(&self) -> u64 {
        match &self.source {
            BodySource::Stream(stream) => stream.queued_bytes(),
            BodySource::Shared(reader) => reader.queued_bytes(),
            BodySource::Sliced(reader) => reader.queued_bytes(),
            _ => 0,
        }
    }

    /// Returns the fields that follow the body, at its end.
    pub fn trailers(&self) -> Vec<Field> {
        match &self.source {
            BodySource::Stream(stream) => stream.trailers(),
            _ => Vec::new(),
        }
    }

    /// Returns whether there are any.
    pub fn has_trailers(&self) -> bool {
        matches!(&self.source, BodySource::Stream(stream) if stream.has_trailers())
    }

    /// Returns the length of the chunk that was read from disk, or of what may be queued.
    pub fn fetched_bytes(&self) -> u64 {
        match &self.source {
            BodySource::Stream(stream) => stream.kept_bytes(),
            _ => self.fetched.as_ref().map_or(0, |fetched| fetched.bytes.len() as u64),
        }
    }

    /// Keeps the bytes that were read from disk for `offset`.
    pub fn supply(&mut self, offset: u64, bytes: Bytes) {
        self.fetched = Some(FetchedChunk { start: offset, bytes });
    }

    /// Frees the fetched chunk if it ends before `offset`, and what is queued before that.
    pub fn release(&mut self, offset: u64) {
        match (&self.source, &self.parts) {
            (BodySource::Stream(stream), _) => stream.release(offset),
            (BodySource::Shared(reader), Parts::One(range)) => reader.release(range.start + offset),
            (BodySource::Sliced(reader), Parts::One(range)) => reader.release(range.start + offset),
            _ => (),
        }
        self.fetched.take_if(|fetched| fetched.from(offset).is_none());
    }

    /// Reads the whole body in chunks of at most `bytes_max`.
    #[cfg(test)]
    pub fn read(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while self.length() != Some(whole.len() as u64) {
            let offset = whole.len() as u64;
            match self.chunk(offset, bytes_max)? {
                Chunk::Ready(bytes) => whole.extend_from_slice(&bytes),
                Chunk::Pending(PendingChunk::File(range)) => whole.extend(range.read()?),
                Chunk::Pending(PendingChunk::Stream(_)) => std::thread::yield_now(),
            }
        }
        Ok(whole)
    }
}

impl FetchedChunk {
    /// Returns the bytes from `offset` of the body, if this chunk contains them.
    fn from(&self, offset: u64) -> Option<Bytes> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (skip < self.bytes.len()).then(|| self.bytes.slice(skip..))
    }
}

impl FileRange {
    /// Reads at least one byte. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// The file cannot be read or was truncated.
    pub fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.bytes_max];
        let count = self.file.read_at(&mut bytes, self.offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(count);
        Ok(bytes.into())
    }
}

impl Part {
    fn end(&self) -> u64 {
        self.start + self.text.len() as u64 + (self.range.end - self.range.start)
    }
}

impl BodySource {
    /// Returns the length of what is kept for others, too, if it is known by now.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Shared(reader) => reader.length(),
            Self::Sliced(reader) => Some(reader.length()),
            Self::Memory(text) => Some(text.len() as u64),
            Self::File(_) | Self::Pattern | Self::Stream(_) => None,
        }
    }

    /// Returns at most `bytes_max` bytes of a range. Reads from a file only if that does not block.
    ///
    /// # Errors
    ///
    /// The file cannot be read or was truncated.
    pub fn chunk(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Chunk> {
        let offset = range.start;
        let left = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
        let bytes_max = bytes_max.min(left);
        match self {
            Self::File(_) if bytes_max == 0 => Ok(Chunk::Ready(Bytes::new())),
            Self::File(file) => {
                let bytes_max = bytes_max.min(FILE_CHUNK_BYTES_MAX);
                let read = match read_cached(file, offset, bytes_max) {
                    Ok(bytes) if bytes.is_empty() => {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    Ok(bytes) => Chunk::Ready(bytes),
                    // Not in memory, or neither file system nor kernel can tell.
                    Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => {
                        let range = FileRange { file: Arc::clone(file), offset, bytes_max };
                        Chunk::Pending(PendingChunk::File(range))
                    }
                    Err(e) => return Err(e.into()),
                };
                Ok(read)
            }
            Self::Pattern => {
                let start = (offset % PATTERN_BYTES as u64) as usize;
                let end = (start + bytes_max).min(PATTERN_BYTES);
                Ok(Chunk::Ready(Bytes::from_static(&PATTERN[start..end])))
            }
            Self::Memory(text) => Ok(Chunk::Ready(first(text.slice(offset as usize..), bytes_max))),
            Self::Stream(stream) => Ok(match stream.from(offset)? {
                Some(bytes) => Chunk::Ready(first(bytes, bytes_max)),
                None => Chunk::Pending(PendingChunk::Stream(stream.wait(offset))),
            }),
            Self::Shared(_) if bytes_max == 0 => Ok(Chunk::Ready(Bytes::new())),
            Self::Shared(reader) => Ok(match reader.from(offset, bytes_max)? {
                Some(bytes) => Chunk::Ready(bytes),
                None => Chunk::Pending(PendingChunk::Stream(reader.wait(offset))),
            }),
            Self::Sliced(_) if bytes_max == 0 => Ok(Chunk::Ready(Bytes::new())),
            Self::Sliced(reader) => Ok(match reader.from(range, bytes_max)? {
                Some(bytes) => Chunk::Ready(bytes),
                None => Chunk::Pending(PendingChunk::Stream(reader.wait(offset))),
            }),
        }
    }
}

/// Reads from the page cache, without blocking.
fn read_cached(file: &File, offset: u64, bytes_max: usize) -> Result<Bytes, Errno> {
    let mut bytes = vec![0; bytes_max];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let count = rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT)?;
    bytes.truncate(count);
    Ok(bytes.into())
}

/// Returns the first `bytes_max` bytes at most.
fn first(mut bytes: Bytes, bytes_max: usize) -> Bytes {
    bytes.truncate(bytes_max);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn thousand() -> (Arc<OpenFile>, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let contents: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&contents).unwrap();
        (Arc::new(file.into()), contents)
    }

    #[test]
    fn chunks_of_any_size_concatenate_to_whole_body() {
        let (file, contents) = thousand();
        let file = Body::of(BodySource::File(file), 0..1000);
        let text = Body::text("gone\n");
        for bytes_max in [1, 7, 100, 5000] {
            assert_eq!(file.read(bytes_max).unwrap(), contents);
            assert_eq!(text.read(bytes_max).unwrap(), b"gone\n");
        }

        let pattern = Body::of(BodySource::Pattern, 0..3 * PATTERN_BYTES as u64 + 5);
        let whole = pattern.read(100_000).unwrap();
        assert_eq!(Some(whole.len() as u64), pattern.length());
        assert_eq!(whole, pattern.read(1000).unwrap());
        assert_eq!(whole[..5], whole[3 * PATTERN_BYTES..]);
        let part = Body::of(BodySource::Pattern, 1000..70_000);
        assert_eq!(part.read(100_000).unwrap(), whole[1000..70_000]);
    }

    #[test]
    fn multipart_body_has_text_between_ranges() {
        let (file, contents) = thousand();
        let parts = vec![("<a>".to_owned(), 10..14), ("<b>".to_owned(), 500..800)];
        let body = Body::in_parts(BodySource::File(file), parts, "<end>".to_owned());
        let expected = [b"<a>", &contents[10..14], b"<b>", &contents[500..800], b"<end>"].concat();
        assert_eq!(body.length(), Some(expected.len() as u64));
        for bytes_max in [1, 2, 99, 5000] {
            assert_eq!(body.read(bytes_max).unwrap(), expected, "{bytes_max}");
        }
    }

    #[test]
    fn truncated_file_is_unexpected_eof() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"short").unwrap();
        let body = Body::of(BodySource::File(Arc::new(file.into())), 0..100);
        assert_eq!(body.read(100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    // For files of procfs the kernel cannot tell whether a read blocks.
    #[test]
    fn pending_chunk_is_supplied_and_released() {
        let file = Arc::new(File::open("/proc/version").unwrap().into());
        let contents = std::fs::read("/proc/version").unwrap();
        let parts = vec![("<a>".to_owned(), 3..9), ("<b>".to_owned(), 20..25)];
        let mut body = Body::in_parts(BodySource::File(file), parts, "<end>".to_owned());
        let expected = [b"<a>", &contents[3..9], b"<b>", &contents[20..25], b"<end>"].concat();

        let (mut whole, mut fetches) = (Vec::new(), 0);
        while body.length() != Some(whole.len() as u64) {
            let offset = whole.len() as u64;
            match body.chunk(offset, 4).unwrap() {
                Chunk::Ready(bytes) => whole.extend_from_slice(&bytes),
                Chunk::Pending(PendingChunk::Stream(_)) => panic!("a file is no stream"),
                Chunk::Pending(PendingChunk::File(range)) => {
                    let bytes = range.read().unwrap();
                    fetches += 1;
                    body.supply(offset, bytes);
                }
            }
            body.release(whole.len() as u64);
        }
        assert_eq!(whole, expected);
        assert_eq!(fetches, 4);
        assert!(matches!(body.chunk(3, 0), Ok(Chunk::Ready(nothing)) if nothing.is_empty()));
        assert_eq!(body.fetched_bytes(), 0, "the sent chunk is freed");
    }

    #[test]
    fn truncated_pending_file_is_unexpected_eof() {
        let file = Arc::new(File::open("/proc/version").unwrap().into());
        let body = Body::of(BodySource::File(file), 0..100_000);
        assert_eq!(body.read(1000).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
