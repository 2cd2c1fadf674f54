//! Forwarded request: its way to the origin, and that of the response back, as fast as the client takes
//! it. It ends with its client.

use std::future::poll_fn;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::ready;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use http_body::Body as _;
use http_body::Frame;
use hyper::body::Incoming;
use hyper::header::CONTENT_LENGTH;
use hyper::header::TRANSFER_ENCODING;
use hyper::Method;
use hyper::Request;
use log::debug;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::content::access::AccessGrant;
use crate::content::origin::error::OriginError;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::fields;
use crate::content::origin::fields::from_origin;
use crate::content::origin::fields::of_interim;
use crate::content::origin::server::OriginResponse;
use crate::content::origin::server::OriginServer;
use crate::content::origin::upload::OriginContent;
use crate::http::body::Body;
use crate::http::body_stream::stream;
use crate::http::body_stream::Abandoned;
use crate::http::body_stream::StreamReader;
use crate::http::body_stream::StreamWriter;
use crate::http::response::Field;
use crate::http::response::Response;

/// The longest section of fields that follow a body, in bytes.
const TRAILERS_BYTES_MAX: usize = 4 << 10;

/// Interim responses of a request that wait, and that are passed on.
const INTERIM_QUEUE: usize = 4;
const INTERIM_RESPONSES_MAX: usize = 8;

type OriginResult = Result<Response, OriginError>;

/// Request that an origin is to respond to.
#[derive(Debug)]
pub struct ForwardedRequest {
    pub origin: Arc<OriginServer>,
    pub request: Request<OriginContent>,
    pub client: IpAddr,

    /// What the access rules grant.
    pub grant: AccessGrant,
}

/// Response of an origin that has not begun. The request ends when it is dropped.
pub struct PendingForward {
    result: oneshot::Receiver<OriginResult>,
    interim: mpsc::Receiver<InterimResponse>,
    grant: AccessGrant,
}

/// Response with a status of 1xx, which another follows.
#[derive(Debug)]
pub struct InterimResponse {
    pub status: u16,
    pub fields: Vec<Field>,
}

/// Response of an origin, whose content may still come, or the reason why there is none.
#[derive(Debug)]
pub struct ForwardedResponse {
    pub result: OriginResult,
    pub grant: AccessGrant,
}

impl ForwardedRequest {
    /// Returns where the content of the request is to go, if it has some. It may have a length.
    pub fn upload(&mut self, length: Option<u64>) -> StreamWriter {
        let (writer, reader) = stream(length);
        *self.request.body_mut() = OriginContent::new(reader, self.origin.content_bytes_max);
        writer
    }

    /// Returns whether it reads alone, and so has no content that matters.
    pub fn is_safe(&self) -> bool {
        [Method::GET, Method::HEAD].contains(self.request.method())
    }

    /// Sends the request on a thread for origins.
    pub fn send(self) -> PendingForward {
        let Self { origin, mut request, client, grant } = self;
        let (sender, result) = oneshot::channel();
        let interim = watch_interim(&mut request);
        match origin.take_vacancy(client) {
            Some(permit) => drop(origin.runtime.spawn(async move {
                let _permit = permit;
                let outcome = forward(&origin, request, sender).await;
                outcome.count();
            })),
            None => {
                OriginOutcome::Busy.count();
                // The receiver is here.
                let _ = sender.send(Err(OriginError::Busy));
            }
        }
        PendingForward { result, interim, grant }
    }

    /// Refuses the request, which asks for another protocol.
    pub fn refuse_upgrade(self) -> ForwardedResponse {
        OriginOutcome::Upgrade.count();
        ForwardedResponse { result: Err(OriginError::Upgrade), grant: self.grant }
    }
}

/// Returns the interim responses to a request (RFC 9110, 15.2), which an upstream over HTTP/1.1 may send:
/// hyper does not tell of those over HTTP/2. Too many are left out.
fn watch_interim(request: &mut Request<OriginContent>) -> mpsc::Receiver<InterimResponse> {
    let (sender, receiver) = mpsc::channel(INTERIM_QUEUE);
    let count = AtomicUsize::new(0);
    hyper::ext::on_informational(request, move |interim| {
        let status = interim.status().as_u16();
        // Nobody has asked for a 100.
        if status != 100 && count.fetch_add(1, Ordering::Relaxed) < INTERIM_RESPONSES_MAX {
            let fields = of_interim(interim.headers(), interim.version());
            // Fails if the client takes none.
            let _ = sender.try_send(InterimResponse { status, fields });
        }
    });
    receiver
}

impl PendingForward {
    /// Returns the next interim response once it is there.
    pub fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<Option<InterimResponse>> {
        self.interim.poll_recv(cx)
    }
}

impl Future for PendingForward {
    type Output = ForwardedResponse;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.result).poll(cx));
        let ended = |_| Err(OriginError::Malformed("its task has ended".to_owned()));
        let result = result.unwrap_or_else(ended);
        Poll::Ready(ForwardedResponse { result, grant: std::mem::take(&mut self.grant) })
    }
}

/// Forwards a request and its response. Returns how that ended.
async fn forward(
    origin: &OriginServer,
    request: Request<OriginContent>,
    mut sender: oneshot::Sender<OriginResult>,
) -> OriginOutcome {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let fetched = tokio::select! {
        biased;
        () = sender.closed() => return OriginOutcome::Cancelled,
        fetched = origin.fetch(request) => fetched,
    };
    let OriginResponse { response, lease, request } = match fetched {
        Ok(fetched) => fetched,
        Err(e) => {
            debug!("{method} {uri}: {e}");
            let outcome = e.outcome();
            // Fails if the client has gone meanwhile.
            let _ = sender.send(Err(e));
            return outcome;
        }
    };
    let (head, content) = response.into_parts();
    let (body, writer) = body_of(&method, &head, &content);
    let (fields, date) = from_origin(&head.headers, head.version);
    let response = Response { fields, date, ..Response::new(head.status.as_u16(), body) };
    if sender.send(Ok(response)).is_err() {
        return OriginOutcome::Cancelled;
    }
    let copied = match writer {
        Some(writer) => copy(content, writer, origin).await,
        None => Ok(()),
    };
    match copied {
        Ok(()) => {
            lease.release();
            request.end(OriginOutcome::Complete);
            OriginOutcome::Complete
        }
        Err(CopyError::Abandoned) => OriginOutcome::Cancelled,
        Err(CopyError::Broken(why)) => {
            debug!("{method} {uri}: the response breaks off: {why}");
            request.fail(OriginOutcome::Broken, &format!("a response breaks off: {why}"));
            OriginOutcome::Broken
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
            Ok(None) => {
                writer.finish();
                return Ok(());
            }
            Ok(Some(Err(e))) => return Err(CopyError::Broken(e.to_string())),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => writer.push(data),
                Err(frame) => {
                    writer.finish_with(trailers_of(&frame));
                    return Ok(());
                }
            },
        }
        if content.is_end_stream() {
            writer.finish();
            return Ok(());
        }
    }
}
