//! Body stream: a queue of a body's bytes, bounded, between a task that receives them and the
//! connection that sends them. Each waits for the other: the task for room, the connection for bytes.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use bytes::Bytes;

use crate::http::field::Field;

/// The most that a stream queues, in bytes, beyond which it has no room.
pub const QUEUED_BYTES_MAX: usize = 128 << 10;

/// What a chunk costs beside its bytes, so that many small ones are bounded, too.
const CHUNK_OVERHEAD_BYTES: usize = 64;

/// Sending half of a stream. A stream whose writer is dropped before its end is broken.
pub struct StreamWriter(Arc<SharedStream>);

/// Receiving half of a stream.
pub struct StreamReader(Arc<SharedStream>);

/// Bytes that come in order.
pub trait AwaitedBytes: Send + Sync {
    /// Returns when there is something from `offset` on, or the end.
    fn poll_from(&self, offset: u64, cx: &mut Context<'_>) -> Poll<()>;
}

/// Wait for what a stream has from an offset on, or its end.
pub struct StreamWait {
    stream: Arc<dyn AwaitedBytes>,
    offset: u64,
}

/// Look at a stream's progress.
pub struct StreamMonitor(Arc<SharedStream>);

/// Progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    pub released_bytes: u64,
    pub is_ended: bool,

    /// It waits for its writer.
    pub is_empty: bool,
}

struct SharedStream(Mutex<StreamState>);

#[derive(Default)]
struct StreamState {
    chunks: VecDeque<Bytes>,

    /// Length of the whole body, if it was announced.
    announced: Option<u64>,

    /// Offset of the first queued byte, and the number of those.
    released: u64,
    queued_bytes: u64,
    end: Option<StreamEnd>,

    /// Fields that follow the body.
    trailers: Vec<Field>,

    /// The reader is gone.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Complete,
    Broken,
}

/// Returns the halves of a stream whose body has this length, if that is known.
pub fn stream(length: Option<u64>) -> (StreamWriter, StreamReader) {
    let state = StreamState { announced: length, ..StreamState::default() };
    let shared = Arc::new(SharedStream(Mutex::new(state)));
    (StreamWriter(Arc::clone(&shared)), StreamReader(shared))
}

impl SharedStream {
    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamState {
    fn has_room(&self) -> bool {
        let overhead = self.chunks.len() * CHUNK_OVERHEAD_BYTES;
        self.queued_bytes + (overhead as u64) < QUEUED_BYTES_MAX as u64
    }

    /// Returns the queued bytes from an offset on, as far as they are in one chunk.
    fn from(&self, offset: u64) -> Option<Bytes> {
        let mut skip = usize::try_from(offset.checked_sub(self.released)?).ok()?;
        for chunk in &self.chunks {
            if skip < chunk.len() {
                return Some(chunk.slice(skip..));
            }
            skip -= chunk.len();
        }
        None
    }
}

impl StreamWriter {
    /// Waits until the stream has room.
    ///
    /// # Errors
    ///
    /// The reader is gone.
    pub async fn room(&self) -> Result<(), Abandoned> {
        poll_fn(|cx| self.poll_room(cx)).await;
        match self.is_abandoned() {
            true => Err(Abandoned),
            false => Ok(()),
        }
    }

