//! Exchange of a request and its response, as the access log and metrics have it.

use std::time::Duration;
use std::time::SystemTime;

use crate::http::request::FieldLine;

/// The most that is kept of a request's path, and of any other field, in bytes.
pub const PATH_BYTES_MAX: usize = 8 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;

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

/// Summary of a request for the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    pub method: String,
    pub host: String,
    pub path: String,
    pub user_agent: Option<String>,
    pub referer: Option<String>,
}

/// A request whose exchange has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    pub protocol: Protocol,
    pub summary: RequestSummary,
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

impl RequestSummary {
    /// Returns the summary of a header section: of each field the first line.
    pub fn read<'a>(lines: impl IntoIterator<Item = impl Into<FieldLine<'a>>>) -> Self {
        let (mut method, mut path, mut user_agent, mut referer) = (None, None, None, None);
        let (mut authority, mut host) = (None, None);
        for line in lines {
            let FieldLine { name, value } = line.into();
            let (first, bytes_max) = match name {
                b":method" => (&mut method, TEXT_BYTES_MAX),
                b":path" => (&mut path, PATH_BYTES_MAX),
                b":authority" => (&mut authority, TEXT_BYTES_MAX),
                b"host" => (&mut host, TEXT_BYTES_MAX),
                b"user-agent" => (&mut user_agent, TEXT_BYTES_MAX),
                b"referer" => (&mut referer, TEXT_BYTES_MAX),
                _ => continue,
            };
            first.get_or_insert_with(|| text_of(value, bytes_max));
        }
        Self {
            method: method.unwrap_or_default(),
            host: authority.or(host).unwrap_or_default(),
            path: path.unwrap_or_default(),
            user_agent,
            referer,
        }
    }
}

fn text_of(value: &[u8], bytes_max: usize) -> String {
    String::from_utf8_lossy(&value[..value.len().min(bytes_max)]).into_owned()
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
            started: UNIX_EPOCH,
            duration: Duration::ZERO,
            first_byte: None,
            status: 200,
            bytes: 1,
            complete: true,
        }
    }
}
