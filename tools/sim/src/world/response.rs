//! Response of a server over HTTP/3, sent as edge-server does.

use std::time::Duration;

use quiche::h3;

/// The most that is handed to the transport at once, in bytes.
const TURN_BYTES_MAX: usize = 256 << 10;

/// The longest frame header in front of a piece of a body, in bytes.
const FRAME_HEADER_BYTES_MAX: usize = 9;

/// A limited application hands over what a millisecond brings, but a packet's
/// worth at least.
const APP_PIECE: Duration = Duration::from_millis(1);
const APP_PIECE_BYTES_MIN: f64 = 1350.0;

static BODY: [u8; TURN_BYTES_MAX] = [0; TURN_BYTES_MAX];

/// One response.
#[derive(Debug)]
pub struct Response {
    stream: u64,
    head: Option<Vec<h3::Header>>,
    length: u64,
    sent: u64,
    /// The capacity, in bytes, that was too small at the last attempt: there is
    /// no other until it changes.
    short_capacity: Option<usize>,
    limit: Option<AppLimit>,
    /// When it was requested.
    since: Duration,
}

/// How an application produces bytes, from the request on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppLimit {
    Rate {
        bytes_per_s: f64,
    },
    /// One at once, and one more each time that this has passed.
    Segments {
        bytes: u64,
        every: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wrote,
    Blocked,
    Finished,
}

impl Response {
    /// Creates a response of `length` bytes, requested at `now`.
    pub fn new(stream: u64, length: u64, limit: Option<AppLimit>, now: Duration) -> Self {
        Self {
            stream,
            head: Some(head(length)),
            length,
            sent: 0,
            short_capacity: None,
            limit,
            since: now,
        }
    }

    /// Returns how many bytes are available by `now` and not yet taken by the transport.
    pub fn unsent_bytes(&self, now: Duration) -> u64 {
        self.available(now) - self.sent
    }

    /// Hands over until the transport takes no more, or `bytes_max` have been
    /// written. Returns whether it took any.
    ///
    /// # Errors
    ///
    /// HTTP/3's, or the transport's.
    pub fn write(
        &mut self,
        http: &mut h3::Connection,
        quic: &mut quiche::Connection,
        bytes_max: u64,
        now: Duration,
    ) -> Result<bool, h3::Error> {
        let sent_before = self.sent;
        let mut any = false;
        while !self.is_finished() && self.sent - sent_before < bytes_max {
            let left = bytes_max - (self.sent - sent_before);
            match self.step(http, quic, left, now)? {
                Step::Wrote => any = true,
                Step::Blocked => return Ok(any),
                Step::Finished => return Ok(true),
            }
        }
        Ok(any)
    }

    /// Returns when a limited application will have more.
    pub fn next_piece(&self, now: Duration) -> Option<Duration> {
        let limit = self.limit.filter(|_| self.available(now) < self.length)?;
        // A rounded time may be a little too early.
        Some(self.since + limit.next_piece(self.elapsed(now)) + Duration::from_nanos(1))
    }

    /// Returns how many bytes of the body the transport has taken.
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Returns whether the transport has taken all of it.
    pub fn is_finished(&self) -> bool {
        self.head.is_none() && self.sent == self.length
    }

    fn available(&self, now: Duration) -> u64 {
        let Some(limit) = self.limit else {
            return self.length;
        };
        limit.available(self.elapsed(now)).clamp(self.sent, self.length)
    }

    fn elapsed(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }

    fn step(
        &mut self,
        http: &mut h3::Connection,
        quic: &mut quiche::Connection,
        bytes_max: u64,
        now: Duration,
    ) -> Result<Step, h3::Error> {
        let capacity = quic.stream_capacity(self.stream)?;
        if self.short_capacity == Some(capacity) {
            return Ok(Step::Blocked);
        }
        if let Some(head) = &self.head {
            return match http.send_response(quic, self.stream, head, false) {
                Ok(()) => {
                    self.head = None;
                    Ok(Step::Wrote)
                }
                Err(h3::Error::StreamBlocked | h3::Error::Done) => Ok(self.short(capacity)),
                Err(e) => Err(e),
            };
        }
        if capacity <= FRAME_HEADER_BYTES_MAX {
            // Tells the client that it is blocked, if its limits are why.
            quic.stream_writable(self.stream, FRAME_HEADER_BYTES_MAX + 1)?;
            return Ok(self.short(capacity));
        }
        let unsent_bytes = self.unsent_bytes(now).min(bytes_max);
        let unsent_bytes = usize::try_from(unsent_bytes).unwrap_or(usize::MAX);
        let bytes = (capacity - FRAME_HEADER_BYTES_MAX).min(TURN_BYTES_MAX).min(unsent_bytes);
        let last = self.sent + bytes as u64 == self.length;
        if bytes == 0 && !last {
            return Ok(Step::Blocked);
        }
        match http.send_body(quic, self.stream, &BODY[..bytes], last) {
            Ok(count) => self.sent += count as u64,
            Err(h3::Error::Done) => return Ok(self.short(capacity)),
            Err(e) => return Err(e),
        }
        Ok(if self.is_finished() { Step::Finished } else { Step::Wrote })
    }

