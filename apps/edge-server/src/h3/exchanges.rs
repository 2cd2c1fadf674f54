//! Exchanges under way on a connection: each lasts from its request until the
//! client has acknowledged the whole response, or either side has given it up.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use foldhash::HashMap;
use quiche::h3;
use quiche::h3::NameValue;

use crate::quic::Quic;

/// Longest texts that are kept of a request, in bytes: of its path, and of any other.
const PATH_BYTES_MAX: usize = 8 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// What is told of a request afterwards, good or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    pub method: String,
    pub host: String,
    pub path: String,
    pub user_agent: Option<String>,
    pub referer: Option<String>,
}

/// An exchange that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    pub asked: RequestSummary,
    pub begun: SystemTime,
    pub duration: Duration,
    pub status: u16,

    /// Of the response's body, as far as the transport has taken it.
    pub bytes: u64,

    /// The client has all of the response, as far as can be known.
    pub complete: bool,
}

/// Exchanges that are not over, by their streams. Bounded by the number of requests
/// that a client may have under way.
pub struct Exchanges {
    under_way: HashMap<u64, Exchange>,

    /// Those whose responses the transport has taken whole.
    written: Vec<u64>,

    /// Those that are over, until they are told of.
    ended: Vec<FinishedRequest>,

    /// What was asked is to be told as well.
    logged: bool,
}

struct Exchange {
    asked: RequestSummary,
    begun: (Instant, SystemTime),

    /// Absent until there is a response.
    status: Option<u16>,
    bytes: u64,
}

impl Exchanges {
    /// None yet. What was asked is remembered, if it is to be `logged`.
    pub fn new(logged: bool) -> Self {
        Self { under_way: HashMap::default(), written: Vec::new(), ended: Vec::new(), logged }
    }

    /// A request with these fields has come.
    pub fn begin(&mut self, stream: u64, fields: &[h3::Header], begun: (Instant, SystemTime)) {
        let asked =
            if self.logged { RequestSummary::read(fields) } else { RequestSummary::default() };
        self.under_way.insert(stream, Exchange { asked, begun, status: None, bytes: 0 });
    }

    /// It is to be answered with this status.
    pub fn on_answer(&mut self, stream: u64, status: u16) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.status = Some(status);
        }
    }

    /// The transport has all of its response, so many bytes.
    pub fn on_written(&mut self, stream: u64, bytes: u64) {
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.bytes = bytes;
            self.written.push(stream);
        }
    }

    /// It has been given up, when the transport had taken so many bytes; or after it
    /// had all.
    pub fn on_abort(&mut self, stream: u64, bytes: Option<u64>, now: Instant) {
        self.written.retain(|written| *written != stream);
        if let Some(exchange) = self.under_way.get_mut(&stream) {
            exchange.bytes = bytes.unwrap_or(exchange.bytes);
            self.finish(stream, false, now);
        }
    }

    /// Ends those that the client has acknowledged: the transport knows nothing of
    /// their streams any more.
    pub fn settle(&mut self, quic: &mut Quic, now: Instant) {
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
        let rest: Vec<_> = self.under_way.keys().copied().collect();
        for stream in rest {
            self.on_abort(stream, sent(stream), now);
        }
    }

    /// Those that are over and have not been told of. One without a response is none to
    /// tell of.
    pub fn take_finished(&mut self) -> impl Iterator<Item = FinishedRequest> + '_ {
        self.ended.drain(..)
    }

    /// Streams of all that are under way.
    pub fn streams(&self) -> impl Iterator<Item = u64> + '_ {
        self.under_way.keys().copied()
    }

    /// Streams whose responses the transport has whole.
    pub fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.written.iter().copied()
    }

    pub fn contains(&self, stream: u64) -> bool {
        self.under_way.contains_key(&stream)
    }

    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Gives memory back that nothing is in.
    pub fn shrink_to_fit(&mut self) {
        self.under_way.shrink_to_fit();
        self.written.shrink_to_fit();
        self.ended.shrink_to_fit();
    }

    fn finish(&mut self, stream: u64, complete: bool, now: Instant) {
        let Some(exchange) = self.under_way.remove(&stream) else { return };
        let Exchange { asked, begun, status: Some(status), bytes } = exchange else { return };
        let (instant, begun) = begun;
        let duration = now.saturating_duration_since(instant);
        self.ended.push(FinishedRequest { asked, begun, duration, status, bytes, complete });
    }
}

