//! Body of a response, read as fast as the connection takes it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::ready;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use http_body::Frame;
use http_body::SizeHint;
use tokio::task::JoinHandle;

use crate::http::body::Body;
use crate::http::body::Chunk;
use crate::tcp::exchange::TcpExchange;

/// The most bytes that a connection gets at once.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Body of a response under way. When it is dropped its exchange ends.
pub struct ResponseBody {
    body: Body,
    sent: u64,
    length: u64,

    /// Read of the next chunk from disk.
    reading: Option<JoinHandle<io::Result<Bytes>>>,

    exchange: TcpExchange,
}

impl ResponseBody {
    /// Returns the body of a response; to a HEAD, without its content.
    pub fn new(body: Body, with_content: bool, exchange: TcpExchange) -> Self {
        let length = if with_content { body.length() } else { 0 };
        let mut body = Self { body, sent: 0, length, reading: None, exchange };
        body.note_sent(0);
        body
    }

    fn note_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.exchange.on_sent(bytes, self.sent == self.length);
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            ready!(self.exchange.send_buffer().poll_room(cx));
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                self.body.supply(self.sent, read.map_err(io::Error::other)??);
            }
            match self.body.chunk(self.sent, CHUNK_BYTES_MAX)? {
                Chunk::Ready(bytes) => {
                    return Poll::Ready(Ok(self.exchange.send_buffer().keep(bytes)));
                }
                Chunk::Pending(range) => {
                    self.reading = Some(tokio::task::spawn_blocking(move || range.read()));
                }
            }
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        let bytes = ready!(self.poll_chunk(cx))?;
        self.note_sent(bytes.len() as u64);
        let sent = self.sent;
        self.body.release(sent);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent == self.length
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length - self.sent)
    }
}
