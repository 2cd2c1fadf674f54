//! Content of a forwarded request, which the origin gets as it arrives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::ready;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use http_body::Frame;
use http_body::SizeHint;

use crate::http::body_stream::StreamProgress;
use crate::http::body_stream::StreamReader;

/// Content of a request, if it has any.
#[derive(Debug, Default)]
pub struct OriginContent {
    shared: Option<Arc<Mutex<StreamedContent>>>,

    /// Number of the attempt to send it.
    attempt: u32,
}

/// Look at content that may be sent again.
#[derive(Clone, Debug)]
pub struct ContentMonitor(Option<Arc<Mutex<StreamedContent>>>);

#[derive(Debug)]
struct StreamedContent {
    stream: StreamReader,
    taken: u64,

    /// The most that it may have, in bytes.
    bytes_max: u64,

    /// Number of the attempt that may take it.
    attempt: u32,

    /// Reason why the client's content cannot be sent.
    failure: Option<io::ErrorKind>,
}

impl OriginContent {
    /// Returns content of at most so many bytes that comes from a stream.
    pub fn new(stream: StreamReader, bytes_max: u64) -> Self {
        let content = StreamedContent { stream, taken: 0, bytes_max, attempt: 0, failure: None };
        Self { shared: Some(Arc::new(Mutex::new(content))), attempt: 0 }
    }

    /// Returns what tells of its progress.
    pub fn monitor(&self) -> ContentMonitor {
        ContentMonitor(self.shared.clone())
    }
}

fn locked(content: &Mutex<StreamedContent>) -> MutexGuard<'_, StreamedContent> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ContentMonitor {
    /// Returns the content for another attempt, if nothing of it has been taken.
    pub fn again(&self) -> Option<OriginContent> {
        let Some(shared) = &self.0 else { return Some(OriginContent::default()) };
        let mut content = locked(shared);
        if content.taken > 0 || content.failure.is_some() {
            return None;
        }
        content.attempt += 1;
        Some(OriginContent { shared: Some(Arc::clone(shared)), attempt: content.attempt })
    }

    /// Returns the reason why the client's content cannot be sent.
    pub fn failure(&self) -> Option<io::ErrorKind> {
        locked(self.0.as_ref()?).failure
    }

    pub fn progress(&self) -> Option<StreamProgress> {
        Some(locked(self.0.as_ref()?).stream.monitor().progress())
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

    fn poll_next(&mut self, cx: &mut Context<'_>, attempt: u32) -> Poll<io::Result<Bytes>> {
        if attempt != self.attempt {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        let polled = ready!(self.poll_bytes(cx));
        self.failure = polled.as_ref().err().map(io::Error::kind);
        Poll::Ready(polled)
    }
}

impl http_body::Body for OriginContent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(shared) = &self.shared else { return Poll::Ready(None) };
        let bytes = ready!(locked(shared).poll_next(cx, self.attempt))?;
        Poll::Ready(
            Some(bytes).filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.shared.as_deref().is_none_or(|shared| {
            let content = locked(shared);
            content.stream.length() == Some(content.taken)
        })
    }

    fn size_hint(&self) -> SizeHint {
        let Some(shared) = &self.shared else { return SizeHint::with_exact(0) };
        let content = locked(shared);
        let left = content.stream.length().map(|length| length.saturating_sub(content.taken));
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

    #[test]
    fn content_is_sent_again_if_none_was_taken() {
        let (writer, reader) = stream(None);
        let mut first = OriginContent::new(reader, 5);
        let monitor = first.monitor();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut poll = |content: &mut OriginContent| {
            http_body::Body::poll_frame(Pin::new(content), &mut cx).map(Option::unwrap)
        };
        assert!(poll(&mut first).is_pending());
        writer.push(Bytes::from_static(b"abc"));
        let mut second = monitor.again().unwrap();
        let Poll::Ready(Err(e)) = poll(&mut first) else { panic!("the first goes on") };
        assert_eq!((e.kind(), monitor.failure()), (io::ErrorKind::Interrupted, None));
        let Poll::Ready(Ok(frame)) = poll(&mut second) else { panic!("nothing comes") };
        assert_eq!(frame.into_data().unwrap(), "abc");
        assert!(monitor.again().is_none());
        drop(writer);
        assert!(matches!(poll(&mut second), Poll::Ready(Err(_))));
        assert_eq!(monitor.failure(), Some(io::ErrorKind::UnexpectedEof));
    }
}
