//! Attempt to get the response to a request from one upstream, and whether another may follow.

use std::error::Error;
use std::io;

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::header::HOST;
use hyper::header::TE;
use hyper::http::request::Parts;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper::Uri;
use hyper::Version;

use crate::content::origin::connector::ConnectError;
use crate::content::origin::error::OriginError;
use crate::content::origin::pool::OriginLease;
use crate::content::origin::pool::SendError;
use crate::content::origin::upload::ContentMonitor;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::upstream::Upstream;
use crate::http::request;
use crate::http::request::FieldLine;

/// Largest header section of a response, in bytes (RFC 9114, 4.2.2): with fields that are added, clients of
/// later versions take it.
const FIELDS_BYTES_MAX: usize = 12 << 10;

/// Reason why an attempt has no response.
#[derive(Debug)]
pub struct AttemptError {
    pub error: OriginError,
    pub extent: SentExtent,

    /// The connection had a request before. Its end says nothing of the upstream.
    pub is_reused: bool,
}

/// How much of a request the upstream may have handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentExtent {
    /// None, for there was no connection.
    Unconnected,

    /// None, for it was not sent, or the upstream says so.
    Unhandled,

    /// Any, and the connection has ended.
    Ended,

    /// It is not to be sent again.
    Final,
}

impl SentExtent {
    /// Returns whether a request may be sent again after this (RFC 9110, 9.2.2).
    pub fn allows_another(self, method: &Method) -> bool {
        match self {
            Self::Unconnected | Self::Unhandled => true,
            Self::Ended => method.is_idempotent(),
            Self::Final => false,
        }
    }
}

impl From<ConnectError> for AttemptError {
    fn from(error: ConnectError) -> Self {
        let error = match error {
            ConnectError::TimedOut => OriginError::Timeout,
            ConnectError::Failed(why) => OriginError::Unreachable(why),
        };
        Self { error, extent: SentExtent::Unconnected, is_reused: false }
    }
}

/// Sends a request to an upstream, and returns the response once it has begun, with its connection.
///
/// # Errors
///
/// There is no response.
pub async fn attempt(
    upstream: &Upstream,
    head: Parts,
    content: OriginContent,
    is_fresh: bool,
) -> Result<(Response<Incoming>, OriginLease), AttemptError> {
    let monitor = content.monitor();
    let mut lease = upstream.pool.lease(is_fresh).await?;
    let request = Request::from_parts(head_for(head, upstream, lease.is_http2()), content);
    let is_reused = lease.is_reused;
    let failed = |error, extent| AttemptError { error, extent, is_reused };
    match lease.send(request).await {
        Ok(response) => match problem_of(&response) {
            None => Ok((response, lease)),
            Some(why) => Err(failed(OriginError::Malformed(why), SentExtent::Final)),
        },
        Err(SendError::NoStreams) => {
            let why = "it allows no streams (SETTINGS_MAX_CONCURRENT_STREAMS is 0)";
            // It may have got the request before it said so.
            Err(failed(OriginError::Unreachable(why.to_owned()), SentExtent::Ended))
        }
        Err(SendError::Failed(e)) => {
            let extent = extent_of(&e);
            Err(failed(error_of(&e.into_error(), &monitor), extent))
        }
    }
}

/// Returns the head of a request as a version of HTTP has it.
fn head_for(mut head: Parts, upstream: &Upstream, is_http2: bool) -> Parts {
    let mut parts = head.uri.into_parts();
    match is_http2 {
        true => {
            parts.scheme = upstream.uri.scheme().cloned();
            // RFC 9113, 8.3.1: :authority takes its place.
            head.headers.remove(HOST);
            head.version = Version::HTTP_2;
        }
        false => {
            (parts.scheme, parts.authority) = (None, None);
            // It is of the connection there.
            head.headers.remove(TE);
        }
    }
    // It is what it was, without some of its parts.
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    head
}

fn problem_of(response: &Response<Incoming>) -> Option<String> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Some("101, which was not asked for".to_owned());
    }
    let is_long = section_bytes(response) > FIELDS_BYTES_MAX;
    is_long.then(|| format!("a header of more than {FIELDS_BYTES_MAX} bytes"))
}

/// Returns the size of a header section, in bytes.
fn section_bytes(response: &Response<Incoming>) -> usize {
    let lines = response.headers().iter();
    let lines = lines
        .map(|(name, value)| FieldLine { name: name.as_str().as_bytes(), value: value.as_bytes() });
    request::section_bytes(lines)
}

fn extent_of(error: &TrySendError<Request<OriginContent>>) -> SentExtent {
    if error.message().is_some() {
        return SentExtent::Unhandled;
    }
    let error = error.error();
    let is_unhandled = |error: &h2::Error| {
        // RFC 9113, 6.8 and 8.7: a stream that GOAWAY leaves out, or that is refused.
        error.is_remote()
            && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    };
    let is_ended = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    };
    if any_cause(error, is_unhandled) {
        return SentExtent::Unhandled;
    }
    let has_ended = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    let is_silent =
        error.is_timeout() || any_cause(error, |error: &hyper::Error| error.is_timeout());
    let has_ended = has_ended || is_silent || any_cause(error, is_ended);
    let has_ended =
        has_ended || any_cause(error, |error: &h2::Error| error.get_io().is_some_and(is_ended));
    if has_ended {
        SentExtent::Ended
    } else {
        SentExtent::Final
    }
}

fn error_of(error: &hyper::Error, content: &ContentMonitor) -> OriginError {
    if let Some(kind) = content.failure() {
        return OriginError::Content { is_too_long: kind == io::ErrorKind::FileTooLarge };
    }
    let why = causes(error).last().map_or_else(|| error.to_string(), ToString::to_string);
    OriginError::Malformed(why)
}

fn any_cause<E: Error + 'static>(error: &hyper::Error, is_so: impl Fn(&E) -> bool) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(&is_so))
}

fn causes<'a>(error: &'a hyper::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}
