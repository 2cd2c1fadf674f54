//! Body of a response, read as fast as the connection takes it and its rate allows.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::ready;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use http_body::Frame;
use http_body::SizeHint;
use hyper::header::HeaderMap;
use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use quiche::clock;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;
use tokio::time::Sleep;

use crate::http::body::Body;
use crate::http::body::Chunk;
use crate::http::body::PendingChunk;
use crate::http::body_stream::StreamWait;
use crate::http::response::Field;
use crate::http::response_rate::ResponseRate;
use crate::tcp::exchange::TcpExchange;

/// The most bytes that a connection gets at once.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Body of a response under way. When it is dropped its exchange ends.
pub struct ResponseBody {
    body: Body,
    sent: u64,

    /// Absent if only the end of the body tells.
    length: Option<u64>,

    /// The fields that follow the body, if there are any, have been sent.
    has_sent_trailers: bool,

    /// Read of the next chunk from disk.
    reading: Option<JoinHandle<io::Result<Bytes>>>,

    /// Wait for more of a stream.
    streaming: Option<StreamWait>,

    /// Absent if the connection gets it as fast as it takes it.
    rate: Option<Box<ResponseRate>>,

    /// Wait until the rate allows more.
    waiting: Option<Pin<Box<Sleep>>>,

    /// The connection has had time to send the head.
    was_polled: bool,

    exchange: TcpExchange,
}

impl ResponseBody {
    /// Returns the body of a response; to a HEAD, without its content.
    pub fn new(
        body: Body,
        rate: Option<Box<ResponseRate>>,
        with_content: bool,
        exchange: TcpExchange,
    ) -> Self {
        // With trailers the end of the body is not that of the response.
        let length = body.length().filter(|_| !body.has_trailers());
        let length = if with_content { length } else { Some(0) };
        let (reading, streaming, waiting) = (None, None, None);
        let has_sent_trailers = !with_content;
        let mut body = Self {
            body,
            sent: 0,
            length,
            has_sent_trailers,
            reading,
            streaming,
            rate,
            waiting,
            was_polled: false,
            exchange,
        };
        body.note_sent(0);
        body
    }

    fn note_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        if let Some(rate) = &mut self.rate {
            rate.on_sent(bytes);
        }
        let is_complete = self.is_complete();
        self.exchange.on_sent(bytes, is_complete);
    }

    /// Returns whether the connection has got all, as far as is known by now.
    fn is_complete(&self) -> bool {
        self.length.or_else(|| self.body.length()) == Some(self.sent)
    }

    /// Returns whether fields follow the body that the connection has not got.
    fn has_trailers(&self) -> bool {
        !self.has_sent_trailers && self.body.has_trailers()
    }

    /// Returns the fields that follow the body, if there are any. HTTP/1.1 leaves them out.
    fn take_trailers(&mut self) -> Option<Frame<Bytes>> {
        if !self.has_trailers() {
            return None;
        }
        self.has_sent_trailers = true;
        let line = |field: Field| {
            let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(&field.value).ok()?))
        };
        let trailers: HeaderMap = self.body.trailers().into_iter().filter_map(line).collect();
        Some(Frame::trailers(trailers))
    }

    /// Returns how many bytes the connection may get, once the rate allows any.
    fn poll_rate(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let left_bytes = self.length.map_or(u64::MAX, |length| length - self.sent);
        let Some(rate) = &mut self.rate else { return Poll::Ready(CHUNK_BYTES_MAX) };
        loop {
            match rate.poll(left_bytes, clock::now()) {
                Ok(bytes) => {
                    self.waiting = None;
                    return Poll::Ready(CHUNK_BYTES_MAX.min(bytes as usize));
                }
                Err(from) => {
                    self.exchange.on_wait(from);
                    let waiting = self.waiting.insert(Box::pin(sleep_until(from.into())));
                    ready!(waiting.as_mut().poll(cx));
                }
            }
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            ready!(self.exchange.send_buffer().poll_room(cx));
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                self.body.supply(self.sent, read.map_err(io::Error::other)??);
            }
            if let Some(streaming) = &self.streaming {
                self.exchange.set_awaiting_origin(true);
                ready!(streaming.poll(cx));
                self.exchange.set_awaiting_origin(false);
                self.streaming = None;
            }
            let bytes_max = ready!(self.poll_rate(cx));
            match self.body.chunk(self.sent, bytes_max)? {
                Chunk::Ready(bytes) => {
                    return Poll::Ready(Ok(self.exchange.send_buffer().keep(bytes)));
                }
                Chunk::Pending(PendingChunk::File(range)) => {
                    self.reading = Some(tokio::task::spawn_blocking(move || range.read()));
                }
                Chunk::Pending(PendingChunk::Stream(wait)) => self.streaming = Some(wait),
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
        if self.is_complete() {
            return Poll::Ready(self.take_trailers().map(Ok));
        }
        let was_polled = std::mem::replace(&mut self.was_polled, true);
        let polled = ready!(self.poll_chunk(cx));
        if polled.is_err() && !was_polled {
            // hyper sends the head before it looks again, and none after an error.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let bytes = polled?;
        if bytes.is_empty() {
            // The end of a stream.
            self.note_sent(0);
            return Poll::Ready(self.take_trailers().map(Ok));
        }
        self.note_sent(bytes.len() as u64);
        let sent = self.sent;
        self.body.release(sent);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete() && !self.has_trailers()
    }

    fn size_hint(&self) -> SizeHint {
        self.length
            .map_or_else(SizeHint::default, |length| SizeHint::with_exact(length - self.sent))
    }
}
