//! Exchange of a request and its response, as the access log and metrics have it.

use std::net::IpAddr;
use std::time::Duration;
use std::time::SystemTime;

use crate::http::origin_report::OriginTimes;
use crate::http::request_summary::RequestSummary;

/// Status, in logs and metrics, of a request that ended before it had a response: nginx's, which tools for
/// logs know.
pub const ENDED_WITHOUT_RESPONSE: u16 = 499;

/// Version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http10,
    Http11,
    Http2,
    Http3,
}

impl Protocol {
    /// Returns the name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}

/// A request whose exchange has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    pub protocol: Protocol,
    pub summary: RequestSummary,

    /// Client whose address a trusted proxy has told.
    pub client: Option<IpAddr>,

    /// Whether it came in early data.
    pub is_early: bool,

    /// User whose password the request had, if it needed one.
    pub user: Option<Box<str>>,

    /// What the cache has done, if the response is one of an origin that has one.
    pub cache: Option<&'static str>,

    /// What an origin has done for it, if one was asked.
    pub origin: Option<Box<OriginTimes>>,
    pub started: SystemTime,
    pub duration: Duration,

    /// Time from the request to the response's first byte in the transport, if there was one.
    pub first_byte: Option<Duration>,
    pub status: u16,

    /// Bytes of the response's body that the transport has taken.
    pub bytes: u64,

    /// Whether the client has the whole response, as far as can be known.
    pub complete: bool,
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    /// Returns a request whose response, of one byte, is complete.
    pub fn finished() -> FinishedRequest {
        FinishedRequest {
            protocol: Protocol::Http3,
            summary: RequestSummary::default(),
            client: None,
            is_early: false,
            user: None,
            cache: None,
            origin: None,
            started: UNIX_EPOCH,
            duration: Duration::ZERO,
            first_byte: None,
            status: 200,
            bytes: 1,
            complete: true,
        }
    }
}
