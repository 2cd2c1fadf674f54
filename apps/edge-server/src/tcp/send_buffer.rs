//! Send buffer of one TCP connection: the chunks of its responses that it has not written to the
//! socket. However many requests a client makes and does not read, they take no more than this.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use bytes::Bytes;

/// The most of all responses of a connection, in bytes, beyond which no chunk is read: the kernel has a
/// buffer of its own.
pub const SEND_BUFFER_BYTES_MAX: usize = 128 << 10;

/// Send buffer of a connection.
#[derive(Debug, Default)]
pub struct SendBuffer(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,

    /// Responses that wait for room.
    waiting: Vec<Waker>,
}

/// A chunk until it is written.
struct KeptChunk {
    bytes: Bytes,
    buffer: Arc<SendBuffer>,
}

impl SendBuffer {
    /// Returns when there is room for a chunk.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut kept = self.kept();
        if kept.bytes < SEND_BUFFER_BYTES_MAX {
            return Poll::Ready(());
        }
        if !kept.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            kept.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns a chunk that takes up room until it is dropped.
    pub fn keep(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.kept().bytes += bytes.len();
        Bytes::from_owner(KeptChunk { bytes, buffer: Arc::clone(self) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for KeptChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for KeptChunk {
    fn drop(&mut self) {
        let mut kept = self.buffer.kept();
        kept.bytes -= self.bytes.len();
        if kept.bytes < SEND_BUFFER_BYTES_MAX {
            kept.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn chunk_takes_up_room_until_it_is_written() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let buffer = Arc::new(SendBuffer::default());
        let half = Bytes::from(vec![7; SEND_BUFFER_BYTES_MAX / 2]);
        let (first, second) = (buffer.keep(half.clone()), buffer.keep(half.clone()));
        assert!(first == half && buffer.poll_room(&mut cx).is_pending());
        assert!(buffer.poll_room(&mut cx).is_pending());
        let part = second.slice(10..);
        drop(second);
        assert!(buffer.poll_room(&mut cx).is_pending(), "a part of it is not written");
        drop(part);
        assert!(buffer.poll_room(&mut cx).is_ready());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        drop(first);
        assert_eq!(buffer.kept().bytes, 0);
    }
}
