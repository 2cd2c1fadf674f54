//! Exchanges under way on a connection: each lasts from its request until the client has
//! acknowledged the whole response, or either endpoint has cancelled it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use foldhash::HashMap;
use quiche::h3;

use crate::http::exchange::FinishedRequest;
use crate::http::exchange::Protocol;
use crate::http::exchange::ENDED_WITHOUT_RESPONSE;
use crate::http::origin_report::OriginReport;
use crate::http::request_summary::RequestSummary;
use crate::quic::Quic;

/// What an exchange takes besides: its stream, its response's fields and their writer.
const EXCHANGE_BYTES: u64 = 2 << 10;

/// Exchanges of one connection. Bounded by the number of requests that a client may have
/// under way.
pub struct Exchanges {
    /// By stream.
    under_way: HashMap<u64, Exchange>,

    /// Streams whose whole response the transport has taken.
    written: Vec<u64>,

    finished: Vec<FinishedRequest>,

    /// Whether summaries are kept.
    logged: bool,

    /// Bytes of the exchanges under way.
    kept_bytes: u64,
}

struct Exchange {
    summary: RequestSummary,

    /// Client whose address a trusted proxy has told.
    client: Option<IpAddr>,
    is_early: bool,
    started: (Instant, SystemTime),

    /// Absent until there is a response.
    status: Option<u16>,
    user: Option<Box<str>>,
    cache: Option<&'static str>,

    /// Absent unless an origin is to have the response.
    origin: Option<Arc<OriginReport>>,
    first_byte: Option<Duration>,
    bytes: u64,
}

impl Exchanges {
    /// Returns an empty set, which keeps summaries if they are to be `logged`.
    pub fn new(logged: bool) -> Self {
        Self {
            under_way: HashMap::default(),
            written: Vec::new(),
            finished: Vec::new(),
            logged,
            kept_bytes: 0,
        }
    }

    /// Begins the exchange of a request with these fields.
    pub fn begin(&mut self, stream: u64, fields: &[h3::Header], started: (Instant, SystemTime)) {
        let summary =
            if self.logged { RequestSummary::read(fields) } else { RequestSummary::default() };
        let exchange = Exchange {
            summary,
            client: None,
            is_early: false,
            started,
            status: None,
            user: None,
            cache: None,
            origin: None,
            first_byte: None,
            bytes: 0,
        };
        self.kept_bytes += exchange.kept_bytes();
        if let Some(before) = self.under_way.insert(stream, exchange) {
            self.kept_bytes -= before.kept_bytes();
        }
    }

    /// Notes the user whose password a request has.
    pub fn on_user(&mut self, stream: u64, user: Option<Box<str>>) {
        if let Some(exchange) = self.under_way.get_mut(&stream).filter(|_| user.is_some()) {
            exchange.user = user;
        }
    }

