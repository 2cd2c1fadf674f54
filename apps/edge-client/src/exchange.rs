//! HTTP/3 request and its response, without socket or clock.

use std::time::Instant;

use quiche::h3;
use quiche::h3::NameValue;

use crate::body::Body;
use crate::failure::Failure;
use crate::header_field::HeaderField;
use crate::target::Target;

/// Most bytes to read from the stream at a time.
pub const CHUNK: usize = 256 << 10;

/// Largest header section of a response, in bytes.
const HEADERS_MAX: u64 = 64 << 10;

const USER_AGENT: &str = concat!("edge-client/", env!("CARGO_PKG_VERSION"));

/// A GET and its response so far.
pub struct Exchange {
    request: Vec<h3::Header>,
    stream: Option<u64>,
    chunk: Box<[u8]>,

    /// Final status; None before the response's headers.
    pub status: Option<u16>,

    /// The `content-length` of the response.
    pub length: Option<u64>,

    /// Body bytes received.
    pub received: u64,

    /// Arrival of the first body byte, or of the end of an empty body.
    pub first_byte_at: Option<Instant>,

    /// Arrival of the last body byte so far.
    pub last_byte_at: Option<Instant>,

    /// The whole response has arrived.
    pub complete: bool,
}

impl Exchange {
    /// Creates the request for `target`, with these fields besides those of every request.
    pub fn new(target: &Target, fields: &[HeaderField]) -> Self {
        Self {
            request: request(target, fields),
            stream: None,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            status: None,
            length: None,
            received: 0,
            first_byte_at: None,
            last_byte_at: None,
            complete: false,
        }
    }

    /// Returns the client's HTTP/3 settings.
    pub fn config() -> h3::Config {
        let mut config = h3::Config::new().expect("no memory for settings");
        config.set_max_field_section_size(HEADERS_MAX);
        config
    }

    /// Sends the request once it can, and handles what has arrived by `now`.
    pub fn process(
        &mut self,
        conn: &mut quiche::Connection,
        http: &mut h3::Connection,
        body: &mut Body,
        now: Instant,
    ) -> Result<(), Failure> {
        if self.stream.is_none() {
            match http.send_request(conn, &self.request, true) {
                Ok(stream) => self.stream = Some(stream),
                // The server allows no stream yet.
                Err(h3::Error::StreamBlocked) => (),
                Err(h3::Error::TransportError(quiche::Error::StreamLimit)) => (),
                Err(e) => return Err(http_failure(e)),
            }
        }

        while !self.complete {
            let (stream, event) = match http.poll(conn) {
                Ok(polled) => polled,
                Err(h3::Error::Done) => break,
                Err(e) => return Err(http_failure(e)),
            };
            if Some(stream) != self.stream {
                continue;
            }
            match event {
                h3::Event::Headers { list, .. } => self.on_headers(&list)?,
                h3::Event::Data => self.read_body(conn, http, body, now)?,
                h3::Event::Finished => self.on_finished(now)?,
                h3::Event::Reset(code) => {
                    return Err(Failure::failed(format!(
                        "the server gave up after {} (HTTP/3 error {code:#x})",
                        self.extent()
                    )))
                }
                h3::Event::PriorityUpdate | h3::Event::GoAway => (),
            }
        }
        Ok(())
    }

    /// Describes how much of the body has arrived.
    pub fn extent(&self) -> String {
        match self.length {
            Some(length) => format!("{} of {length} bytes", self.received),
            None => format!("{} bytes", self.received),
        }
    }

