//! Rate of a response: token buckets of its client, which all responses that the same rule limits share.
//!
//! A bucket is the time at which it will be full again. A response takes a portion in advance, and
//! then waits until the bucket has had it: responses take turns, and each wakes once per portion.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Portions in a second, as far as that makes them neither smaller than a packet nor larger than a
/// connection's turn.
const PORTIONS_PER_SECOND: u64 = 20;
const PORTION_BYTES_MIN: u64 = 1200;
const PORTION_BYTES_MAX: u64 = 256 << 10;

/// Responses that have waited for their rate, since the process began.
static DELAYED: AtomicU64 = AtomicU64::new(0);

/// Rate of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRate {
    pub bytes_per_second: u64,

    /// Bytes that may go at once.
    pub burst_bytes: u64,
}

/// Bucket of one client.
#[derive(Debug)]
pub struct ByteBucket {
    rate: ByteRate,
    full_at: Mutex<Instant>,
}

/// Rate of one response.
#[derive(Debug)]
pub struct ResponseRate {
    buckets: Vec<Arc<ByteBucket>>,

    /// Bytes that were taken from the buckets and not sent, and from when on they may be.
    portion_bytes: u64,
    sendable_from: Instant,

    /// Whether it has ever waited, and since it was last asked.
    is_delayed: bool,
    has_waited: bool,
}

impl ByteRate {
    fn portion_bytes(self) -> u64 {
        let bytes = self.bytes_per_second / PORTIONS_PER_SECOND;
        bytes.clamp(PORTION_BYTES_MIN, PORTION_BYTES_MAX)
    }

    fn time_of(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * NANOS_PER_SECOND / u128::from(self.bytes_per_second);
        Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
    }

    fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos() * u128::from(self.bytes_per_second) / NANOS_PER_SECOND;
        bytes.try_into().unwrap_or(u64::MAX)
    }
}

impl ByteBucket {
    /// Returns a full bucket.
    pub fn new(rate: ByteRate, now: Instant) -> Self {
        Self { rate, full_at: now.into() }
    }

    /// Returns whether it is as one that is new.
    pub fn is_full(&self, now: Instant) -> bool {
        *self.full_at() <= now
    }

    /// Takes bytes. Returns from when on they may be sent.
    fn take(&self, bytes: u64, now: Instant) -> Instant {
        let mut full_at = self.full_at();
        *full_at = now.max(*full_at) + self.rate.time_of(bytes);
        let burst_time = self.rate.time_of(self.rate.burst_bytes);
        full_at.checked_sub(burst_time).unwrap_or(now)
    }

    fn put_back(&self, bytes: u64) {
        let mut full_at = self.full_at();
        *full_at = full_at.checked_sub(self.rate.time_of(bytes)).unwrap_or(*full_at);
    }

    fn available_bytes(&self, now: Instant) -> u64 {
        let missing = self.rate.bytes_in(self.full_at().saturating_duration_since(now));
        self.rate.burst_bytes.saturating_sub(missing)
    }

    fn full_at(&self) -> MutexGuard<'_, Instant> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResponseRate {
    /// Returns the rate of a response that all these buckets limit, or `None` without any.
    pub fn new(buckets: Vec<Arc<ByteBucket>>, now: Instant) -> Option<Box<Self>> {
        let rate = Self {
            buckets,
            portion_bytes: 0,
            sendable_from: now,
            is_delayed: false,
            has_waited: false,
        };
        (!rate.buckets.is_empty()).then(|| rate.into())
    }

    /// Returns how many bytes of a response may be sent, of which so many are left.
    ///
    /// # Errors
    ///
    /// None yet: from when on.
    pub fn poll(&mut self, left_bytes: u64, now: Instant) -> Result<u64, Instant> {
        if self.portion_bytes == 0 && left_bytes > 0 {
            self.take_portion(left_bytes, now);
        }
        if self.sendable_from <= now {
            return Ok(self.portion_bytes);
        }
        self.note_wait();
        Err(self.sendable_from)
    }

    /// Notes that it waits.
    pub fn note_wait(&mut self) {
        self.has_waited = true;
        if !std::mem::replace(&mut self.is_delayed, true) {
            DELAYED.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take_portion(&mut self, left_bytes: u64, now: Instant) {
        let portions = self.buckets.iter().map(|bucket| bucket.rate.portion_bytes());
        self.portion_bytes = portions.fold(left_bytes, u64::min);
        let times = self.buckets.iter().map(|bucket| bucket.take(self.portion_bytes, now));
        self.sendable_from = times.fold(now, Instant::max);
    }

    /// Notes that so many bytes were sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.portion_bytes = self.portion_bytes.saturating_sub(bytes);
    }

    /// Returns how many bytes could be sent now if no other response took them.
    pub fn available_bytes(&self, now: Instant) -> u64 {
        let portion_bytes = if self.sendable_from <= now { self.portion_bytes } else { 0 };
        let available = self.buckets.iter().map(|bucket| bucket.available_bytes(now)).min();
        portion_bytes + available.unwrap_or_default()
    }

    /// Returns whether another response has the same buckets.
    pub fn has_buckets_of(&self, other: &Self) -> bool {
        let pairs = || self.buckets.iter().zip(&other.buckets);
        self.buckets.len() == other.buckets.len() && pairs().all(|(own, its)| Arc::ptr_eq(own, its))
    }

    /// Returns whether it has waited since the last call.
    pub fn take_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }
}