impl RequestSummary {
    fn read(fields: &[h3::Header]) -> Self {
        let value = |name: &str, bytes_max: usize| {
            let field = fields.iter().find(|field| field.name() == name.as_bytes())?;
            let value = &field.value()[..field.value().len().min(bytes_max)];
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let host = value(":authority", TEXT_BYTES_MAX).or_else(|| value("host", TEXT_BYTES_MAX));
        Self {
            method: value(":method", TEXT_BYTES_MAX).unwrap_or_default(),
            host: host.unwrap_or_default(),
            path: value(":path", PATH_BYTES_MAX).unwrap_or_default(),
            user_agent: value("user-agent", TEXT_BYTES_MAX),
            referer: value("referer", TEXT_BYTES_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn what_is_told_is_how_each_exchange_ended() {
        let start = quiche::clock::now();
        let at = (start, UNIX_EPOCH);
        let mut exchanges = Exchanges::new(true);
        for stream in 0..5 {
            exchanges.begin(stream, &fields(&format!("/{stream}")), at);
        }
        exchanges.on_answer(0, 404);
        exchanges.on_abort(0, Some(3), start + SECOND);
        exchanges.on_abort(1, None, start);
        exchanges.on_answer(2, 200);
        exchanges.on_written(2, 10);
        exchanges.on_abort(2, None, start);
        assert!(!exchanges.is_empty());
        exchanges.on_answer(3, 200);
        exchanges.on_written(3, 20);
        exchanges.on_answer(4, 206);
        exchanges.finish_all(true, |stream| (stream == 4).then_some(7), start + 2 * SECOND);
        assert!(exchanges.is_empty());

        let told: Vec<_> = exchanges.take_finished().collect();
        let brief = |ended: &FinishedRequest| {
            let seconds = ended.duration.as_secs();
            (ended.asked.path.clone(), ended.status, ended.bytes, ended.complete, seconds)
        };
        let expected = [
            ("/0", 404, 3, false, 1),
            ("/2", 200, 10, false, 0),
            ("/3", 200, 20, true, 2),
            ("/4", 206, 7, false, 2),
        ];
        let expected = expected.map(|(path, s, b, c, d)| (path.to_owned(), s, b, c, d));
        assert_eq!(told.iter().map(brief).collect::<Vec<_>>(), expected);
        let RequestSummary { method, host, user_agent, referer, .. } = told[0].asked.clone();
        assert_eq!((method.as_str(), host.as_str()), ("GET", "a.example"));
        assert_eq!((user_agent.as_deref(), referer), (Some("x/1"), None));
        assert_eq!(exchanges.take_finished().count(), 0);
    }

    #[test]
    fn a_client_that_leaves_before_it_has_all_may_lack_what_it_did_not_acknowledge() {
        let start = quiche::clock::now();
        let mut exchanges = Exchanges::new(true);
        exchanges.begin(0, &fields("/"), (start, UNIX_EPOCH));
        exchanges.on_answer(0, 200);
        exchanges.on_written(0, 20);
        exchanges.finish_all(false, |_| None, start);
        assert!(exchanges.take_finished().all(|ended| !ended.complete && ended.bytes == 20));
    }

    #[test]
    fn no_room_is_kept_of_what_is_over() {
        let start = quiche::clock::now();
        let mut exchanges = Exchanges::new(true);
        for stream in (0..400).step_by(4) {
            exchanges.begin(stream, &fields("/"), (start, UNIX_EPOCH));
            exchanges.on_answer(stream, 200);
            exchanges.on_written(stream, 20);
            exchanges.on_abort(stream, None, start);
        }
        exchanges.begin(400, &fields("/"), (start, UNIX_EPOCH));
        assert_eq!(exchanges.take_finished().count(), 100);
        exchanges.shrink_to_fit();
        let Exchanges { under_way, written, ended, .. } = exchanges;
        assert_eq!((written.capacity(), ended.capacity()), (0, 0));
        assert!(under_way.contains_key(&400) && under_way.capacity() < 10);
    }

    #[test]
    fn long_texts_are_cut_and_nothing_is_kept_that_nobody_asks_for() {
        let start = quiche::clock::now();
        let end = |mut exchanges: Exchanges| {
            exchanges.begin(0, &fields(&"é".repeat(PATH_BYTES_MAX)), (start, UNIX_EPOCH));
            exchanges.on_answer(0, 414);
            exchanges.finish_all(false, |_| None, start);
            let paths: Vec<_> =
                exchanges.take_finished().map(|ended| ended.asked.path.len()).collect();
            paths
        };
        assert_eq!(end(Exchanges::new(true)), [PATH_BYTES_MAX]);
        assert_eq!(end(Exchanges::new(false)), [0]);
    }
}