    /// Returns when the stream has room, or its reader is gone.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state();
        if state.is_abandoned || state.has_room() {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns whether the reader is gone.
    pub fn is_abandoned(&self) -> bool {
        self.0.state().is_abandoned
    }

    /// Returns whether the stream waits for its reader.
    pub fn is_full(&self) -> bool {
        let state = self.0.state();
        !state.is_abandoned && !state.has_room()
    }

    /// Returns how many bytes are queued.
    pub fn queued_bytes(&self) -> u64 {
        self.0.state().queued_bytes
    }

    /// Waits until the reader is gone.
    pub async fn abandoned(&self) {
        poll_fn(|cx| {
            let mut state = self.0.state();
            if state.is_abandoned {
                return Poll::Ready(());
            }
            state.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Adds bytes, whether there is room or not.
    pub fn push(&self, bytes: Bytes) {
        let mut state = self.0.state();
        if bytes.is_empty() || state.is_abandoned {
            return;
        }
        state.queued_bytes += bytes.len() as u64;
        state.chunks.push_back(bytes);
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Ends the stream: the body is complete.
    pub fn finish(self) {
        self.end(StreamEnd::Complete);
    }

    /// Ends the stream with fields that follow the body. One whose length was announced has none: its
    /// reader does not wait for them.
    pub fn finish_with(self, trailers: Vec<Field>) {
        let mut state = self.0.state();
        if state.announced.is_none() {
            state.trailers = trailers;
        }
        drop(state);
        self.finish();
    }

    fn end(&self, end: StreamEnd) {
        let mut state = self.0.state();
        state.end.get_or_insert(end);
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }
}

/// The reader of a stream is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

impl Drop for StreamWriter {
    fn drop(&mut self) {
        self.end(StreamEnd::Broken);
    }
}

impl StreamReader {
    /// Returns the length of the whole body, if it is known by now.
    pub fn length(&self) -> Option<u64> {
        let state = self.0.state();
        let is_complete = state.end == Some(StreamEnd::Complete);
        state.announced.or_else(|| is_complete.then_some(state.released + state.queued_bytes))
    }

    /// Returns how many bytes are queued.
    pub fn queued_bytes(&self) -> u64 {
        self.0.state().queued_bytes
    }

    /// Returns the fields that follow the body, at its end.
    pub fn trailers(&self) -> Vec<Field> {
        self.0.state().trailers.clone()
    }

    /// Returns whether there are any.
    pub fn has_trailers(&self) -> bool {
        !self.0.state().trailers.is_empty()
    }

    /// Returns how many bytes are queued, or may be at any time.
    pub fn kept_bytes(&self) -> u64 {
        let state = self.0.state();
        let queued_bytes_max = if state.end.is_none() { QUEUED_BYTES_MAX as u64 } else { 0 };
        state.queued_bytes.max(queued_bytes_max)
    }

    /// Returns the bytes from `offset` on that are there: none at the end, `None` if they have not
    /// come yet.
    ///
    /// # Errors
    ///
    /// The stream is broken.
    pub fn from(&self, offset: u64) -> io::Result<Option<Bytes>> {
        let state = self.0.state();
        if let Some(bytes) = state.from(offset) {
            return Ok(Some(bytes));
        }
        match state.end {
            None => Ok(None),
            Some(StreamEnd::Complete) if state.announced.is_none_or(|length| length <= offset) => {
                Ok(Some(Bytes::new()))
            }
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Frees what is before `offset`.
    pub fn release(&self, offset: u64) {
        let mut state = self.0.state();
        while let Some(length) = state.chunks.front().map(|chunk| chunk.len() as u64) {
            if state.released + length > offset {
                break;
            }
            state.chunks.pop_front();
            state.released += length;
            state.queued_bytes -= length;
        }
        let writer = if state.has_room() { state.writer.take() } else { None };
        drop(state);
        writer.into_iter().for_each(Waker::wake);
    }

    /// Returns what tells of its progress.
    pub fn monitor(&self) -> StreamMonitor {
        StreamMonitor(Arc::clone(&self.0))
    }

    /// Returns a wait for what comes from `offset` on.
    pub fn wait(&self, offset: u64) -> StreamWait {
        StreamWait::new(Arc::clone(&self.0) as Arc<dyn AwaitedBytes>, offset)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_abandoned = true;
        state.chunks = VecDeque::new();
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
    }
}

impl AwaitedBytes for SharedStream {
    fn poll_from(&self, offset: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.end.is_some() || state.released + state.queued_bytes > offset {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl StreamWait {
    /// Returns a wait for what comes from `offset` on.
    pub fn new(stream: Arc<dyn AwaitedBytes>, offset: u64) -> Self {
        Self { stream, offset }
    }

    /// Has the waker woken when it is over.
    pub fn wake(&self, waker: &Waker) {
        if self.poll(&mut Context::from_waker(waker)).is_ready() {
            waker.wake_by_ref();
        }
    }

    /// Returns when it is over.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_from(self.offset, cx)
    }
}

impl StreamMonitor {
    pub fn progress(&self) -> StreamProgress {
        let state = self.0.state();
        StreamProgress {
            released_bytes: state.released,
            is_ended: state.end.is_some(),
            is_empty: state.chunks.is_empty(),
        }
    }
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader").field("queued_bytes", &self.queued_bytes()).finish()
    }
}

impl fmt::Debug for StreamWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWait").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::task::Wake;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waker() -> (Arc<WakeCount>, Waker) {
        let wakes = Arc::new(WakeCount::default());
        (Arc::clone(&wakes), Waker::from(wakes))
    }

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn reader_gets_all_bytes_and_is_woken_for_them() {
        let (writer, reader) = stream(None);
        let (wakes, waker) = waker();
        let mut cx = Context::from_waker(&waker);
        assert_eq!(reader.from(0).unwrap(), None);
        assert!(reader.wait(0).poll(&mut cx).is_pending());
        writer.push(Bytes::from_static(b"abc"));
        writer.push(Bytes::new());
        writer.push(Bytes::from_static(b"de"));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(reader.wait(4).poll(&mut cx).is_ready());
        for (offset, expected) in [(0, "abc"), (2, "c"), (3, "de"), (4, "e")] {
            reader.release(offset);
            assert_eq!(reader.from(offset).unwrap().unwrap(), expected, "{offset}");
        }
        assert_eq!(
            (reader.from(5).unwrap(), reader.length(), reader.queued_bytes()),
            (None, None, 2)
        );
        assert!(reader.wait(5).poll(&mut cx).is_pending());
        writer.finish();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        assert_eq!((reader.from(5).unwrap(), reader.length()), (Some(Bytes::new()), Some(5)));
    }

    #[test]
    fn writer_that_ends_early_breaks_the_stream() {
        for (announced, is_finished, expected) in [
            (None, true, true),
            (None, false, false),
            (Some(3), true, true),
            (Some(4), true, false),
        ] {
            let (writer, reader) = stream(announced);
            writer.push(Bytes::from_static(b"abc"));
            if is_finished {
                writer.finish();
            } else {
                drop(writer);
            }
            assert_eq!(reader.from(0).unwrap().unwrap(), "abc");
            assert_eq!(reader.from(3).is_ok(), expected, "{announced:?} {is_finished}");
        }
    }

    #[test]
    fn trailers_follow_a_body_without_a_length() {
        for (announced, expected) in [(None, true), (Some(0), false)] {
            let (writer, reader) = stream(announced);
            assert!(!reader.has_trailers());
            writer.finish_with(vec![Field::new("x", "1")]);
            assert_eq!(reader.has_trailers(), expected);
            assert_eq!(reader.trailers().len(), usize::from(expected));
        }
    }

    #[test]
    fn writer_waits_for_room_and_hears_that_nobody_reads() {
        let (writer, reader) = stream(None);
        assert!(is_ready(writer.room()));
        for chunk in [vec![0; QUEUED_BYTES_MAX], vec![1]] {
            writer.push(chunk.into());
        }
        assert!(!is_ready(writer.room()) && !is_ready(writer.abandoned()));
        reader.release(QUEUED_BYTES_MAX as u64 - 1);
        assert!(!is_ready(writer.room()), "a chunk is freed as a whole");
        reader.release(QUEUED_BYTES_MAX as u64);
        assert!(is_ready(writer.room()));
        drop(reader);
        assert!(is_ready(writer.room()) && is_ready(writer.abandoned()));
        assert_eq!(Arc::strong_count(&writer.0), 1);
    }

    #[test]
    fn small_chunks_take_up_more_than_their_bytes() {
        let (writer, _reader) = stream(None);
        let mut count = 0;
        while is_ready(writer.room()) {
            writer.push(Bytes::from_static(b"x"));
            count += 1;
        }
        assert!(count <= QUEUED_BYTES_MAX / CHUNK_OVERHEAD_BYTES, "{count}");
    }
}
