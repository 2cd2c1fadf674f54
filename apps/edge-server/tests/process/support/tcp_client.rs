//! Client of HTTP/1.1 and HTTP/2 over TLS and TCP, which accepts any certificate.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;

use boring::ssl::ConnectConfiguration;
use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslStream;
use boring::ssl::SslVerifyMode;
use http_body_util::BodyExt;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::client::conn::http2;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use tokio::runtime;
use tokio::runtime::Runtime;

/// Version that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http11,
    Http2,
}

/// A connection.
pub struct TcpClient {
    runtime: Runtime,
    sender: Sender,
    pub certificate: Vec<u8>,
}

enum Sender {
    Http11(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Returns TLS clients that offer these protocols. It reads the authorities of the system, which takes a
/// while.
pub fn connector(protocols: &[u8]) -> SslConnector {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_alpn_protos(protocols).unwrap();
    connector.build()
}

/// Returns the settings of a TLS client.
pub fn configuration(connector: &SslConnector) -> ConnectConfiguration {
    let mut configuration = connector.configure().unwrap();
    configuration.set_verify_hostname(false);
    configuration
}

fn tls(protocols: &[u8]) -> ConnectConfiguration {
    configuration(&connector(protocols))
}

impl TcpClient {
    /// Connects to a host of a server.
    pub fn connect(server: SocketAddr, host: &str, version: Version) -> Self {
        Self::try_connect(server, host, version).unwrap()
    }

    /// Connects, unless the server refuses.
    pub fn try_connect(
        server: SocketAddr,
        host: &str,
        version: Version,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (sender, certificate) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(server).await?;
            let protocols: &[u8] = match version {
                Version::Http11 => b"\x08http/1.1",
                Version::Http2 => b"\x02h2",
            };
            let stream = tokio_boring::connect(tls(protocols), host, stream).await?;
            let certificate = stream.ssl().peer_certificate().unwrap().to_der()?;
            let io = TokioIo::new(stream);
            let sender = match version {
                Version::Http11 => {
                    let (sender, connection) = http1::handshake(io).await?;
                    tokio::spawn(connection);
                    Sender::Http11(sender)
                }
                Version::Http2 => {
                    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                    tokio::spawn(connection);
                    Sender::Http2(sender)
                }
            };
            Ok::<_, Box<dyn std::error::Error>>((sender, certificate))
        })?;
        Ok(Self { runtime, sender, certificate })
    }

    /// Sends a request, and returns the whole response. An extension has the fields that follow the body.
    pub fn try_send(&mut self, request: Request<Vec<u8>>) -> hyper::Result<Response<Bytes>> {
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let sender = &mut self.sender;
        self.runtime.block_on(async {
            let response = match sender {
                Sender::Http11(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await?
                }
                Sender::Http2(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await?
                }
            };
            let (mut head, body) = response.into_parts();
            let body = body.collect().await?;
            head.extensions.insert(body.trailers().cloned().unwrap_or_default());
            Ok(Response::from_parts(head, body.to_bytes()))
        })
    }

    /// Returns the response to a GET, with more fields.
    pub fn get(&mut self, host: &str, path: &str, fields: &[(&str, &str)]) -> Response<Bytes> {
        self.try_send(self.request("GET", host, path, fields, b"")).unwrap()
    }

    /// Returns a request in the form of the version.
    pub fn request(
        &self,
        method: &str,
        host: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Request<Vec<u8>> {
        let request = Request::builder().method(method);
        let request = match self.sender {
            Sender::Http11(_) => request.uri(path).header("host", host),
            Sender::Http2(_) => request.uri(format!("https://{host}{path}")),
        };
        let request =
            fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(body.to_vec()).unwrap()
    }

    /// Returns whether the server has ended the connection.
    pub fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http11(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }
}

/// Opens a TLS connection for bytes of a test's own.
pub fn open(server: SocketAddr, protocols: &[u8]) -> SslStream<TcpStream> {
    let stream = TcpStream::connect(server).unwrap();
    tls(protocols).connect("localhost", stream).unwrap()
}

/// Sends bytes over TLS, and returns all that comes until the server closes the connection.
pub fn exchange(server: SocketAddr, sent: &[u8]) -> String {
    let mut stream = open(server, b"\x08http/1.1");
    // The server may have closed before it has read all.
    let _ = stream.write_all(sent);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    String::from_utf8_lossy(&received).into_owned()
}
