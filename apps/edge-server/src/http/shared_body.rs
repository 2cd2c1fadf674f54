//! Shared body: bytes of a response that are kept as they come, and that any number of responses read
//! meanwhile and afterwards, without copies of their own.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use bytes::Bytes;

use crate::http::body_stream::Abandoned;
use crate::http::body_stream::AwaitedBytes;
use crate::http::body_stream::StreamWait;
use crate::http::body_stream::QUEUED_BYTES_MAX;

/// Bytes of a block: readers share those that are full, and get copies of the last.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Number of bodies so far.
static BODIES: AtomicU64 = AtomicU64::new(0);

/// A body that is kept. It counts among the bytes held as long as it is in memory.
pub struct SharedBody {
    /// Of all since the process began.
    number: u64,
    state: Mutex<SharedBodyState>,
    held: Arc<AtomicU64>,
}

#[derive(Default)]
struct SharedBodyState {
    /// Full blocks, of which the first `dropped` are gone, and what follows them.
    blocks: VecDeque<Bytes>,
    dropped: usize,
    tail: Vec<u8>,

    /// Length of the whole body, if it was announced.
    announced: Option<u64>,
    is_complete: bool,
    is_broken: bool,

    /// What all have read is dropped.
    is_passing: bool,

    /// Bytes that each reader has done with, by its number.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
    waiting: Vec<Waker>,
    writer: Option<Waker>,
}

/// Writer of a body. One that is dropped before the end leaves the body broken.
pub struct SharedBodyWriter(Arc<SharedBody>);

/// Reader of a body, from the front on.
pub struct SharedBodyReader {
    body: Arc<SharedBody>,
    number: u64,
}

impl SharedBodyState {
    fn filled(&self) -> u64 {
        let blocks = self.dropped + self.blocks.len();
        match self.blocks.back().filter(|last| last.len() < BLOCK_BYTES) {
            Some(last) => ((blocks - 1) * BLOCK_BYTES + last.len()) as u64,
            None => (blocks * BLOCK_BYTES + self.tail.len()) as u64,
        }
    }

    fn kept_bytes(&self) -> u64 {
        let blocks: usize = self.blocks.iter().map(Bytes::len).sum();
        (blocks + self.tail.len()) as u64
    }

    fn from(&self, offset: u64, bytes_max: usize) -> Option<Bytes> {
        let offset = usize::try_from(offset).ok()?;
        let (block, skip) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let block = block.checked_sub(self.dropped)?;
        let Some(block) = self.blocks.get(block) else {
            let rest = self.tail.get(skip..).filter(|_| block == self.blocks.len())?;
            let rest = &rest[..rest.len().min(bytes_max)];
            return Some(rest).filter(|rest| !rest.is_empty()).map(Bytes::copy_from_slice);
        };
        let end = block.len().min(skip.saturating_add(bytes_max));
        (skip < end).then(|| block.slice(skip..end))
    }

    /// Adds bytes, and makes full blocks of them.
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.tail.len()));
            self.tail.extend_from_slice(head);
            bytes = rest;
            if self.tail.len() == BLOCK_BYTES {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        let mut tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            tail.shrink_to_fit();
            self.blocks.push_back(tail.into());
        }
    }

    fn has_room(&self) -> bool {
        !self.is_passing || self.filled() - self.first_needed() < QUEUED_BYTES_MAX as u64
    }

    fn first_needed(&self) -> u64 {
        self.readers.values().min().copied().unwrap_or_else(|| self.filled())
    }

    fn is_abandoned(&self) -> bool {
        self.is_passing && self.readers.is_empty()
    }

    /// Drops blocks that nobody needs. Returns how many bytes those had.
    fn drop_passed(&mut self) -> u64 {
        let mut bytes = 0;
        while self.is_passing && (self.dropped + 1) * BLOCK_BYTES <= self.first_needed() as usize {
            let Some(block) = self.blocks.pop_front() else { break };
            bytes += block.len() as u64;
            self.dropped += 1;
        }
        bytes
    }
}

impl SharedBody {
    /// Returns a body of this length, if that is known, and its writer. Its bytes are added to `held`.
    pub fn new(length: Option<u64>, held: &Arc<AtomicU64>) -> (Arc<Self>, SharedBodyWriter) {
        let state = SharedBodyState { announced: length, ..SharedBodyState::default() };
        let number = BODIES.fetch_add(1, Ordering::Relaxed);
        let body = Arc::new(Self { number, state: Mutex::new(state), held: Arc::clone(held) });
        (Arc::clone(&body), SharedBodyWriter(body))
    }

