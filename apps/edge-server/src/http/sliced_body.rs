//! Sliced body: a long body that is kept in slices of one length, of which some are in memory at a time.
//! Whoever has the slices gives them when they are asked for.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use bytes::Bytes;

use crate::http::body_stream::AwaitedBytes;
use crate::http::body_stream::StreamWait;
use crate::http::shared_body::SharedBodyReader;

/// Slices of a body.
pub trait SliceSource: Send + Sync {
    /// Gives a slice to who awaits it, at once if it is in memory. Does not block.
    fn request(self: Arc<Self>, index: u64, awaited: AwaitedSlice);

    /// Has a slice fetched that will be asked for.
    fn prefetch(self: Arc<Self>, index: u64);
}

/// Reader of a body in slices.
pub struct SlicedReader {
    source: Arc<dyn SliceSource>,
    length: u64,
    current: Arc<CurrentSlice>,
}

/// Slice that a reader is to get. If this is dropped before, the body is broken there.
pub struct AwaitedSlice {
    current: Arc<CurrentSlice>,
    index: u64,
}

/// Slice that is being read.
struct CurrentSlice {
    slice_bytes: u64,
    state: Mutex<CurrentState>,
}

#[derive(Default)]
struct CurrentState {
    index: Option<u64>,
    slot: SliceSlot,

    /// The last slice that was fetched ahead.
    ahead: Option<u64>,
    waiting: Vec<Waker>,
}

#[derive(Default)]
enum SliceSlot {
    #[default]
    Awaited,
    There(SharedBodyReader),
    Broken,
}

impl SlicedReader {
    /// Returns a reader of a body of `length` bytes, which may have a slice already.
    pub fn new(
        source: Arc<dyn SliceSource>,
        length: u64,
        slice_bytes: u64,
        first: Option<(u64, SharedBodyReader)>,
    ) -> Self {
        let mut state = CurrentState::default();
        if let Some((index, reader)) = first {
            (state.index, state.slot) = (Some(index), SliceSlot::There(reader));
        }
        let current = Arc::new(CurrentSlice { slice_bytes, state: Mutex::new(state) });
        Self { source, length, current }
    }

    /// Returns the length of the whole body.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns how many bytes of the slice that is read are there and were not released.
    pub fn queued_bytes(&self) -> u64 {
        match &self.current.state().slot {
            SliceSlot::There(reader) => reader.queued_bytes(),
            _ => 0,
        }
    }

    /// Returns bytes from the start of a range that are there, `None` if they have not come yet. Has the
    /// next slice fetched if the range goes on in it.
    ///
    /// # Errors
    ///
    /// The slice cannot be had.
    pub fn from(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Option<Bytes>> {
        let slice_bytes = self.current.slice_bytes;
        let (index, offset) = (range.start / slice_bytes, range.start % slice_bytes);
        if self.current.begin(index) {
            let awaited = AwaitedSlice { current: Arc::clone(&self.current), index };
            Arc::clone(&self.source).request(index, awaited);
        }
        let goes_on = (index + 1) * slice_bytes < range.end;
        if goes_on && self.current.begin_ahead(index + 1) {
            Arc::clone(&self.source).prefetch(index + 1);
        }
        match &self.current.state().slot {
            SliceSlot::Awaited => Ok(None),
            SliceSlot::Broken => Err(io::ErrorKind::UnexpectedEof.into()),
            SliceSlot::There(reader) => match reader.from(offset, bytes_max)? {
                Some(bytes) if bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => Ok(bytes),
            },
        }
    }

    /// Notes that what is before `offset` is not needed any longer.
    pub fn release(&self, offset: u64) {
        let state = self.current.state();
        if let (Some(index), SliceSlot::There(reader)) = (state.index, &state.slot) {
            let start = index * self.current.slice_bytes;
            reader.release(offset.saturating_sub(start).min(self.current.slice_bytes));
        }
    }

    /// Returns a wait for what comes from `offset` on.
    pub fn wait(&self, offset: u64) -> StreamWait {
        StreamWait::new(Arc::clone(&self.current) as Arc<dyn AwaitedBytes>, offset)
    }
}

impl CurrentSlice {
    fn state(&self) -> MutexGuard<'_, CurrentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with a slice. Returns whether it is to be asked for.
    fn begin(&self, index: u64) -> bool {
        let mut state = self.state();
        let is_new = state.index != Some(index);
        let before = is_new.then(|| std::mem::take(&mut state.slot));
        state.index = Some(index);
        drop(state);
        // A body has a lock of its own.
        drop(before);
        is_new
    }

    fn begin_ahead(&self, index: u64) -> bool {
        self.state().ahead.replace(index) != Some(index)
    }

