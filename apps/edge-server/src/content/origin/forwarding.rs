//! Forwarded request: its way to the origin, and that of the response back, as fast as the client takes
//! it. It ends with its client.

use std::future::poll_fn;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::ready;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use hyper::Method;
use hyper::Request;
use log::debug;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::content::access::AccessGrant;
use crate::content::cache::fetch::CacheFetch;
use crate::content::cache::fetch_source::FetchSource;
use crate::content::cache::status::CacheStatus;
use crate::content::origin::delivery::deliver;
use crate::content::origin::error::OriginError;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::fields::of_interim;
use crate::content::origin::reply::ForwardReply;
use crate::content::origin::reply::OriginResult;
use crate::content::origin::server::OriginServer;
use crate::content::origin::upload::OriginContent;
use crate::http::body::BodySource;
use crate::http::body::Chunk;
use crate::http::body::PendingChunk;
use crate::http::body_stream::stream;
use crate::http::body_stream::StreamWriter;
use crate::http::origin_report::OriginReport;
use crate::http::response::Field;

/// Interim responses of a request that wait, and that are passed on.
const INTERIM_QUEUE: usize = 4;
const INTERIM_RESPONSES_MAX: usize = 8;

/// How long the head of a response may wait for the first byte of its body.
const FIRST_BYTE_TIME: Duration = Duration::from_millis(50);

/// Request that an origin is to respond to.
#[derive(Debug)]
pub struct ForwardedRequest {
    pub origin: Arc<OriginServer>,
    pub request: Request<OriginContent>,
    pub client: IpAddr,
    pub report: Arc<OriginReport>,

    /// What the access rules grant.
    pub grant: AccessGrant,

    /// How the cache gets the response, if it is asked, or else why it is not.
    pub cached: Option<CacheFetch>,
    pub cache_status: Option<CacheStatus>,
}

/// Response of an origin that has not begun. The request ends when it is dropped.
pub struct PendingForward {
    result: oneshot::Receiver<OriginResult>,
    interim: mpsc::Receiver<InterimResponse>,
    grant: AccessGrant,
    cache_status: Option<CacheStatus>,
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
    pub cache_status: Option<CacheStatus>,
}

impl ForwardedResponse {
    /// Waits a moment for the first byte of the body. A response that breaks off before that is none.
    pub async fn await_first_byte(&mut self) {
        let is_broken = match &self.result {
            Ok(ForwardReply::Passed(response)) => is_broken(|| response.body.chunk(0, 1)).await,
            // Of others, the request may not need the first byte.
            Ok(ForwardReply::Cached(answer)) => match &answer.body {
                BodySource::Shared(_) => is_broken(|| answer.body.chunk(0..1, 1)).await,
                _ => false,
            },
            Err(_) => false,
        };
        if is_broken {
            let why = "it breaks off before the first byte of its body";
            self.result = Err(OriginError::Malformed(why.to_owned()));
        }
    }
}

/// Returns whether the first chunk of a body never comes, as far as is known in a moment.
async fn is_broken(first: impl Fn() -> io::Result<Chunk>) -> bool {
    let waiting = async {
        loop {
            match first() {
                Ok(Chunk::Pending(PendingChunk::Stream(wait))) => {
                    poll_fn(|cx| wait.poll(cx)).await;
                }
                Ok(_) => return false,
                Err(_) => return true,
            }
        }
    };
    timeout(FIRST_BYTE_TIME, waiting).await.unwrap_or(false)
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
        let Self { origin, mut request, client, report, grant, cached, cache_status } = self;
        let (sender, result) = oneshot::channel();
        let interim = watch_interim(&mut request);
        if let Some(fetch) = cached {
            let source = FetchSource { origin: Arc::clone(&origin), client, report };
            drop(origin.runtime.spawn(fetch_cached(fetch, source, request, sender)));
            return PendingForward { result, interim, grant, cache_status };
        }
        match origin.take_vacancy(client) {
            Some(permit) => drop(origin.runtime.spawn(async move {
                let _permit = permit;
                let outcome = forward(&origin, request, &report, sender).await;
                outcome.count();
            })),
            None => {
                OriginOutcome::Busy.count();
                // The receiver is here.
                let _ = sender.send(Err(OriginError::Busy));
            }
        }
        PendingForward { result, interim, grant, cache_status }
    }

    /// Refuses the request, which asks for another protocol.
    pub fn refuse_upgrade(self) -> ForwardedResponse {
        OriginOutcome::Upgrade.count();
        ForwardedResponse {
            result: Err(OriginError::Upgrade),
            grant: self.grant,
            cache_status: None,
        }
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

/// Has the cache fetch a response. What it fetches for others, too, does not end with the client.
async fn fetch_cached(
    fetch: CacheFetch,
    source: FetchSource,
    request: Request<OriginContent>,
    mut sender: oneshot::Sender<OriginResult>,
) {
    let is_own = fetch.is_own();
    let result = tokio::select! {
        biased;
        () = sender.closed(), if is_own => return OriginOutcome::Cancelled.count(),
        result = fetch.run(source, request) => result,
    };
    // Fails if the client has gone meanwhile.
    let _ = sender.send(result);
}

impl Future for PendingForward {
    type Output = ForwardedResponse;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.result).poll(cx));
        let ended = |_| Err(OriginError::Malformed("its task has ended".to_owned()));
        let result = result.unwrap_or_else(ended);
        let grant = std::mem::take(&mut self.grant);
        Poll::Ready(ForwardedResponse { result, grant, cache_status: self.cache_status })
    }
}

/// Forwards a request and its response. Returns how that ended.
async fn forward(
    origin: &OriginServer,
    request: Request<OriginContent>,
    report: &Arc<OriginReport>,
    mut sender: oneshot::Sender<OriginResult>,
) -> OriginOutcome {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let fetched = tokio::select! {
        biased;
        () = sender.closed() => return OriginOutcome::Cancelled,
        fetched = origin.fetch(request, report) => fetched,
    };
    let response = match fetched {
        Ok(response) => response,
        Err(e) => {
            debug!("{method} {uri}: {e}");
            let outcome = e.outcome();
            // Fails if the client has gone meanwhile.
            let _ = sender.send(Err(e));
            return outcome;
        }
    };
    let (response, rest) = deliver(&method, response);
    if sender.send(Ok(ForwardReply::Passed(response))).is_err() {
        return OriginOutcome::Cancelled;
    }
    let outcome = rest.copy(origin).await;
    if outcome == OriginOutcome::Broken {
        debug!("{method} {uri}: the response breaks off");
    }
    outcome
}