    fn state(&self) -> MutexGuard<'_, SharedBodyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a reader of the whole body, unless some of it is gone.
    pub fn reader(self: &Arc<Self>) -> Option<SharedBodyReader> {
        let mut state = self.state();
        if state.is_passing || state.is_broken {
            return None;
        }
        let number = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(number, 0);
        Some(SharedBodyReader { body: Arc::clone(self), number })
    }

    /// Returns its number, which no other body has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the length of the body, if it is whole.
    pub fn whole_length(&self) -> Option<u64> {
        let state = self.state();
        (state.is_complete && !state.is_passing).then(|| state.filled())
    }

    /// Returns the length of the whole body, if it is known by now.
    pub fn length(&self) -> Option<u64> {
        let state = self.state();
        state.announced.or_else(|| state.is_complete.then(|| state.filled()))
    }

    /// Returns how many bytes there are.
    pub fn filled_bytes(&self) -> u64 {
        self.state().filled()
    }

    /// Returns whether new readers can have all of it.
    pub fn is_usable(&self) -> bool {
        let state = self.state();
        !state.is_passing && !state.is_broken
    }
}

impl Drop for SharedBody {
    fn drop(&mut self) {
        self.held.fetch_sub(self.state().kept_bytes(), Ordering::Relaxed);
    }
}

