//! Servers of this program behind an origin, by their names in `Via`: a request that one of them has passed on
//! comes back to it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use hyper::header::HeaderMap;
use hyper::header::VIA;

use crate::content::origin::fields::server_names;
use crate::http::request::Request;

/// Names that are remembered, the last ones.
const SERVERS_MAX: usize = 16;

/// Servers that have passed on responses of one origin.
#[derive(Debug, Default)]
pub struct ServersBehind(Mutex<VecDeque<Box<str>>>);

impl ServersBehind {
    /// Notes those that have passed on a response with these fields.
    pub fn on_response(&self, headers: &HeaderMap) {
        let lines = headers.get_all(VIA).iter().filter_map(|line| line.to_str().ok());
        for name in lines.flat_map(server_names) {
            let mut names = self.names();
            if !names.iter().any(|own| **own == *name) {
                names.truncate(SERVERS_MAX - 1);
                names.push_front(name.into());
            }
        }
    }

    /// Returns whether one of them has passed a request on.
    pub fn have_sent(&self, request: &Request<'_>) -> bool {
        let mut senders = request.values("via").flat_map(server_names).peekable();
        if senders.peek().is_none() {
            return false;
        }
        let names = self.names();
        senders.any(|name| names.iter().any(|own| **own == *name))
    }

    fn names(&self) -> MutexGuard<'_, VecDeque<Box<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use quiche::h3;

    fn name(number: usize) -> String {
        format!("edge-server-{number:016x}")
    }

    fn have_sent(servers: &ServersBehind, via: &str) -> bool {
        let start = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let lines = start.into_iter().chain([("via", via)]);
        let lines: Vec<_> =
            lines.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).collect();
        servers.have_sent(&Request::read(&lines).unwrap())
    }

    #[test]
    fn servers_of_responses_are_known_in_requests() {
        let servers = ServersBehind::default();
        let via = format!("1.1 other, 2 {}", name(1));
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_str(&via).unwrap());
        headers.append(VIA, HeaderValue::from_str(&format!("1.1 {}", name(2))).unwrap());
        assert!(!have_sent(&servers, &via));
        servers.on_response(&headers);
        for (via, expected) in [
            (via, true),
            (format!("3 {} (comment)", name(2)), true),
            (format!("3 {}", name(3)), false),
            ("1.1 other".to_owned(), false),
            ("1.1".to_owned(), false),
        ] {
            assert_eq!(have_sent(&servers, &via), expected, "{via}");
        }
        for number in 2..1000 {
            let via = HeaderValue::from_str(&format!("2 {}", name(number))).unwrap();
            servers.on_response(&[(VIA, via)].into_iter().collect());
        }
        assert_eq!(servers.names().len(), SERVERS_MAX);
        assert!(have_sent(&servers, &format!("2 {}", name(999))));
    }
}
