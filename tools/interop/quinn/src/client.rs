//! Connection to the server, and requests on it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use bytes::Buf;
use bytes::Bytes;
use h3::client::SendRequest;
use http::request::Builder;
use http::HeaderMap;
use http::Request;
use http::StatusCode;
use http::Uri;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::ZeroRttAccepted;

use crate::tls;

/// How much of a body has arrived when a case acts during a download: with quinn's windows,
/// most of a large object is still to be sent then.
const MIDWAY_BYTES: usize = 1 << 20;

/// Address and settings of the server.
pub struct Server {
    origin: String,
    address: SocketAddr,
    settings: quinn::ClientConfig,
    pub verifier: Arc<tls::Verifier>,
}

impl Server {
    /// Creates the settings for the server at `url` with this certificate.
    ///
    /// # Errors
    ///
    /// The URL has no address, or the file no certificate.
    pub fn new(url: &Uri, certificate: &Path) -> anyhow::Result<Self> {
        let authority = url.authority().context("the URL has no address")?.as_str();
        let address = authority.parse().with_context(|| format!("{authority} is no address"))?;
        let (tls, verifier) = tls::settings(certificate)?;
        let settings = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        Ok(Self { origin: format!("https://{authority}"), address, settings, verifier })
    }

    /// Creates a request for `path`.
    pub fn request(&self, path: &str) -> Builder {
        Request::builder().uri(format!("{}{path}", self.origin))
    }

    fn dial(&self) -> anyhow::Result<(quinn::Endpoint, quinn::Connecting)> {
        let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse()?)?;
        endpoint.set_default_client_config(self.settings.clone());
        let connecting = endpoint.connect(self.address, &self.address.ip().to_string())?;
        Ok((endpoint, connecting))
    }
}

/// Response to a request.
pub struct Response {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
}

/// A connection.
#[derive(Clone)]
pub struct Client {
    pub endpoint: quinn::Endpoint,
    pub quic: quinn::Connection,
    requests: SendRequest<h3_quinn::OpenStreams, Bytes>,
}

impl Client {
    /// Connects.
    pub async fn connect(server: &Server) -> anyhow::Result<Self> {
        let (endpoint, connecting) = server.dial()?;
        Self::on(endpoint, connecting.await?).await
    }

    /// Connects with a saved session, to send requests at once. The future that it returns
    /// resolves to whether the server accepted them.
    ///
    /// # Errors
    ///
    /// There is no session, or none that allows it.
    pub async fn connect_early(server: &Server) -> anyhow::Result<(Self, ZeroRttAccepted)> {
        let (endpoint, connecting) = server.dial()?;
        let early = connecting.into_0rtt().ok().context("no session that allows early data")?;
        Ok((Self::on(endpoint, early.0).await?, early.1))
    }

    async fn on(endpoint: quinn::Endpoint, quic: quinn::Connection) -> anyhow::Result<Self> {
        let (mut driver, requests) =
            h3::client::new(h3_quinn::Connection::new(quic.clone())).await?;
        tokio::spawn(async move { driver.wait_idle().await });
        Ok(Self { endpoint, quic, requests })
    }

    /// Sends a request without a body.
    pub async fn send(&self, request: Request<()>) -> anyhow::Result<Response> {
        self.exchange(request, Bytes::new(), || Ok(())).await
    }

    /// Sends a request with `body`, and runs `midway` during a large response.
    pub async fn exchange(
        &self,
        request: Request<()>,
        body: Bytes,
        midway: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Response> {
        let mut stream = self.requests.clone().send_request(request).await?;
        if !body.is_empty() {
            stream.send_data(body).await?;
        }
        stream.finish().await?;
        let (head, ()) = stream.recv_response().await?.into_parts();
        let mut response = Response { status: head.status, fields: head.headers, body: Vec::new() };
        let mut midway = Some(midway);
        while let Some(mut data) = stream.recv_data().await? {
            while data.has_remaining() {
                response.body.extend_from_slice(data.chunk());
                data.advance(data.chunk().len());
            }
            if response.body.len() >= MIDWAY_BYTES {
                midway.take().map_or(Ok(()), |midway| midway())?;
            }
        }
        Ok(response)
    }

    /// Closes the connection, and waits until that is sent.
    pub async fn close(self) {
        self.quic.close(quinn::VarInt::from_u32(0x100), b"");
        self.endpoint.wait_idle().await;
    }
}

impl Response {
    /// Returns the value of a header field, empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
