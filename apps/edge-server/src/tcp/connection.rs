//! One TCP connection, from its handshake to its end.

use std::error::Error;
use std::future::poll_fn;
use std::future::Future;
use std::iter;
use std::pin::pin;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use boring::error::ErrorStack;
use boring::ssl::Ssl;
use hyper::server::conn::http1;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use log::debug;
use quiche::clock;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::time::sleep_until;
use tokio::time::timeout;
use tokio_boring::SslStream;
use tokio_boring::SslStreamBuilder;

use crate::acme::challenges::ALPN_PROTOCOL;
use crate::config::limits::Limits;
use crate::http::exchange::Protocol;
use crate::quic::client_certificate::CertificateRefusal;
use crate::tcp::activity::Timeout;
use crate::tcp::activity::Watch;
use crate::tcp::fair_reader::FairReader;
use crate::tcp::interim_writer::InterimWriter;
use crate::tcp::leaving::Leaving;
use crate::tcp::linger::linger;
use crate::tcp::peer::Peer;
use crate::tcp::request_set::RequestSet;
use crate::tcp::send_buffer::SEND_BUFFER_BYTES_MAX;
use crate::tcp::service::respond;
use crate::tcp::settings::TcpConfig;
use crate::tcp::stage::TcpStage;

/// The least that HTTP/1.1 may buffer of a header, in bytes: hyper takes no less.
const HEADER_BUFFER_BYTES_MIN: usize = 8 << 10;

/// Read buffer of a connection, in bytes: BoringSSL reads each record in two pieces.
const READ_BUFFER_BYTES: usize = 4 << 10;

/// Flow-control windows of uploads, in bytes, which are discarded as they arrive.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// How long the client may take to hear that its connection ends.
const CLOSING: Duration = Duration::from_secs(5);

/// Connection whose handshake is done.
type TlsStream = SslStream<BufReader<TcpStream>>;

/// Protocol that a client has chosen.
const HTTP2: &[u8] = b"h2";

/// Serves a client until its connection ends.
pub async fn serve(stream: TcpStream, peer: Arc<Peer>) {
    let config = Arc::clone(&peer.services.config.borrow());
    // Responses are written in large pieces.
    let _ = stream.set_nodelay(true);
    let ended = match handshake(stream, &config, &peer).await {
        Ok(stream) => {
            peer.identify(stream.ssl());
            serve_requests(stream, &peer, &config.limits).await
        }
        Err(why) => {
            peer.services.metrics.count_handshake_failure();
            Err(why)
        }
    };
    if let Err(why) = ended {
        debug!("{}: {why:#}", peer.name);
    }
}

async fn handshake(
    stream: TcpStream,
    config: &TcpConfig,
    peer: &Peer,
) -> anyhow::Result<TlsStream> {
    let stream = BufReader::with_capacity(READ_BUFFER_BYTES, stream);
    let accepted = SslStreamBuilder::new(Ssl::new(&config.tls)?, stream).accept();
    let accepted = timeout(config.limits.handshake_time(), accepted).await;
    accepted.context("the handshake timed out")?.map_err(|e| {
        let is_missing = is_certificate_missing(&e);
        let refusal = e.ssl().and_then(|ssl| CertificateRefusal::of(ssl, is_missing));
        match refusal {
            Some(refusal) => {
                peer.services.metrics.count_certificate_refusal(refusal.reason);
                anyhow!("{}: {refusal}", peer.address)
            }
            None => anyhow!(e).context("the handshake failed"),
        }
    })
}

