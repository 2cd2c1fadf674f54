//! Exchange of a request and its response, as the access log and metrics have it.

use std::time::Duration;
use std::time::SystemTime;

use crate::http::request::FieldLine;

/// The most that is kept of a request's path, and of any other field, in bytes.
pub const PATH_BYTES_MAX: usize = 8 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// The most of each text that is shortened, in bytes.
const SHORT_BYTES_MAX: usize = 128;

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

    /// User whose password the request had, if it needed one.
    pub user: Option<Box<str>>,
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

impl RequestSummary {
    /// Returns the bytes of its texts.
    pub fn bytes(&self) -> usize {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.method.len()
            + self.host.len()
            + self.path.len()
            + optional(&self.user_agent)
            + optional(&self.referer)
    }

    /// Keeps little of each text.
    pub fn shorten(&mut self) {
        for text in [&mut self.method, &mut self.host, &mut self.path]
            .into_iter()
            .chain(&mut self.user_agent)
            .chain(&mut self.referer)
        {
            let ends = (0..=text.len().min(SHORT_BYTES_MAX)).rev();
            let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            text.shrink_to_fit();
        }
    }
}

fn text_of(value: &[u8], bytes_max: usize) -> String {
    let value = &value[..value.len().min(bytes_max)];
    // The usual case, without a search for what is invalid.
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(value).into_owned(),
    }
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
            user: None,
            started: UNIX_EPOCH,
            duration: Duration::ZERO,
            first_byte: None,
            status: 200,
            bytes: 1,
            complete: true,
        }
    }

    #[test]
    fn shortened_summary_has_the_beginning_of_each_text() {
        let long = "é".repeat(300);
        let line = |name: &'static str, value| FieldLine { name: name.as_bytes(), value };
        let lines = [
            line(":method", b"GET"),
            line(":path", long.as_bytes()),
            line("user-agent", long.as_bytes()),
            line("user-agent", b"second"),
        ];
        let mut summary = RequestSummary::read(lines);
        assert_eq!(summary.bytes(), 3 + 2 * long.len());
        summary.shorten();
        let short = "é".repeat(SHORT_BYTES_MAX / 2);
        assert_eq!((summary.method.as_str(), &summary.path), ("GET", &short));
        assert_eq!((summary.user_agent, summary.referer), (Some(short), None));
    }
}