impl Drop for ResponseRate {
    fn drop(&mut self) {
        if self.portion_bytes > 0 {
            self.buckets.iter().for_each(|bucket| bucket.put_back(self.portion_bytes));
        }
    }
}

/// Returns how many responses have waited for their rate.
pub fn delayed_responses() -> u64 {
    DELAYED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(bytes_per_second: u64, burst_bytes: u64, now: Instant) -> Arc<ByteBucket> {
        ByteBucket::new(ByteRate { bytes_per_second, burst_bytes }, now).into()
    }

    fn response(buckets: &[&Arc<ByteBucket>], now: Instant) -> Box<ResponseRate> {
        let buckets = buckets.iter().map(|bucket| Arc::clone(bucket)).collect();
        ResponseRate::new(buckets, now).unwrap()
    }

    /// Sends what a response may of so many bytes. Returns how many it did.
    fn send(rate: &mut ResponseRate, left_bytes: u64, now: Instant) -> u64 {
        let mut sent = 0;
        while let Ok(bytes @ 1..) = rate.poll(left_bytes - sent, now) {
            rate.on_sent(bytes);
            sent += bytes;
        }
        sent
    }

    #[test]
    fn response_has_its_burst_and_then_its_rate() {
        let start = quiche::clock::now();
        let bucket = bucket(100_000, 50_000, start);
        let mut rate = response(&[&bucket], start);
        for (ms, expected) in [
            (0, 50_000),
            (0, 0),
            (49, 0),
            (50, 5000),
            (99, 0),
            (100, 5000),
            (300, 20_000),
            // Longer than the bucket takes to be full again.
            (1100, 50_000),
            (5000, 50_000),
        ] {
            // One portion was taken in advance.
            let now = start + Duration::from_millis(ms);
            let sent = send(&mut rate, 1_000_000, now);
            assert!(sent.abs_diff(expected) <= 5000, "{ms}: {sent}");
            assert_eq!(sent % 5000, 0, "{ms}: {sent}");
        }
    }

    #[test]
    fn portion_is_of_a_part_of_a_second() {
        for (bytes_per_second, expected) in
            [(1000, 1200), (24_000, 1200), (1_000_000, 50_000), (1_000_000_000, 262_144)]
        {
            let rate = ByteRate { bytes_per_second, burst_bytes: 1 };
            assert_eq!(rate.portion_bytes(), expected, "{bytes_per_second}");
        }
    }

    #[test]
    fn responses_of_a_bucket_share_it() {
        let start = quiche::clock::now();
        let bucket = bucket(100_000, 1, start);
        let mut rates: Vec<_> = (0..4).map(|_| response(&[&bucket], start)).collect();
        let mut sent = [0; 4];
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            for (rate, sent) in rates.iter_mut().zip(&mut sent) {
                *sent += send(rate, 10_000_000, now);
            }
        }
        let all: u64 = sent.iter().sum();
        assert!((970_000..=1_000_000).contains(&all), "{all}");
        assert!(sent.iter().all(|sent| sent.abs_diff(all / 4) <= 5000), "{sent:?}");
    }

    #[test]
    fn slowest_of_several_buckets_is_the_rate() {
        let start = quiche::clock::now();
        let (slow, fast) = (bucket(10_000, 1, start), bucket(1_000_000, 1_000_000, start));
        let mut rate = response(&[&fast, &slow], start);
        let sent =
            (0..10_000).map(|ms| send(&mut rate, 999_999, start + Duration::from_millis(ms)));
        let sent: u64 = sent.sum();
        assert!((98_000..=100_000).contains(&sent), "{sent}");
        assert!(rate.has_buckets_of(&response(&[&fast, &slow], start)));
        assert!(!rate.has_buckets_of(&response(&[&slow], start)));
    }

    #[test]
    fn portion_of_a_cancelled_response_goes_back() {
        let start = quiche::clock::now();
        let bucket = bucket(1000, 1200, start);
        for _ in 0..10 {
            assert_eq!(response(&[&bucket], start).poll(9999, start), Ok(1200));
            assert!(bucket.is_full(start));
        }
        let mut rate = response(&[&bucket], start);
        assert_eq!((send(&mut rate, 800, start), bucket.available_bytes(start)), (800, 400));
        drop(rate);
        assert_eq!(bucket.available_bytes(start + Duration::from_millis(300)), 700);
        assert!(!bucket.is_full(start) && bucket.is_full(start + Duration::from_millis(800)));
    }

    #[test]
    fn wait_is_noted_and_counted_once() {
        let start = quiche::clock::now();
        let mut rate = response(&[&bucket(1000, 1, start)], start);
        let before = delayed_responses();
        assert!(!rate.take_waited());
        for _ in 0..3 {
            let from = start + Duration::from_millis(1199);
            assert_eq!(rate.poll(5000, start), Err(from));
        }
        assert!(rate.take_waited() && !rate.take_waited());
        assert_eq!((rate.available_bytes(start), delayed_responses() > before), (0, true));
        assert!(ResponseRate::new(Vec::new(), start).is_none());
    }
}