    fn on_headers(&mut self, list: &[h3::Header]) -> Result<(), Failure> {
        if self.status.is_some() {
            // Trailers.
            return Ok(());
        }
        let status: u16 = find(list, b":status")
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| Failure::failed("the response has no status"))?;
        match status {
            // Interim response.
            100..=199 => return Ok(()),
            200..=299 => (),
            _ => {
                self.status = Some(status);
                return Err(bad_status(status, find(list, b"location")));
            }
        }
        self.status = Some(status);
        self.length = find(list, b"content-length").and_then(|v| v.parse().ok());
        Ok(())
    }

    fn read_body(
        &mut self,
        conn: &mut quiche::Connection,
        http: &mut h3::Connection,
        body: &mut Body,
        now: Instant,
    ) -> Result<(), Failure> {
        let Some(stream) = self.stream else {
            return Ok(());
        };
        loop {
            match http.recv_body(conn, stream, &mut self.chunk) {
                Ok(count) => {
                    self.first_byte_at.get_or_insert(now);
                    self.last_byte_at = Some(now);
                    self.received += count as u64;
                    body.write(&self.chunk[..count])?;
                }
                Err(h3::Error::Done) => return Ok(()),
                Err(e) => return Err(http_failure(e)),
            }
        }
    }

    fn on_finished(&mut self, now: Instant) -> Result<(), Failure> {
        if self.status.is_none() {
            return Err(Failure::failed("the server sent no response"));
        }
        if self.length.is_some_and(|length| length != self.received) {
            return Err(Failure::failed(format!("the body ended after {}", self.extent())));
        }
        self.first_byte_at.get_or_insert(now);
        self.last_byte_at.get_or_insert(now);
        self.complete = true;
        Ok(())
    }
}

/// Returns the header section of a GET, with these fields besides those of every request.
pub fn request(target: &Target, fields: &[HeaderField]) -> Vec<h3::Header> {
    let header = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
    let mut list = vec![
        header(":method", "GET"),
        header(":scheme", "https"),
        header(":authority", &target.authority),
        header(":path", &target.path),
        header("user-agent", USER_AGENT),
        header("accept", "*/*"),
    ];
    HeaderField::set_in(fields, &mut list);
    list
}

/// Returns the value of a header field.
pub fn find<'a>(list: &'a [h3::Header], name: &[u8]) -> Option<&'a str> {
    let header = list.iter().find(|header| header.name() == name)?;
    std::str::from_utf8(header.value()).ok()
}

fn bad_status(status: u16, location: Option<&str>) -> Failure {
    Failure::failed(match (status, location) {
        (300..=399, Some(location)) => format!(
            "the server answered {status} and points to {location}; redirects \
             are not followed, ask for that URL"
        ),
        _ => format!("the server answered {status}"),
    })
}

fn http_failure(error: h3::Error) -> Failure {
    Failure::failed(format!("HTTP/3 failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange() -> Exchange {
        Exchange::new(&"https://h/x".parse().unwrap(), &[])
    }

    fn headers(list: &[(&str, &str)]) -> Vec<h3::Header> {
        list.iter().map(|(n, v)| h3::Header::new(n.as_bytes(), v.as_bytes())).collect()
    }

    #[test]
    fn status_2xx_alone_is_success() {
        for (status, good) in [(200, true), (206, true), (302, false), (404, false), (503, false)] {
            let list = headers(&[(":status", &status.to_string())]);
            let mut exchange = exchange();
            let result = exchange.on_headers(&list);
            assert_eq!(result.is_ok(), good, "{status}");
            assert_eq!(exchange.status, Some(status));
            if let Err(failure) = result {
                assert!(failure.to_string().contains(&status.to_string()));
            }
        }
    }

    #[test]
    fn interim_response_is_skipped() {
        let mut exchange = exchange();
        exchange.on_headers(&headers(&[(":status", "103")])).unwrap();
        assert_eq!(exchange.status, None);
        exchange.on_headers(&headers(&[(":status", "200"), ("content-length", "7")])).unwrap();
        assert_eq!((exchange.status, exchange.length), (Some(200), Some(7)));
    }

    #[test]
    fn redirect_error_names_its_location() {
        let list = headers(&[(":status", "301"), ("location", "/there")]);
        let failure = exchange().on_headers(&list).unwrap_err();
        assert!(failure.to_string().contains("/there"));
    }

    #[test]
    fn response_without_status_is_refused() {
        for list in [headers(&[("x", "y")]), headers(&[(":status", "ok")])] {
            assert!(exchange().on_headers(&list).is_err());
        }
    }
}
