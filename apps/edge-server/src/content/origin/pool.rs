//! Pool of connections to one upstream: those of HTTP/1.1 that have no request, and those of HTTP/2
//! that have room for another.

use std::fmt;
use std::future::pending;
use std::future::poll_fn;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::client::conn::http2;
use hyper::client::conn::TrySendError;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioTimer;
use quiche::clock;
use tokio::sync::watch;
use tokio::time::interval;
use tokio::time::timeout;

use crate::content::origin::connector::ConnectError;
use crate::content::origin::connector::OriginConnector;
use crate::content::origin::connector::OriginStream;
use crate::content::origin::upload::OriginContent;

/// How long a connection without a request is kept, and how many are.
pub const IDLE_TIME: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS_MAX: usize = 64;

/// How long a connection may take to be free again after a response.
const REUSE_TIME: Duration = Duration::from_secs(1);

/// Largest read from a connection of HTTP/1.1, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;

/// Streams of a connection of HTTP/2 at a time, and before the upstream has told how many it allows: others
/// wait for that.
const STREAMS_MAX: usize = 100;
const STREAMS_AT_FIRST: usize = 1;

/// The most that an upstream may send before more is wanted, in bytes: so much of each stream that those
/// whose clients do not read leave room for all others.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX as u32;

/// The most content of a request that waits below a stream, in bytes.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;

/// Largest header section that HTTP/2 takes, in bytes: more than is passed on, which is told.
const FIELDS_BYTES_MAX: u32 = 32 << 10;

/// A connection of HTTP/2 with requests that is silent so long is asked, and ends without a reply in time.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIME: Duration = Duration::from_secs(5);

/// How often it is looked how many streams an upstream allows.
const SETTINGS_INTERVAL: Duration = Duration::from_millis(500);

/// Pool of connections to one upstream.
pub struct OriginPool {
    connector: OriginConnector,
    connections: Mutex<PooledConnections>,

    /// The last connection had HTTP/2, or the first may have it, and so probably the next one.
    expects_http2: AtomicBool,

    /// Turn to open a connection that requests are to share, with the error of the last one.
    connecting: tokio::sync::Mutex<Option<ConnectError>>,
    connect_failures: AtomicU64,
}

#[derive(Default)]
struct PooledConnections {
    /// The last used is the last.
    idle: Vec<IdleConnection>,
    shared: Vec<Arc<SharedConnection>>,
}

struct IdleConnection {
    sender: http1::SendRequest<OriginContent>,
    since: Instant,
}

/// Connection of HTTP/2.
struct SharedConnection {
    sender: http2::SendRequest<OriginContent>,
    streams: AtomicUsize,

    /// Those that the upstream allows.
    streams_max: watch::Receiver<usize>,
    last_used: Mutex<Instant>,
}

/// Connection of one request, or room on one.
pub struct OriginLease {
    pool: Arc<OriginPool>,
    connection: LeasedConnection,

    /// It has had a request before, and may end at any time.
    pub is_reused: bool,
}

/// Reason why a request has no response.
pub enum SendError {
    /// It has the request if nothing of that was sent.
    Failed(Box<TrySendError<Request<OriginContent>>>),

    /// The upstream allows no stream.
    NoStreams,
}

enum LeasedConnection {
    Http1(http1::SendRequest<OriginContent>),
    Http2(LeasedStream),
}

/// Stream of a connection of HTTP/2.
struct LeasedStream(Arc<SharedConnection>);

impl OriginPool {
    /// Returns a pool without connections.
    pub fn new(connector: OriginConnector) -> Self {
        let expects_http2 = AtomicBool::new(connector.may_have_http2());
        Self {
            connector,
            connections: Mutex::default(),
            expects_http2,
            connecting: tokio::sync::Mutex::new(None),
            connect_failures: AtomicU64::new(0),
        }
    }

    /// Returns a connection for a request, a new one if it is to be fresh and nothing shares it.
    ///
    /// # Errors
    ///
    /// There is none.
    pub async fn lease(self: &Arc<Self>, is_fresh: bool) -> Result<OriginLease, ConnectError> {
        if let Some(lease) = self.find(is_fresh) {
            return Ok(lease);
        }
        match self.expects_http2.load(Ordering::Relaxed) {
            true => self.lease_shared(is_fresh).await,
            false => self.connect().await,
        }
    }

    /// Opens a connection that requests share, which wait for it.
    async fn lease_shared(self: &Arc<Self>, is_fresh: bool) -> Result<OriginLease, ConnectError> {
        let failures = self.connect_failures.load(Ordering::Relaxed);
        let mut turn = self.connecting.lock().await;
        if let Some(lease) = self.find(is_fresh) {
            return Ok(lease);
        }
        if !self.expects_http2.load(Ordering::Relaxed) {
            drop(turn);
            return self.connect().await;
        }
        if let Some(error) = turn.as_ref() {
            if self.connect_failures.load(Ordering::Relaxed) != failures {
                return Err(error.clone());
            }
        }
        let connected = self.connect().await;
        *turn = connected.as_ref().err().cloned();
        if turn.is_some() {
            self.connect_failures.fetch_add(1, Ordering::Relaxed);
        }
        connected
    }

    fn find(self: &Arc<Self>, is_fresh: bool) -> Option<OriginLease> {
        let mut connections = self.connections();
        connections.prune(clock::now());
        let shared = connections.shared.iter().find_map(LeasedStream::try_open);
        let connection = match shared {
            Some(stream) => LeasedConnection::Http2(stream),
            None if is_fresh => return None,
            None => LeasedConnection::Http1(connections.idle.pop()?.sender),
        };
        Some(OriginLease { pool: Arc::clone(self), connection, is_reused: true })
    }