    /// Fills the slot of a slice, if it is still the current one.
    fn fill(&self, index: u64, slot: SliceSlot) {
        let mut state = self.state();
        let is_awaited = matches!(state.slot, SliceSlot::Awaited) && state.index == Some(index);
        let unneeded = match is_awaited {
            true => std::mem::replace(&mut state.slot, slot),
            false => slot,
        };
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unneeded);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl AwaitedSlice {
    /// Gives the reader the slice.
    pub fn give(self, reader: SharedBodyReader) {
        self.current.fill(self.index, SliceSlot::There(reader));
    }
}

impl Drop for AwaitedSlice {
    fn drop(&mut self) {
        self.current.fill(self.index, SliceSlot::Broken);
    }
}

impl AwaitedBytes for CurrentSlice {
    fn poll_from(&self, offset: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.index != Some(offset / self.slice_bytes) {
            return Poll::Ready(());
        }
        match &state.slot {
            SliceSlot::There(reader) => {
                let wait = reader.wait(offset % self.slice_bytes);
                drop(state);
                wait.poll(cx)
            }
            SliceSlot::Broken => Poll::Ready(()),
            SliceSlot::Awaited => {
                if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for SlicedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedReader").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::http::body::Body;
    use crate::http::body::BodySource;
    use crate::http::body::Chunk;
    use crate::http::shared_body::SharedBody;

    const SLICE_BYTES: u64 = 10;

    /// Slices that are given when the test says so.
    #[derive(Default)]
    struct TestSlices {
        awaited: Mutex<Vec<AwaitedSlice>>,
        ahead: Mutex<Vec<u64>>,
    }

    impl SliceSource for TestSlices {
        fn request(self: Arc<Self>, _: u64, awaited: AwaitedSlice) {
            self.awaited.lock().unwrap().push(awaited);
        }

        fn prefetch(self: Arc<Self>, index: u64) {
            self.ahead.lock().unwrap().push(index);
        }
    }

    impl TestSlices {
        /// Gives what is asked for: bytes with the number of their slice, up to the end of the body.
        fn give(&self, length: u64) {
            for awaited in self.awaited.lock().unwrap().drain(..) {
                let reader = slice(awaited.index, length);
                awaited.give(reader);
            }
        }
    }

    fn slice(index: u64, length: u64) -> SharedBodyReader {
        let count = length.saturating_sub(index * SLICE_BYTES).min(SLICE_BYTES);
        let (body, writer) = SharedBody::new(None, &Arc::default());
        writer.push(&vec![b'0' + index as u8; count as usize]);
        assert!(writer.finish());
        body.reader().unwrap()
    }

    fn read(body: &mut Body, slices: &TestSlices, length: u64) -> io::Result<String> {
        let mut whole = Vec::new();
        while body.length() != Some(whole.len() as u64) {
            match body.chunk(whole.len() as u64, 7)? {
                Chunk::Ready(bytes) => whole.extend_from_slice(&bytes),
                Chunk::Pending(_) => slices.give(length),
            }
            body.release(whole.len() as u64);
        }
        Ok(String::from_utf8(whole).unwrap())
    }

    #[test]
    fn ranges_are_read_from_the_slices_that_they_touch() {
        for (range, first, expected, ahead) in [
            (0..35, None, "00000000001111111111222222222233333", &[1, 2, 3][..]),
            (0..10, None, "0000000000", &[]),
            (9..11, None, "01", &[1]),
            (25..30, Some(2), "22222", &[]),
            (25..35, Some(2), "2222233333", &[3]),
            (25..27, Some(0), "22", &[]),
        ] {
            let slices = Arc::<TestSlices>::default();
            let first = first.map(|index| (index, slice(index, 35)));
            let source = Arc::clone(&slices) as Arc<dyn SliceSource>;
            let reader = SlicedReader::new(source, 35, SLICE_BYTES, first);
            let mut body = Body::of(BodySource::Sliced(reader), range.clone());
            assert_eq!(read(&mut body, &slices, 35).unwrap(), expected, "{range:?}");
            assert_eq!(*slices.ahead.lock().unwrap(), ahead, "{range:?}");
        }
    }

    #[test]
    fn slice_that_is_missing_or_short_breaks_the_body() {
        for (given, is_given) in [(35, true), (34, true), (29, true), (35, false)] {
            let slices = Arc::<TestSlices>::default();
            let source = Arc::clone(&slices) as Arc<dyn SliceSource>;
            let reader = SlicedReader::new(source, 35, SLICE_BYTES, None);
            let wait = reader.wait(30);
            let mut body = Body::of(BodySource::Sliced(reader), 30..35);
            assert!(matches!(body.chunk(0, 9), Ok(Chunk::Pending(_))));
            assert!(wait.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            match is_given {
                true => slices.give(given),
                false => slices.awaited.lock().unwrap().clear(),
            }
            assert!(wait.poll(&mut Context::from_waker(Waker::noop())).is_ready());
            let whole = read(&mut body, &slices, given);
            assert_eq!(whole.is_ok(), is_given && given == 35, "{given}");
        }
    }
}
