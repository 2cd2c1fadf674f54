//! Delivery of an origin's response: its head at once, and its body as fast as the client takes it.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use http_body::Body as _;
use http_body::Frame;
use hyper::body::Incoming;
use hyper::header::CONTENT_LENGTH;
use hyper::header::TRANSFER_ENCODING;
use hyper::Method;
use hyper::Version;
use log::debug;
use tokio::time::timeout;

use crate::content::origin::error::OriginOutcome;
use crate::content::origin::fields;
use crate::content::origin::fields::from_origin;
use crate::content::origin::server::OriginResponse;
use crate::content::origin::server::OriginServer;
use crate::content::origin::server::UpstreamExchange;
use crate::http::body::Body;
use crate::http::body_stream::stream;
use crate::http::body_stream::Abandoned;
use crate::http::body_stream::StreamReader;
use crate::http::body_stream::StreamWriter;
use crate::http::response::Field;
use crate::http::response::Response;

/// The longest section of fields that follow a body, in bytes.
const TRAILERS_BYTES_MAX: usize = 4 << 10;

/// What comes of a response after its head.
pub struct ResponseRest {
    content: Option<(Incoming, StreamWriter)>,
    is_http2: bool,
    exchange: UpstreamExchange,
}

/// Returns a response as its client gets it, and what is still to be copied.
pub fn deliver(method: &Method, response: OriginResponse) -> (Response, ResponseRest) {
    let OriginResponse { response, exchange } = response;
    let (head, content) = response.into_parts();
    let (body, writer) = body_of(method, &head, &content);
    let (fields, date) = from_origin(&head.headers, head.version);
    let response = Response { fields, date, ..Response::new(head.status.as_u16(), body) };
    let is_http2 = head.version == Version::HTTP_2;
    let content = writer.map(|writer| (content, writer));
    (response, ResponseRest { content, is_http2, exchange })
}

impl ResponseRest {
    /// Copies what comes as fast as the client takes it. Returns how that ended.
    pub async fn copy(self, origin: &OriginServer) -> OriginOutcome {
        let copied = match self.content {
            Some((content, writer)) => {
                copy(content, writer, origin, (self.is_http2, &self.exchange)).await
            }
            None => Ok(()),
        };
        match copied {
            Ok(()) => {
                self.exchange.complete();
                OriginOutcome::Complete
            }
            Err(CopyError::Abandoned) => OriginOutcome::Cancelled,
            Err(CopyError::Broken(why)) => {
                debug!("a response breaks off: {why}");
                self.exchange.break_off(&why);
                OriginOutcome::Broken
            }
        }
    }
}

/// Returns the body of a response, and what writes it if it has content.
fn body_of(
    method: &Method,
    head: &hyper::http::response::Parts,
    content: &Incoming,
) -> (Body, Option<StreamWriter>) {
    if *method == Method::HEAD {
        return (unsent_body(head), None);
    }
    if [204, 304].contains(&head.status.as_u16()) {
        return (Body::empty(), None);
    }
    let (writer, reader) = stream(content.size_hint().exact());
    (Body::of_stream(reader), Some(writer))
}

/// Returns the body that a response to a HEAD is about, which has a length at most.
fn unsent_body(head: &hyper::http::response::Parts) -> Body {
    let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = length.filter(|_| !head.headers.contains_key(TRANSFER_ENCODING));
    let (_, reader): (_, StreamReader) = stream(length.and_then(|text| text.parse().ok()));
    Body::of_stream(reader)
}

/// Returns the fields that follow a body, unless they are many.
fn trailers_of(frame: &Frame<Bytes>) -> Vec<Field> {
    let mut trailers = frame.trailers_ref().map(fields::trailers).unwrap_or_default();
    let bytes = |field: &Field| field.name.len() + field.value.len();
    if trailers.iter().map(bytes).sum::<usize>() > TRAILERS_BYTES_MAX {
        trailers.clear();
    }
    trailers
}

/// Reason why a response is not copied as a whole.
enum CopyError {
    Abandoned,
    Broken(String),
}

impl From<Abandoned> for CopyError {
    fn from(_: Abandoned) -> Self {
        Self::Abandoned
    }
}

/// Copies content as far as there is room for it: until then the origin's socket is not read.
async fn copy(
    mut content: Incoming,
    writer: StreamWriter,
    origin: &OriginServer,
    (is_http2, exchange): (bool, &UpstreamExchange),
) -> Result<(), CopyError> {
    loop {
        writer.room().await?;
        let next = poll_fn(|cx| Pin::new(&mut content).poll_frame(cx));
        let frame = tokio::select! {
            biased;
            // A client that has the whole of a known length waits for nothing else.
            () = writer.abandoned() => match content.size_hint().exact() {
                Some(0) => return Ok(()),
                _ => return Err(CopyError::Abandoned),
            },
            frame = timeout(origin.body_time, next) => frame,
        };
        match frame {
            Err(_) => return Err(CopyError::Broken("it stalls".to_owned())),
            // To hyper, a stream that is reset without an error has ended.
            Ok(None) if is_http2 && !content.is_end_stream() => {
                return Err(CopyError::Broken("the stream is reset".to_owned()));
            }
            Ok(None) => {
                exchange.on_end();
                writer.finish();
                return Ok(());
            }
            Ok(Some(Err(e))) => return Err(CopyError::Broken(e.to_string())),
            Ok(Some(Ok(frame))) => {
                exchange.on_received(&content);
                match frame.into_data() {
                    Ok(data) => writer.push(data),
                    Err(frame) => {
                        writer.finish_with(trailers_of(&frame));
                        return Ok(());
                    }
                }
            }
        }
        if content.is_end_stream() {
            writer.finish();
            return Ok(());
        }
    }
}