    fn short(&mut self, capacity: usize) -> Step {
        self.short_capacity = Some(capacity);
        Step::Blocked
    }
}

impl AppLimit {
    /// Returns how many bytes there are when this has passed since the request.
    fn available(self, elapsed: Duration) -> u64 {
        match self {
            Self::Rate { bytes_per_s } => {
                let piece_bytes = piece_bytes(bytes_per_s);
                let pieces = (elapsed.as_secs_f64() * bytes_per_s / piece_bytes).floor();
                (pieces * piece_bytes) as u64
            }
            Self::Segments { bytes, every } => bytes.saturating_mul(1 + whole(elapsed, every)),
        }
    }

    /// Returns how much time passes from the request until there are more.
    fn next_piece(self, elapsed: Duration) -> Duration {
        match self {
            Self::Rate { bytes_per_s } => {
                let piece_bytes = piece_bytes(bytes_per_s);
                let pieces = (elapsed.as_secs_f64() * bytes_per_s / piece_bytes).floor();
                Duration::from_secs_f64((pieces + 1.0) * piece_bytes / bytes_per_s)
            }
            Self::Segments { every, .. } => every.mul_f64((1 + whole(elapsed, every)) as f64),
        }
    }
}

/// Returns how often a time has passed wholly.
fn whole(elapsed: Duration, every: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos() / every.as_nanos().max(1)).unwrap_or(u64::MAX - 1)
}

/// Returns what is handed over at once.
fn piece_bytes(bytes_per_s: f64) -> f64 {
    (bytes_per_s * APP_PIECE.as_secs_f64()).max(APP_PIECE_BYTES_MIN)
}

/// Headers as long as edge-server's.
fn head(length: u64) -> Vec<h3::Header> {
    let header = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
    vec![
        header(":status", "200"),
        header("content-type", "application/octet-stream"),
        header("content-length", &length.to_string()),
        header("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_application_produces_its_rate() {
        let since = Duration::from_millis(70);
        for bytes_per_s in [12_345.6, 1e6, 1.25e8] {
            let limit = AppLimit::Rate { bytes_per_s };
            let response = Response::new(0, 10_000_000, Some(limit), since);
            let (mut now, mut pieces) = (since, 0);
            while let Some(next) = response.next_piece(now) {
                assert!(response.available(next) > response.available(now), "{next:?}");
                (now, pieces) = (next, pieces + 1);
            }
            let rate = 1e7 / (now - since).as_secs_f64();
            assert!((rate / bytes_per_s - 1.0).abs() < 0.02, "{rate} of {bytes_per_s}");
            let piece_bytes = (bytes_per_s / 1e3).max(1350.0);
            assert_eq!(f64::from(pieces), (1e7 / piece_bytes).ceil());
        }
    }

    #[test]
    fn application_of_segments_is_on_and_off() {
        let since = Duration::from_millis(70);
        let limit = AppLimit::Segments { bytes: 400_000, every: Duration::from_secs(2) };
        let response = Response::new(0, 1_000_000, Some(limit), since);
        let at = |ms: u64| response.available(since + Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(1999), at(2000), at(3999), at(4000)],
            [400_000, 400_000, 800_000, 800_000, 1_000_000]
        );
        let next = response.next_piece(since).expect("more to come");
        assert!(next >= since + Duration::from_secs(2));
        assert_eq!(response.available(next), 800_000);
        assert_eq!(response.next_piece(since + Duration::from_secs(4)), None);
    }
}
