//! Reader that pauses: the frames of one connection are not all handled before other connections have
//! their turn.

use std::io;
use std::pin::Pin;
use std::task::ready;
use std::task::Context;
use std::task::Poll;

use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;

/// Bytes between two pauses. The smallest frames of HTTP/2 have nine.
const TURN_BYTES: usize = 16 << 10;

/// Stream whose reading pauses.
pub struct FairReader<S> {
    stream: S,

    /// Read since the last pause.
    bytes: usize,
}

impl<S> FairReader<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, bytes: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FairReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes >= TURN_BYTES {
            self.bytes = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.bytes += buffer.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FairReader<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::task::Waker;

    #[test]
    fn reader_pauses_after_each_turn() {
        let content = vec![7; 3 * TURN_BYTES];
        let mut reader = FairReader::new(&content[..]);
        let mut cx = Context::from_waker(Waker::noop());
        let mut pauses = 0;
        let mut received = 0;
        while received < content.len() {
            let mut space = [0; TURN_BYTES / 4];
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut reader).poll_read(&mut cx, &mut buffer) {
                Poll::Ready(read) => read.unwrap(),
                Poll::Pending => pauses += 1,
            }
            received += buffer.filled().len();
        }
        assert_eq!(pauses, 2);
    }
}