    /// Notes what the cache has done.
    pub fn on_cache(&mut self, stream: u64, cache: Option<&'static str>) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.cache = cache;
        }
    }

    /// Notes the client whose address a trusted proxy has told.
    pub fn on_client(&mut self, stream: u64, client: IpAddr) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.client = Some(client);
        }
    }

    /// Notes that a request came in early data.
    pub fn on_early(&mut self, stream: u64) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.is_early = true;
        }
    }

    /// Notes that an origin is to have the response.
    pub fn on_origin(&mut self, stream: u64, report: &Arc<OriginReport>) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.origin = Some(Arc::clone(report));
        }
    }

    /// Notes the status of the response.
    pub fn on_response(&mut self, stream: u64, status: u16) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.status = Some(status);
        }
    }

    /// Notes that the transport has taken the head of the response.
    pub fn on_head(&mut self, stream: u64, now: Instant) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.first_byte = Some(now.saturating_duration_since(exchange.started.0));
        }
    }

    /// Notes that the transport has taken the whole response, of so many bytes.
    pub fn on_written(&mut self, stream: u64, bytes: u64) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.bytes = bytes;
            self.written.push(stream);
        }
    }

    /// Ends an exchange that was cancelled when the transport had taken so many bytes of
    /// the response, or all of them.
    pub fn on_abort(&mut self, stream: u64, bytes: Option<u64>, now: Instant) {
        self.written.retain(|written| *written != stream);
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.bytes = bytes.unwrap_or(exchange.bytes);
            self.finish(stream, false, now);
        }
    }

    /// Finishes the exchanges whose responses are acknowledged: the transport has dropped
    /// their streams.
    pub fn finish_acknowledged(&mut self, quic: &mut Quic, now: Instant) {
        let mut written = std::mem::take(&mut self.written);
        written.retain(|stream| {
            let is_known = quic.stream_capacity(*stream).is_ok();
            if !is_known {
                self.finish(*stream, true, now);
            }
            is_known
        });
        self.written = written;
    }

    /// Finishes every exchange, as the connection has ended. If the end `is_clean`, the
    /// client had no need to acknowledge what it had.
    pub fn finish_all(&mut self, is_clean: bool, sent: impl Fn(u64) -> Option<u64>, now: Instant) {
        for stream in std::mem::take(&mut self.written) {
            self.finish(stream, is_clean, now);
        }
        let unwritten: Vec<_> = self.under_way.keys().copied().collect();
        for stream in unwritten {
            self.on_abort(stream, sent(stream), now);
        }
    }

    /// Takes the finished requests.
    pub fn take_finished(&mut self) -> impl ExactSizeIterator<Item = FinishedRequest> + '_ {
        self.finished.drain(..)
    }

    /// Returns the streams of all exchanges under way.
    pub fn streams(&self) -> impl Iterator<Item = u64> + '_ {
        self.under_way.keys().copied()
    }

    /// Returns the streams whose whole response the transport has taken, and its bytes.
    pub fn written(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bytes = |stream| self.under_way.get(stream).map_or(0, |exchange| exchange.bytes);
        self.written.iter().map(move |stream| (*stream, bytes(stream)))
    }

    /// Returns about how much memory the exchanges under way take, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    pub fn contains(&self, stream: u64) -> bool {
        self.under_way.contains_key(&stream)
    }

    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.under_way.shrink_to_fit();
        self.written.shrink_to_fit();
        self.finished.shrink_to_fit();
    }

    fn finish(&mut self, stream: u64, complete: bool, now: Instant) {
        let Some(exchange) = self.under_way.remove(&stream) else { return };
        self.kept_bytes -= exchange.kept_bytes();
        let Exchange {
            summary,
            client,
            is_early,
            started,
            status,
            user,
            cache,
            origin,
            first_byte,
            bytes,
        } = exchange;
        let (instant, started) = started;
        let duration = now.saturating_duration_since(instant);
        self.finished.push(FinishedRequest {
            protocol: Protocol::Http3,
            summary,
            client,
            is_early,
            user,
            cache,
            origin: origin.and_then(|report| report.times()).map(Box::new),
            started,
            duration,
            first_byte,
            status: status.unwrap_or(ENDED_WITHOUT_RESPONSE),
            bytes,
            complete,
        });
    }
}

impl Exchange {
    fn kept_bytes(&self) -> u64 {
        EXCHANGE_BYTES + self.summary.whole().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request_summary::PATH_BYTES_MAX;
    use std::time::UNIX_EPOCH;

    const SECOND: Duration = Duration::from_secs(1);

    fn fields(path: &str) -> Vec<h3::Header> {
        let all = [
            (":method", "GET"),
            (":path", path),
            ("host", "a.example"),
            ("user-agent", "x/1"),
            ("user-agent", "y/2"),
        ];
        all.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).to_vec()
    }