/// Returns whether a handshake failed because the client has no certificate.
fn is_certificate_missing(error: &(dyn Error + 'static)) -> bool {
    let mut causes = iter::successors(Some(error), |error| (*error).source());
    let stack = causes.find_map(|cause| cause.downcast_ref::<ErrorStack>());
    let errors = stack.map(ErrorStack::errors).unwrap_or_default();
    errors.iter().any(|error| error.reason() == Some("PEER_DID_NOT_RETURN_A_CERTIFICATE"))
}

async fn serve_requests(
    mut stream: TlsStream,
    peer: &Arc<Peer>,
    limits: &Limits,
) -> anyhow::Result<()> {
    match stream.ssl().selected_alpn_protocol() {
        Some(HTTP2) => serve_http2(&mut stream, peer, limits).await?,
        // The handshake was all.
        Some(ALPN_PROTOCOL) => return Ok(()),
        _ => serve_http1(&mut stream, peer, limits).await?,
    }
    linger(stream.get_ref().get_ref(), limits.stall_time()).await;
    Ok(())
}

async fn serve_http1(
    stream: &mut TlsStream,
    peer: &Arc<Peer>,
    limits: &Limits,
) -> anyhow::Result<()> {
    let service = service_fn(|request| respond(Arc::clone(peer), request));
    let stream = InterimWriter::new(FairReader::new(stream), &peer.interim);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.stall_time())
        .max_buf_size(HEADER_BUFFER_BYTES_MIN.max(limits.header_bytes_max as usize))
        .serve_connection(TokioIo::new(stream), service);
    let driver = Driver::new(Protocol::Http11, peer, limits);
    driver.drive(connection, http1::Connection::graceful_shutdown, RequestSet::default()).await
}

async fn serve_http2(
    stream: &mut TlsStream,
    peer: &Arc<Peer>,
    limits: &Limits,
) -> anyhow::Result<()> {
    let service_peer = Arc::clone(peer);
    let service = service_fn(move |request| respond(Arc::clone(&service_peer), request));
    let requests = RequestSet::default();
    let connection = http2::Builder::new(requests.executor())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.requests_max)
        .max_header_list_size(limits.header_bytes_max)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .serve_connection(TokioIo::new(FairReader::new(stream)), service);
    let driver = Driver::new(Protocol::Http2, peer, limits);
    driver.drive(connection, http2::Connection::graceful_shutdown, requests).await
}

/// Driver of one connection.
struct Driver<'a> {
    peer: &'a Peer,
    leaving: Leaving,
    watch: Watch,

    /// When an idle client has had the time to let go.
    close_at: Option<Instant>,
}

impl<'a> Driver<'a> {
    fn new(protocol: Protocol, peer: &'a Peer, limits: &Limits) -> Self {
        let watch = Watch::new(limits, clock::now());
        Self { peer, leaving: Leaving::new(protocol), watch, close_at: None }
    }

    /// Drives a connection until it ends.
    ///
    /// # Errors
    ///
    /// It has failed or timed out, or the server closes it.
    async fn drive<C>(
        mut self,
        connection: C,
        shut_down: impl Fn(Pin<&mut C>),
        mut requests: RequestSet,
    ) -> anyhow::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut connection = pin!(connection);
        let mut stage = self.peer.services.stage.clone();
        loop {
            let now = *stage.borrow_and_update();
            ensure!(now != TcpStage::Closing, "the server closes it");
            self.leaving.set(now != TcpStage::Serving, clock::now());
            let ends = tokio::select! {
                ended = poll_fn(|cx| requests.poll_with(connection.as_mut(), cx)) => return Ok(ended?),
                changed = stage.changed() => changed.map(|()| false)?,
                () = self.peer.closing.notified() => true,
                () = sleep_until(self.next_check().into()) => self.check()?,
            };
            if ends {
                shut_down(connection.as_mut());
            }
        }
    }

    fn next_check(&self) -> Instant {
        let activity = &self.peer.activity;
        let check_at = self.close_at.unwrap_or_else(|| self.watch.next_check(activity));
        let leaves_at = self.leaving.next_check(activity, clock::now());
        leaves_at.map_or(check_at, |at| at.min(check_at))
    }

    /// Returns whether the connection is to end once its requests have.
    fn check(&mut self) -> anyhow::Result<bool> {
        let (activity, now) = (&self.peer.activity, clock::now());
        let leaves = self.leaving.check(activity, now);
        if let Some(close_at) = self.close_at {
            ensure!(now < close_at, "the client does not let go");
            return Ok(leaves);
        }
        match self.watch.check(activity, now) {
            None => Ok(leaves),
            Some(Timeout::Stalled) => bail!("a request or response stalls"),
            Some(Timeout::Age) => Ok(true),
            Some(Timeout::Idle) => {
                self.close_at = Some(now + CLOSING);
                Ok(true)
            }
        }
    }
}
