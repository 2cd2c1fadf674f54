//! Connector to an origin: over TCP, and with TLS whose certificate is checked.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context as _;
use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use hyper::http::uri::Scheme;
use hyper::Uri;
use hyper_util::client::legacy::connect::Connected;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_boring::SslStream;
use tower_service::Service;

/// Protocols that origins may choose, as ALPN has them (RFC 7301, 3.1).
const PROTOCOLS: &[u8] = b"\x08http/1.1";

/// Connector to one origin.
#[derive(Clone)]
pub struct OriginConnector {
    tcp: HttpConnector,

    /// Absent for origins without TLS.
    tls: Option<SslConnector>,
    connect_time: Duration,
}

/// Connection to an origin.
pub enum OriginStream {
    Plain(TcpStream),
    Tls(SslStream<TcpStream>),
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<OriginStream>>> + Send>>;

impl OriginConnector {
    /// Returns a connector for this scheme, which gives up after `connect_time`. A file may name the
    /// authorities in place of the system's.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn new(scheme: &Scheme, ca: Option<&Path>, connect_time: Duration) -> anyhow::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_time));
        let tls = (*scheme == Scheme::HTTPS).then(|| tls(ca)).transpose()?;
        Ok(Self { tcp, tls, connect_time })
    }
}

/// Returns the settings of TLS.
fn tls(ca: Option<&Path>) -> anyhow::Result<SslConnector> {
    // It checks certificates, and names in them.
    let mut tls = SslConnector::builder(SslMethod::tls()).context("origin: cannot set up TLS")?;
    tls.set_alpn_protos(PROTOCOLS).context("origin: cannot set up TLS")?;
    if let Some(ca) = ca {
        let store = boring::x509::store::X509StoreBuilder::new().context("cannot set up TLS")?;
        tls.set_cert_store_builder(store);
        let shown = ca.display();
        tls.set_ca_file(ca).with_context(|| {
            format!("origin: cannot use ca = '{shown}'; name a readable file of certificates, PEM")
        })?;
    }
    Ok(tls.build())
}

impl Service<Uri> for OriginConnector {
    type Response = TokioIo<OriginStream>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_ready(cx).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let (connecting, tls, connect_time) =
            (self.tcp.call(uri), self.tls.clone(), self.connect_time);
        Box::pin(async move {
            let connected = timeout(connect_time, async {
                let stream = connecting.await.map_err(io::Error::other)?.into_inner();
                let Some(tls) = tls else { return Ok(OriginStream::Plain(stream)) };
                let tls = tls.configure().map_err(io::Error::other)?;
                let stream = tokio_boring::connect(tls, &host, stream).await;
                stream.map(OriginStream::Tls).map_err(|e| io::Error::other(e.to_string()))
            });
            connected.await.map_err(|_| io::ErrorKind::TimedOut)?.map(TokioIo::new)
        })
    }
}

impl Connection for OriginStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for OriginStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
