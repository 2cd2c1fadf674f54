//! One connection of a load, over each version of HTTP.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use boring::ssl::SslConnector;
use futures_util::future::join_all;
use http_body_util::BodyExt;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::client::conn::http2;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

use super::http3::Http3Task;
use crate::support::tcp_client::configuration;
use crate::support::tcp_client::connector;

/// Requests at a time, where a version has several.
const REQUESTS_MAX: usize = 4;

/// TLS of all connections.
static HTTP11: LazyLock<SslConnector> = LazyLock::new(|| connector(b"\x08http/1.1"));
static HTTP2: LazyLock<SslConnector> = LazyLock::new(|| connector(b"\x02h2"));

/// Version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadVersion {
    Http11,
    Http2,
    Http3,
}

/// A request.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// Number of the object.
    pub object: usize,
    pub kind: RequestKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Get,
    Head,

    /// A range, first and last byte.
    Range(usize, usize),

    /// Unless it is still this version.
    Unless(u64),
}

/// A whole response.
#[derive(Debug)]
pub struct LoadAnswer {
    pub status: u16,
    pub fields: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum LoadOutcome {
    Answer(LoadAnswer),

    /// The body breaks off, as the server tells.
    Broken,

    /// The connection ends, and the request may be sent again: the server has not processed it.
    NotProcessed,

    /// The connection ends for no such reason.
    Lost(String),
}

/// An open connection.
pub enum LoadConnection {
    Http11(http1::SendRequest<Empty<Bytes>>, u64),
    Http2(http2::SendRequest<Empty<Bytes>>),
    Http3(Box<Http3Task>),
}

impl LoadVersion {
    pub const ALL: [Self; 3] = [Self::Http11, Self::Http2, Self::Http3];

    /// Returns how many requests a client sends at a time.
    pub fn requests_max(self) -> usize {
        match self {
            Self::Http11 => 1,
            Self::Http2 | Self::Http3 => REQUESTS_MAX,
        }
    }
}

impl RequestKind {
    pub fn method(&self) -> &'static str {
        match self {
            Self::Head => "HEAD",
            _ => "GET",
        }
    }

    pub fn field(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Range(first, last) => Some(("range", format!("bytes={first}-{last}"))),
            Self::Unless(version) => Some(("if-none-match", format!("\"{version}\""))),
            Self::Get | Self::Head => None,
        }
    }
}

