//! Connector to an upstream: over TCP, and with TLS whose certificate is checked.

use std::fmt;
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
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use path_store::small_file;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_boring::SslStream;
use tower_service::Service;

use crate::config::file::OriginHttpVersion;

/// Protocols that upstreams may choose, as ALPN has them (RFC 7301, 3.1).
const HTTP2: &[u8] = b"h2";
const ALPN_HTTP11: &[u8] = b"\x08http/1.1";
const ALPN_HTTP2: &[u8] = b"\x02h2";
const ALPN_BOTH: &[u8] = b"\x02h2\x08http/1.1";

/// Connector to one upstream.
#[derive(Clone)]
pub struct OriginConnector {
    tcp: HttpConnector,
    uri: Uri,

    /// Absent for upstreams without TLS.
    tls: Option<SslConnector>,
    version: OriginHttpVersion,
    pub connect_time: Duration,
}

/// Connection to an upstream.
pub enum OriginStream {
    Plain(TcpStream),
    Tls(SslStream<TcpStream>),
}

/// Reason why there is no connection.
#[derive(Clone, Debug)]
pub enum ConnectError {
    TimedOut,
    Failed(String),
}

impl OriginConnector {
    /// Returns a connector to the upstream at a URI, which gives up after `connect_time`. A file may
    /// name the authorities in place of the system's.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn new(
        uri: Uri,
        ca: Option<&Path>,
        version: OriginHttpVersion,
        connect_time: Duration,
    ) -> anyhow::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_time));
        let has_tls = uri.scheme() == Some(&Scheme::HTTPS);
        let tls = has_tls.then(|| tls(ca, version)).transpose()?;
        Ok(Self { tcp, uri, tls, version, connect_time })
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// There is none in time, or none that is trusted.
    pub async fn connect(&self) -> Result<OriginStream, ConnectError> {
        let connected = timeout(self.connect_time, self.open()).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|e| {
            match e.kind() == io::ErrorKind::TimedOut {
                true => ConnectError::TimedOut,
                false => ConnectError::Failed(root_of(&e)),
            }
        })
    }

    async fn open(&self) -> io::Result<OriginStream> {
        let connecting = self.tcp.clone().call(self.uri.clone());
        let stream = connecting.await.map_err(io::Error::other)?.into_inner();
        let Some(tls) = &self.tls else { return Ok(OriginStream::Plain(stream)) };
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let tls = tls.configure().map_err(io::Error::other)?;
        let stream = tokio_boring::connect(tls, host, stream).await;
        let stream = stream.map_err(|e| io::Error::other(e.to_string()))?;
        let is_http2 = stream.ssl().selected_alpn_protocol() == Some(HTTP2);
        match self.version == OriginHttpVersion::Http2 && !is_http2 {
            true => Err(io::Error::other("it has no HTTP/2 (ALPN), which http-version asks for")),
            false => Ok(OriginStream::Tls(stream)),
        }
    }

    /// Returns whether a connection has HTTP/2.
    pub fn is_http2(&self, stream: &OriginStream) -> bool {
        match stream {
            OriginStream::Plain(_) => self.version == OriginHttpVersion::Http2,
            OriginStream::Tls(stream) => stream.ssl().selected_alpn_protocol() == Some(HTTP2),
        }
    }

    /// Returns whether connections may have HTTP/2.
    pub fn may_have_http2(&self) -> bool {
        match self.version {
            OriginHttpVersion::Auto => self.tls.is_some(),
            OriginHttpVersion::Http11 => false,
            OriginHttpVersion::Http2 => true,
        }
    }
}

impl fmt::Debug for OriginConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginConnector").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// Returns the text of the error below all others.
fn root_of(error: &io::Error) -> String {
    let first = error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static));
    let causes = std::iter::successors(first, |cause| cause.source());
    causes.last().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the settings of TLS.
fn tls(ca: Option<&Path>, version: OriginHttpVersion) -> anyhow::Result<SslConnector> {
    // It checks certificates, and names in them.
    let mut tls = SslConnector::builder(SslMethod::tls()).context("origin: cannot set up TLS")?;
    let protocols = match version {
        OriginHttpVersion::Auto => ALPN_BOTH,
        OriginHttpVersion::Http11 => ALPN_HTTP11,
        OriginHttpVersion::Http2 => ALPN_HTTP2,
    };
    tls.set_alpn_protos(protocols).context("origin: cannot set up TLS")?;
    if let Some(ca) = ca {
        let store = boring::x509::store::X509StoreBuilder::new().context("cannot set up TLS")?;
        tls.set_cert_store_builder(store);
        let shown = ca.display();
        // BoringSSL would read a file without an end for ever.
        let read = small_file::read(ca).map_err(anyhow::Error::from);
        read.and_then(|_| Ok(tls.set_ca_file(ca)?)).with_context(|| {
            format!("origin: cannot use ca = '{shown}'; name a readable file of certificates, PEM")
        })?;
    }
    Ok(tls.build())
}

impl OriginStream {
    /// Returns the connection as hyper takes it.
    pub fn into_io(self) -> TokioIo<Self> {
        TokioIo::new(self)
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
