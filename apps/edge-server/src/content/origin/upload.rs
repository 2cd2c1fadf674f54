//! Content of a forwarded request, which the origin gets as it arrives.

use std::io;
use std::pin::Pin;
use std::task::ready;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use http_body::Frame;
use http_body::SizeHint;

use crate::http::body_stream::StreamMonitor;
use crate::http::body_stream::StreamReader;

/// Content of a request, if it has any.
#[derive(Debug, Default)]
pub struct OriginContent(Option<StreamedContent>);

#[derive(Debug)]
struct StreamedContent {
    stream: StreamReader,
    taken: u64,

    /// The most that it may have, in bytes.
    bytes_max: u64,
}

impl OriginContent {
    /// Returns content of at most so many bytes that comes from a stream.
    pub fn new(stream: StreamReader, bytes_max: u64) -> Self {
        Self(Some(StreamedContent { stream, taken: 0, bytes_max }))
    }

    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns what tells of its progress.
    pub fn monitor(&self) -> Option<StreamMonitor> {
        self.0.as_ref().map(|upload| upload.stream.monitor())
    }
}

impl StreamedContent {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            if let Some(bytes) = self.stream.from(self.taken)? {
                self.taken += bytes.len() as u64;
                self.stream.release(self.taken);
                return Poll::Ready(match self.taken <= self.bytes_max {
                    true => Ok(bytes),
                    false => Err(io::ErrorKind::FileTooLarge.into()),
                });
            }
            ready!(self.stream.wait(self.taken).poll(cx));
        }
    }
}

impl http_body::Body for OriginContent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(upload) = &mut self.0 else { return Poll::Ready(None) };
        let bytes = ready!(upload.poll_bytes(cx))?;
        Poll::Ready(
            Some(bytes).filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|upload| upload.stream.length() == Some(upload.taken))
    }

    fn size_hint(&self) -> SizeHint {
        let Some(upload) = &self.0 else { return SizeHint::with_exact(0) };
        let left = upload.stream.length().map(|length| length.saturating_sub(upload.taken));
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body_stream::stream;

    #[test]
    fn content_is_passed_on_up_to_its_limit() {
        for (bytes_max, is_finished, expected) in [
            (5, true, Ok("abcde")),
            (4, true, Err(io::ErrorKind::FileTooLarge)),
            (5, false, Err(io::ErrorKind::UnexpectedEof)),
        ] {
            let (writer, reader) = stream(None);
            let mut content = OriginContent::new(reader, bytes_max);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut poll = || http_body::Body::poll_frame(Pin::new(&mut content), &mut cx);
            assert!(poll().is_pending());
            writer.push(Bytes::from_static(b"abc"));
            writer.push(Bytes::from_static(b"de"));
            if is_finished {
                writer.finish();
            } else {
                drop(writer);
            }
            let mut got = Ok(Vec::new());
            while let Poll::Ready(Some(frame)) = poll() {
                match (frame, &mut got) {
                    (Ok(frame), Ok(got)) => got.extend(frame.into_data().unwrap()),
                    (Err(e), _) => {
                        got = Err(e.kind());
                        break;
                    }
                    (Ok(_), Err(_)) => panic!("more after an error"),
                }
            }
            let got = got.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(got, expected.map(str::to_owned), "{bytes_max} {is_finished}");
        }
    }
}