impl AwaitedBytes for SharedBody {
    fn poll_from(&self, offset: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_complete || state.is_broken || state.filled() > offset {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl SharedBodyWriter {
    /// Adds bytes, and wakes the readers.
    pub fn push(&self, bytes: &[u8]) {
        // Readers wait for a copy of one block at most.
        bytes.chunks(BLOCK_BYTES).for_each(|bytes| self.push_block(bytes));
    }

    fn push_block(&self, bytes: &[u8]) {
        self.0.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut state = self.0.state();
        state.push(bytes);
        let dropped = state.drop_passed();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.held.fetch_sub(dropped, Ordering::Relaxed);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Has what all readers have got dropped from now on, and nobody begin to read.
    pub fn stop_keeping(&self) {
        let mut state = self.0.state();
        state.is_passing = true;
        let dropped = state.drop_passed();
        drop(state);
        self.0.held.fetch_sub(dropped, Ordering::Relaxed);
    }

    /// Waits until there is room for more. A body that is kept has room.
    ///
    /// # Errors
    ///
    /// Nobody needs more.
    pub async fn room(&self) -> Result<(), Abandoned> {
        poll_fn(|cx| {
            let mut state = self.0.state();
            if state.is_abandoned() {
                return Poll::Ready(Err(Abandoned));
            }
            if state.has_room() {
                return Poll::Ready(Ok(()));
            }
            state.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the body. Returns whether it is complete: one of another length than announced is broken.
    pub fn finish(self) -> bool {
        let mut state = self.0.state();
        state.end_block();
        state.is_complete = state.announced.is_none_or(|length| length == state.filled());
        state.is_complete
    }
}

impl Drop for SharedBodyWriter {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_broken = !state.is_complete;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl SharedBodyReader {
    /// Returns the length of the whole body, if it is known by now.
    pub fn length(&self) -> Option<u64> {
        self.body.length()
    }

    /// Returns how many bytes are there and were not released.
    pub fn queued_bytes(&self) -> u64 {
        let state = self.body.state();
        let released = state.readers.get(&self.number).copied().unwrap_or_default();
        state.filled().saturating_sub(released)
    }

    /// Returns bytes from `offset` on that are there: none at the end, `None` if they have not come yet.
    ///
    /// # Errors
    ///
    /// The body is broken.
    pub fn from(&self, offset: u64, bytes_max: usize) -> io::Result<Option<Bytes>> {
        let state = self.body.state();
        if let Some(bytes) = state.from(offset, bytes_max) {
            return Ok(Some(bytes));
        }
        match (state.is_complete, state.is_broken) {
            (true, _) => Ok(Some(Bytes::new())),
            (false, true) => Err(io::ErrorKind::UnexpectedEof.into()),
            (false, false) => Ok(None),
        }
    }

    /// Notes that what is before `offset` is not needed any longer.
    pub fn release(&self, offset: u64) {
        let mut state = self.body.state();
        state.readers.insert(self.number, offset);
        self.wake_writer(state);
    }

    /// Returns a wait for what comes from `offset` on.
    pub fn wait(&self, offset: u64) -> StreamWait {
        StreamWait::new(Arc::clone(&self.body) as Arc<dyn AwaitedBytes>, offset)
    }

    fn wake_writer(&self, mut state: MutexGuard<'_, SharedBodyState>) {
        if !state.is_passing {
            return;
        }
        let dropped = state.drop_passed();
        let writer = state.writer.take();
        drop(state);
        self.body.held.fetch_sub(dropped, Ordering::Relaxed);
        writer.into_iter().for_each(Waker::wake);
    }
}

impl Drop for SharedBodyReader {
    fn drop(&mut self) {
        let mut state = self.body.state();
        state.readers.remove(&self.number);
        self.wake_writer(state);
    }
}

impl fmt::Debug for SharedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBody").field("filled_bytes", &self.filled_bytes()).finish()
    }
}

impl fmt::Debug for SharedBodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBodyReader").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::Future;
    use std::pin::pin;

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    fn read(reader: &SharedBodyReader, bytes_max: usize) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Ok(Some(bytes)) = reader.from(whole.len() as u64, bytes_max) {
            if bytes.is_empty() {
                break;
            }
            whole.extend(bytes);
        }
        whole
    }

    #[test]
    fn every_reader_gets_all_bytes_while_they_come() {
        let held = Arc::default();
        for length in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 7] {
            let content = content(length);
            let (body, writer) = SharedBody::new(None, &held);
            let early = body.reader().unwrap();
            for (index, piece) in content.chunks(10_001).enumerate() {
                writer.push(piece);
                let end = length.min((index + 1) * 10_001);
                assert_eq!(read(&early, 5000), content[..end], "{length}");
            }
            assert_eq!(body.filled_bytes(), length as u64);
            assert_eq!(body.length(), None);
            assert!(writer.finish());
            let late = body.reader().unwrap();
            assert_eq!((read(&early, 1 << 20), read(&late, 777)), (content.clone(), content));
            assert_eq!(body.length(), Some(length as u64));
            assert_eq!(held.load(Ordering::Relaxed), length as u64);
            drop((body, early, late));
            assert_eq!(held.load(Ordering::Relaxed), 0, "{length}");
        }
    }

    #[test]
    fn body_that_ends_early_is_broken_for_all() {
        for (announced, is_finished, expected) in [
            (None, true, true),
            (None, false, false),
            (Some(3), true, true),
            (Some(4), true, false),
            (Some(2), true, false),
        ] {
            let (body, writer) = SharedBody::new(announced, &Arc::default());
            let reader = body.reader().unwrap();
            writer.push(b"abc");
            match is_finished {
                true => assert_eq!(writer.finish(), expected),
                false => drop(writer),
            }
            assert_eq!(reader.from(3, 9).is_ok(), expected, "{announced:?}");
            assert_eq!((body.is_usable(), body.reader().is_some()), (expected, expected));
        }
    }

    #[test]
    fn passing_body_waits_for_its_slowest_reader() {
        let held = Arc::default();
        let (body, writer) = SharedBody::new(None, &held);
        let readers = [body.reader().unwrap(), body.reader().unwrap()];
        let content = content(4 * BLOCK_BYTES);
        writer.push(&content);
        assert!(is_ready(writer.room()), "what is kept has room");
        writer.stop_keeping();
        assert!(!is_ready(writer.room()) && body.reader().is_none());
        readers[0].release(4 * BLOCK_BYTES as u64);
        assert!(!is_ready(writer.room()));
        readers[1].release(3 * BLOCK_BYTES as u64);
        assert!(is_ready(writer.room()));
        assert_eq!(held.load(Ordering::Relaxed), BLOCK_BYTES as u64);
        assert_eq!(
            readers[1].from(3 * BLOCK_BYTES as u64, 9).unwrap().unwrap(),
            content[3 * BLOCK_BYTES..][..9]
        );
        drop(readers);
        let room = pin!(writer.room());
        assert_eq!(room.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(Abandoned)));
    }
}
