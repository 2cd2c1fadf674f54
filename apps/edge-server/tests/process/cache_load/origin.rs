//! Origin of a load, which counts its requests, and is killed and started again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Body;
use hyper::body::Bytes;
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::task::JoinSet;

use super::catalogue::CachePolicy;
use super::catalogue::Catalogue;
use super::wall_us;

/// Time that a response takes, in which others ask for the same.
const RESPONSE_TIME: Duration = Duration::from_millis(5);

const PIECE_BYTES: usize = 16 << 10;

/// An origin. All that it has open is closed when it is killed.
pub struct LoadOrigin {
    pub address: SocketAddr,
    pub requests: Arc<OriginRequests>,
    runtime: Runtime,
    serving: Option<JoinHandle<()>>,
}

/// Requests that came.
pub struct OriginRequests {
    catalogue: Arc<Catalogue>,
    all: AtomicUsize,

    /// GETs under way, by object.
    under_way: Vec<AtomicUsize>,

    /// Whether those who wait for an object may ask for themselves, as the last response was an error.
    has_failed: Vec<AtomicBool>,

    /// Servers that may send requests.
    pub servers: AtomicUsize,

    /// Time from which on they must not double, in microseconds since 1970: requests that wait for an error go on by
    /// themselves.
    pub strict_from: AtomicU64,

    /// Requests for what another one of the same server was under way for.
    doubled: Mutex<BTreeMap<CachePolicy, usize>>,

    /// Whether it responds with errors.
    pub is_failing: AtomicBool,
}

/// A request under way, until its response begins or its connection ends.
struct UnderWay {
    requests: Arc<OriginRequests>,
    object: Option<usize>,
    is_answered: bool,
}

/// A body that is sent in pieces.
struct Pieces(Bytes);

impl LoadOrigin {
    /// Starts an origin.
    pub fn start(catalogue: &Arc<Catalogue>) -> Self {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let objects = catalogue.objects.len();
        let requests = OriginRequests {
            catalogue: Arc::clone(catalogue),
            all: AtomicUsize::default(),
            under_way: (0..objects).map(|_| AtomicUsize::default()).collect(),
            has_failed: (0..objects).map(|_| AtomicBool::default()).collect(),
            servers: AtomicUsize::new(1),
            strict_from: AtomicU64::default(),
            doubled: Mutex::default(),
            is_failing: AtomicBool::default(),
        };
        let mut origin = Self {
            address: "127.0.0.1:0".parse().unwrap(),
            requests: Arc::new(requests),
            runtime,
            serving: None,
        };
        origin.go_on();
        origin
    }

    /// Serves at the same address as before.
    pub fn go_on(&mut self) {
        let listener = self.runtime.block_on(TcpListener::bind(self.address)).unwrap();
        self.address = listener.local_addr().unwrap();
        let requests = Arc::clone(&self.requests);
        self.serving = Some(self.runtime.spawn(serve(listener, requests)));
    }

    /// Closes its sockets, whatever is under way, as the kernel does for a process that is killed.
    pub fn kill(&mut self) {
        let Some(serving) = self.serving.take() else { return };
        serving.abort();
        let _ = self.runtime.block_on(serving);
    }
}

async fn serve(listener: TcpListener, requests: Arc<OriginRequests>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let requests = Arc::clone(&requests);
        let service = service_fn(move |request| respond(Arc::clone(&requests), request));
        connections.spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(
    requests: Arc<OriginRequests>,
    request: Request<Incoming>,
) -> Result<Response<Pieces>, Infallible> {
    let number = requests.catalogue.find(request.uri().path());
    let mut under_way = UnderWay::begin(&requests, &request, number);
    tokio::time::sleep(RESPONSE_TIME).await;
    let is_failing = requests.is_failing.load(Ordering::SeqCst);
    let object = number.filter(|_| !is_failing).map(|number| &requests.catalogue.objects[number]);
    let Some(object) = object else {
        let status = if number.is_some() { 503 } else { 404 };
        return Ok(Response::builder().status(status).body(Pieces(Bytes::new())).unwrap());
    };
    under_way.is_answered = true;
    let version = object.version(wall_us());
    let etag = format!("\"{version}\"");
    let is_known = request.headers().get("if-none-match").is_some_and(|own| *own == etag);
    let mut response = Response::builder()
        .header("etag", etag)
        .header("cache-control", object.policy.cache_control());
    let mut bytes = Bytes::new();
    match is_known {
        true => response = response.status(304),
        false => {
            response = response.header("x-version", version.to_string());
            if !object.is_chunked {
                response = response.header("content-length", object.length(version).to_string());
            }
            bytes = object.body(version).into();
        }
    }
    Ok(response.body(Pieces(bytes)).unwrap())
}

impl OriginRequests {
    pub fn count(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }

    /// Returns how many requests came for what another one of the same server was under way for, by policy.
    pub fn doubled(&self) -> BTreeMap<CachePolicy, usize> {
        self.doubled.lock().unwrap().clone()
    }
}

impl UnderWay {
    fn begin(
        requests: &Arc<OriginRequests>,
        request: &Request<Incoming>,
        number: Option<usize>,
    ) -> Self {
        requests.all.fetch_add(1, Ordering::SeqCst);
        let policy = number.map(|number| requests.catalogue.objects[number].policy);
        let is_shared =
            request.method() == Method::GET && !policy.is_some_and(|p| p.is_confirmed());
        let object = number.filter(|_| is_shared);
        if let Some(number) = object {
            let before = requests.under_way[number].fetch_add(1, Ordering::SeqCst);
            let is_strict = wall_us() >= requests.strict_from.load(Ordering::SeqCst)
                && !requests.has_failed[number].load(Ordering::SeqCst);
            if is_strict && before >= requests.servers.load(Ordering::SeqCst) {
                let policy = requests.catalogue.objects[number].policy;
                *requests.doubled.lock().unwrap().entry(policy).or_default() += 1;
            }
        }
        Self { requests: Arc::clone(requests), object, is_answered: false }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(number) = self.object {
            let before = self.requests.under_way[number].fetch_sub(1, Ordering::SeqCst);
            if !self.is_answered || before == 1 {
                self.requests.has_failed[number].store(!self.is_answered, Ordering::SeqCst);
            }
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let length = PIECE_BYTES.min(self.0.len());
        let piece = self.0.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}