impl LoadConnection {
    /// Connects from a loopback address.
    pub async fn open(
        version: LoadVersion,
        from: Ipv4Addr,
        server: SocketAddr,
    ) -> io::Result<Self> {
        let connector = match version {
            LoadVersion::Http11 => &HTTP11,
            LoadVersion::Http2 => &HTTP2,
            LoadVersion::Http3 => {
                return Ok(Self::Http3(Box::new(Http3Task::connect(from, server).await?)));
            }
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind((IpAddr::V4(from), 0).into())?;
        let stream = socket.connect(server).await?;
        let stream = tokio_boring::connect(configuration(connector), "localhost", stream).await;
        let io = TokioIo::new(stream.map_err(|e| io::Error::other(e.to_string()))?);
        match version {
            LoadVersion::Http11 => {
                let (sender, connection) = http1::handshake(io).await.map_err(io::Error::other)?;
                tokio::spawn(connection);
                Ok(Self::Http11(sender, 0))
            }
            _ => {
                let connected = http2::handshake(TokioExecutor::new(), io).await;
                let (sender, connection) = connected.map_err(io::Error::other)?;
                tokio::spawn(connection);
                Ok(Self::Http2(sender))
            }
        }
    }

    /// Returns whether further requests make sense.
    pub fn is_usable(&self) -> bool {
        match self {
            Self::Http11(sender, _) => !sender.is_closed(),
            Self::Http2(sender) => !sender.is_closed(),
            Self::Http3(task) => task.is_usable(),
        }
    }

    /// Sends requests for paths, and returns what becomes of them.
    pub async fn send(&mut self, requests: &[(&str, &RequestKind)]) -> Vec<LoadOutcome> {
        match self {
            Self::Http11(sender, sent) => {
                let mut outcomes = Vec::new();
                for (path, kind) in requests {
                    outcomes.push(send_over_http11(sender, *sent > 0, path, kind).await);
                    *sent += 1;
                }
                outcomes
            }
            Self::Http2(sender) => {
                let send = |(path, kind): &(&str, &RequestKind)| {
                    let (mut sender, uri) = (sender.clone(), format!("https://localhost{path}"));
                    let request = request(kind, &uri, None);
                    async move {
                        let response = sender.send_request(request).await;
                        outcome(response, is_refused).await
                    }
                };
                join_all(requests.iter().map(send)).await
            }
            Self::Http3(task) => {
                let requests: Vec<_> =
                    requests.iter().map(|(path, kind)| http3_fields(path, kind)).collect();
                task.send(&requests).await
            }
        }
    }

    /// Waits for a while.
    pub async fn pause(&mut self, time: Duration) {
        match self {
            Self::Http3(task) => task.pause(time).await,
            _ => tokio::time::sleep(time).await,
        }
    }

    pub async fn close(self) {
        if let Self::Http3(mut task) = self {
            task.close().await;
        }
    }
}

fn http3_fields(path: &str, kind: &RequestKind) -> Vec<(String, String)> {
    let pseudo = [
        (":method", kind.method()),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    let pseudo = pseudo.into_iter().map(|(name, value)| (name, value.to_owned()));
    pseudo.chain(kind.field()).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn request(kind: &RequestKind, uri: &str, host: Option<&str>) -> Request<Empty<Bytes>> {
    let request = Request::builder().method(kind.method()).uri(uri);
    let request = host.into_iter().fold(request, |request, host| request.header("host", host));
    let request = kind
        .field()
        .into_iter()
        .fold(request, |request, (name, value)| request.header(name, value));
    request.body(Empty::new()).unwrap()
}

/// Sends a request. On a connection that was idle, the server may have ended it at the same time (RFC 9112, 9.6).
async fn send_over_http11(
    sender: &mut http1::SendRequest<Empty<Bytes>>,
    was_idle: bool,
    path: &str,
    kind: &RequestKind,
) -> LoadOutcome {
    if sender.ready().await.is_err() {
        return LoadOutcome::NotProcessed;
    }
    let response = sender.send_request(request(kind, path, Some("localhost"))).await;
    let is_race =
        |e: &hyper::Error| was_idle && (e.is_incomplete_message() || io_kind(e).is_some());
    outcome(response, |e| e.is_canceled() || is_race(e)).await
}

/// Returns what becomes of a request, which is not processed after some errors.
async fn outcome(
    response: hyper::Result<Response<hyper::body::Incoming>>,
    is_not_processed: impl Fn(&hyper::Error) -> bool,
) -> LoadOutcome {
    let response = match response {
        Ok(response) => response,
        Err(e) if is_not_processed(&e) => return LoadOutcome::NotProcessed,
        Err(e) => return LoadOutcome::Lost(shown(&e)),
    };
    let (head, body) = response.into_parts();
    let Ok(body) = body.collect().await else { return LoadOutcome::Broken };
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let fields = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let (status, body) = (head.status.as_u16(), body.to_bytes().to_vec());
    LoadOutcome::Answer(LoadAnswer { status, fields: fields.collect(), body })
}

/// Returns whether the server has not processed a request over HTTP/2: it says so for the stream, or names an earlier one
/// as the last (RFC 9113, 6.8 and 8.7).
fn is_refused(error: &hyper::Error) -> bool {
    let of_http2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let is_refused = of_http2.is_some_and(|e| {
        e.reason() == Some(h2::Reason::REFUSED_STREAM)
            || e.is_go_away() && e.is_remote() && e.reason() == Some(h2::Reason::NO_ERROR)
    });
    error.is_canceled() || is_refused
}

fn io_kind(error: &hyper::Error) -> Option<io::ErrorKind> {
    error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind)
}

fn shown(error: &hyper::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