    #[test]
    fn finished_request_tells_how_its_exchange_ended() {
        let start = quiche::clock::now();
        let at = (start, UNIX_EPOCH);
        let mut exchanges = Exchanges::new(true);
        for stream in 0..5 {
            exchanges.begin(stream, &fields(&format!("/{stream}")), at);
        }
        exchanges.on_response(0, 404);
        exchanges.on_abort(0, Some(3), start + SECOND);
        exchanges.on_abort(1, None, start);
        exchanges.on_response(2, 200);
        exchanges.on_head(2, start + SECOND / 4);
        exchanges.on_written(2, 10);
        exchanges.on_abort(2, None, start);
        assert!(!exchanges.is_empty());
        exchanges.on_response(3, 200);
        exchanges.on_written(3, 20);
        exchanges.on_response(4, 206);
        exchanges.finish_all(true, |stream| (stream == 4).then_some(7), start + 2 * SECOND);
        assert!(exchanges.is_empty());

        let finished: Vec<_> = exchanges.take_finished().collect();
        let brief = |request: &FinishedRequest| {
            let FinishedRequest { status, bytes, complete, .. } = *request;
            (request.summary.path().to_owned(), status, bytes, complete, request.duration.as_secs())
        };
        let expected = [
            ("/0", 404, 3, false, 1),
            ("/1", 499, 0, false, 0),
            ("/2", 200, 10, false, 0),
            ("/3", 200, 20, true, 2),
            ("/4", 206, 7, false, 2),
        ];
        let expected = expected.map(|(path, s, b, c, d)| (path.to_owned(), s, b, c, d));
        assert_eq!(finished.iter().map(brief).collect::<Vec<_>>(), expected);
        let summary = &finished[0].summary;
        assert_eq!((summary.method(), summary.host()), ("GET", "a.example"));
        assert_eq!((summary.user_agent(), summary.referer()), (Some("x/1"), None));
        let first_bytes: Vec<_> = finished.iter().map(|request| request.first_byte).collect();
        assert_eq!(first_bytes, [None, None, Some(SECOND / 4), None, None]);
        assert_eq!(exchanges.take_finished().count(), 0);
    }

    #[test]
    fn unacknowledged_response_is_incomplete_after_an_error() {
        let start = quiche::clock::now();
        let mut exchanges = Exchanges::new(true);
        exchanges.begin(0, &fields("/"), (start, UNIX_EPOCH));
        exchanges.on_response(0, 200);
        exchanges.on_written(0, 20);
        exchanges.finish_all(false, |_| None, start);
        assert!(exchanges.take_finished().all(|request| !request.complete && request.bytes == 20));
    }

    #[test]
    fn shrinking_frees_memory_of_finished_exchanges() {
        let start = quiche::clock::now();
        let mut exchanges = Exchanges::new(true);
        for stream in (0..400).step_by(4) {
            exchanges.begin(stream, &fields("/"), (start, UNIX_EPOCH));
            exchanges.on_response(stream, 200);
            exchanges.on_written(stream, 20);
            exchanges.on_abort(stream, None, start);
        }
        exchanges.begin(400, &fields("/"), (start, UNIX_EPOCH));
        assert_eq!(exchanges.take_finished().count(), 100);
        exchanges.shrink_to_fit();
        let Exchanges { under_way, written, finished, .. } = exchanges;
        assert_eq!((written.capacity(), finished.capacity()), (0, 0));
        assert!(under_way.contains_key(&400) && under_way.capacity() < 10);
    }

    #[test]
    fn kept_bytes_are_those_of_exchanges_under_way() {
        let start = quiche::clock::now();
        let mut exchanges = Exchanges::new(true);
        for (stream, path_bytes) in [(0, 10), (0, 100), (4, 1000)] {
            exchanges.begin(stream, &fields(&"x".repeat(path_bytes)), (start, UNIX_EPOCH));
        }
        let others = "GETa.examplex/1".len() as u64;
        assert_eq!(exchanges.kept_bytes(), 2 * (EXCHANGE_BYTES + others) + 1100);
        exchanges.on_abort(0, None, start);
        assert_eq!(exchanges.kept_bytes(), EXCHANGE_BYTES + others + 1000);
        exchanges.finish_all(true, |_| None, start);
        assert_eq!(exchanges.kept_bytes(), 0);
    }

    #[test]
    fn summary_is_bounded_and_kept_only_for_the_log() {
        let start = quiche::clock::now();
        let path_bytes = |mut exchanges: Exchanges| {
            exchanges.begin(0, &fields(&"é".repeat(PATH_BYTES_MAX)), (start, UNIX_EPOCH));
            exchanges.on_response(0, 414);
            exchanges.finish_all(false, |_| None, start);
            let paths: Vec<_> =
                exchanges.take_finished().map(|request| request.summary.path().len()).collect();
            paths
        };
        assert_eq!(path_bytes(Exchanges::new(true)), [PATH_BYTES_MAX]);
        assert_eq!(path_bytes(Exchanges::new(false)), [0]);
    }
}
