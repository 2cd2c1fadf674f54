//! Interim responses over HTTP/1.1 (RFC 9110, 15.2), for which hyper has no call: they are written while it has nothing to
//! write, as the request they are for is the only one under way.

use std::future::poll_fn;
use std::io;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::ready;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use hyper::StatusCode;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;

use crate::content::origin::forwarding::InterimResponse;

/// Interim response that a connection has not written yet.
#[derive(Debug, Default)]
pub struct InterimSlot(Mutex<Unwritten>);

#[derive(Debug, Default)]
struct Unwritten {
    bytes: Vec<u8>,

    /// Some of it is written.
    has_begun: bool,

    /// The request that it is for.
    waiting: Option<Waker>,
}

/// Stream of a connection, which writes interim responses.
pub struct InterimWriter<S> {
    stream: S,
    slot: Arc<InterimSlot>,
}

impl InterimSlot {
    /// Has an interim response written. The next one, or the final one, must not begin before it is
    /// [written](Self::written), also if this future is dropped.
    pub async fn write(&self, interim: &InterimResponse) {
        self.unwritten().bytes = encode(interim);
        self.written().await;
    }

    /// Waits until nothing is left to be written.
    pub async fn written(&self) {
        poll_fn(|cx| {
            let mut unwritten = self.unwritten();
            if unwritten.bytes.is_empty() {
                return Poll::Ready(());
            }
            unwritten.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn unwritten(&self) -> MutexGuard<'_, Unwritten> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn encode(interim: &InterimResponse) -> Vec<u8> {
    let status = StatusCode::from_u16(interim.status).ok();
    let reason = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", interim.status).into_bytes();
    for field in &interim.fields {
        // Writing to memory does not fail.
        let _ = write!(bytes, "{}: {}\r\n", field.name, field.value);
    }
    bytes.extend(b"\r\n");
    bytes
}

impl<S: AsyncWrite + Unpin> InterimWriter<S> {
    /// Returns the stream, and writes what is in the slot.
    pub fn new(stream: S, slot: &Arc<InterimSlot>) -> Self {
        Self { stream, slot: Arc::clone(slot) }
    }

    /// Writes what is in the slot.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut unwritten = self.slot.unwritten();
        while !unwritten.bytes.is_empty() {
            unwritten.has_begun = true;
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, &unwritten.bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            unwritten.bytes.drain(..count);
        }
        unwritten.has_begun = false;
        unwritten.waiting.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InterimWriter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InterimWriter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let has_begun = self.slot.unwritten().has_begun;
        if has_begun {
            ready!(self.poll_interim(cx))?;
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    /// hyper flushes when it has written all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::Future;
    use std::pin::pin;

    use crate::http::response::Field;

    /// Stream that takes so many bytes, and then no more until it is given room.
    struct Narrow {
        room: usize,
        written: Vec<u8>,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Poll::Pending;
            }
            self.room -= count;
            self.written.extend(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn status_without_a_known_reason_has_none() {
        for (status, expected) in
            [(102, "HTTP/1.1 102 Processing\r\n\r\n"), (104, "HTTP/1.1 104 \r\n\r\n")]
        {
            let interim = InterimResponse { status, fields: Vec::new() };
            assert_eq!(encode(&interim), expected.as_bytes());
        }
    }

    #[test]
    fn interim_response_whose_future_was_dropped_comes_before_the_next() {
        let mut cx = Context::from_waker(Waker::noop());
        let interim = InterimResponse { status: 102, fields: Vec::new() };
        let slot = Arc::<InterimSlot>::default();
        assert!(pin!(slot.written()).poll(&mut cx).is_ready());
        assert!(pin!(slot.write(&interim)).poll(&mut cx).is_pending());

        let mut written = pin!(slot.written());
        assert!(written.as_mut().poll(&mut cx).is_pending());
        let stream = Narrow { room: 1000, written: Vec::new() };
        let mut writer = InterimWriter::new(stream, &slot);
        assert!(Pin::new(&mut writer).poll_flush(&mut cx).is_ready());
        assert!(written.as_mut().poll(&mut cx).is_ready());
        assert_eq!(writer.stream.written, encode(&interim));
    }

    #[test]
    fn interim_response_is_written_whole_between_other_writes() {
        let mut cx = Context::from_waker(Waker::noop());
        let interim = InterimResponse { status: 103, fields: vec![Field::new("link", "</a>")] };
        let expected = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        for room in [0, 1, expected.len() - 1, expected.len()] {
            let slot = Arc::default();
            let stream = Narrow { room: 6 + room, written: Vec::new() };
            let mut writer = InterimWriter::new(stream, &slot);
            assert!(Pin::new(&mut writer).poll_write(&mut cx, b"before").is_ready());
            let mut written = pin!(slot.write(&interim));
            assert!(written.as_mut().poll(&mut cx).is_pending());
            let is_whole = room == expected.len();
            assert_eq!(Pin::new(&mut writer).poll_flush(&mut cx).is_ready(), is_whole, "{room}");
            assert_eq!(written.as_mut().poll(&mut cx).is_ready(), is_whole, "{room}");
            writer.stream.room = 1000;
            if room > 0 {
                assert!(Pin::new(&mut writer).poll_write(&mut cx, b"after").is_ready());
                let all = [&b"before"[..], expected, b"after"].concat();
                assert_eq!(writer.stream.written, all, "{room}");
            }
        }
    }
}