    async fn connect(self: &Arc<Self>) -> Result<OriginLease, ConnectError> {
        let stream = self.connector.connect().await?;
        let is_http2 = self.connector.is_http2(&stream);
        self.expects_http2.store(is_http2, Ordering::Relaxed);
        let connection = match is_http2 {
            true => LeasedConnection::Http2(self.begin_http2(stream).await?),
            false => LeasedConnection::Http1(begin_http1(stream).await?),
        };
        Ok(OriginLease { pool: Arc::clone(self), connection, is_reused: false })
    }

    async fn begin_http2(&self, stream: OriginStream) -> Result<LeasedStream, ConnectError> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .max_header_list_size(FIELDS_BYTES_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIME);
        let (sender, mut connection) = builder.handshake(stream.into_io()).await.map_err(failed)?;
        let (allowed, streams_max) = watch::channel(STREAMS_MAX);
        // hyper reads settings in a task of its own, and does not tell of them.
        let mut look = interval(SETTINGS_INTERVAL);
        let mut looks = 0;
        tokio::spawn(poll_fn(move |cx| {
            while look.poll_tick(cx).is_ready() {
                looks += 1;
            }
            let polled = Pin::new(&mut connection).poll(cx);
            let most = connection.current_max_send_streams();
            // The first look is at once.
            if most != STREAMS_AT_FIRST || looks > 1 {
                allowed.send_if_modified(|allowed| std::mem::replace(allowed, most) != most);
            }
            polled
        }));
        let last_used = Mutex::new(clock::now());
        let shared = SharedConnection { sender, streams: 1.into(), streams_max, last_used };
        let shared = Arc::new(shared);
        self.connections().shared.push(Arc::clone(&shared));
        Ok(LeasedStream(shared))
    }

    /// Takes a connection back.
    fn keep(&self, sender: http1::SendRequest<OriginContent>) {
        let mut connections = self.connections();
        if connections.idle.len() < IDLE_CONNECTIONS_MAX {
            connections.idle.push(IdleConnection { sender, since: clock::now() });
        }
    }

    /// Ends connections that have had no request for a while.
    pub fn prune(&self) {
        self.connections().prune(clock::now());
    }

    fn connections(&self) -> MutexGuard<'_, PooledConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OriginPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginPool").field("connector", &self.connector).finish_non_exhaustive()
    }
}

impl fmt::Debug for OriginLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginLease").field("is_reused", &self.is_reused).finish_non_exhaustive()
    }
}

async fn begin_http1(
    stream: OriginStream,
) -> Result<http1::SendRequest<OriginContent>, ConnectError> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BYTES_MAX);
    let (sender, connection) = builder.handshake(stream.into_io()).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(sender)
}

fn failed(error: hyper::Error) -> ConnectError {
    ConnectError::Failed(error.to_string())
}

impl PooledConnections {
    fn prune(&mut self, now: Instant) {
        let is_recent = |since| now.saturating_duration_since(since) < IDLE_TIME;
        self.idle.retain(|idle| idle.sender.is_ready() && is_recent(idle.since));
        self.shared.retain(|shared| {
            let is_used = shared.streams.load(Ordering::Relaxed) > 0;
            !shared.sender.is_closed() && (is_used || is_recent(*shared.last_used()))
        });
    }
}

impl SharedConnection {
    /// Returns once the upstream has allowed no stream for so long.
    async fn has_allowed_none(&self, time: Duration) {
        let mut streams_max = self.streams_max.clone();
        loop {
            // Fails if the connection has ended, of which the request is told.
            if streams_max.wait_for(|most| *most == 0).await.is_err() {
                return pending().await;
            }
            if timeout(time, streams_max.wait_for(|most| *most > 0)).await.is_err() {
                return;
            }
        }
    }

    fn last_used(&self) -> MutexGuard<'_, Instant> {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeasedStream {
    /// Takes room on a connection, if it has some.
    fn try_open(shared: &Arc<SharedConnection>) -> Option<Self> {
        let streams_max = (*shared.streams_max.borrow()).min(STREAMS_MAX);
        let more = |streams| (streams < streams_max).then_some(streams + 1);
        let opened = shared.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        opened.is_ok().then(|| Self(Arc::clone(shared)))
    }
}

impl Drop for LeasedStream {
    fn drop(&mut self) {
        *self.0.last_used() = clock::now();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OriginLease {
    pub fn is_http2(&self) -> bool {
        matches!(self.connection, LeasedConnection::Http2(_))
    }

    /// Sends a request, and returns the response once it has begun.
    ///
    /// # Errors
    ///
    /// There is none.
    pub async fn send(
        &mut self,
        request: Request<OriginContent>,
    ) -> Result<Response<Incoming>, SendError> {
        let sent = match &mut self.connection {
            LeasedConnection::Http1(sender) => sender.try_send_request(request).await,
            LeasedConnection::Http2(LeasedStream(shared)) => {
                let mut sender = shared.sender.clone();
                tokio::select! {
                    biased;
                    sent = sender.try_send_request(request) => sent,
                    () = shared.has_allowed_none(self.pool.connector.connect_time) => {
                        return Err(SendError::NoStreams);
                    }
                }
            }
        };
        sent.map_err(|e| SendError::Failed(Box::new(e)))
    }

    /// Gives the connection back after the whole of a response.
    pub fn release(self) {
        let Self { pool, connection, .. } = self;
        let LeasedConnection::Http1(mut sender) = connection else { return };
        if sender.is_ready() {
            return pool.keep(sender);
        }
        tokio::spawn(async move {
            if let Ok(Ok(())) = timeout(REUSE_TIME, sender.ready()).await {
                pool.keep(sender);
            }
        });
    }
}
