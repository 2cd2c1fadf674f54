//! Pacing for Reno and CUBIC (RFC 9002, 7.7; RFC 9959, 3.3 and 4.3.2).
//!
//! Packets are released in batches. All packets of a batch share one release
//! time and one pace. The next batch is released after the time that the rate
//! needs for the previous one. After a batch that a timer released late, the
//! sender catches up at no more than twice the rate, within the limit of the
//! pace. It does not catch up on time in which there was nothing to send.

mod window_use;

use std::time::Duration;
use std::time::Instant;

use window_use::WindowUse;

/// Largest batch in normal operation, in bytes.
const MAX_BATCH: usize = 64 * 1024;

/// Number of batches per second, which determines the size of a batch.
const BATCHES_PER_SECOND: u64 = 1000;

/// Divisor of the RTT that limits catching up in normal operation.
const CATCH_UP_RTT_DIVISOR: u32 = 8;

/// Returns the size of a batch at a rate in bytes per second: two packets at
/// least.
pub(crate) fn batch_bytes(rate: u64, max_datagram_size: usize) -> usize {
    usize::try_from(rate / BATCHES_PER_SECOND)
        .unwrap_or(usize::MAX)
        .min(MAX_BATCH)
        .max(2 * max_datagram_size)
}

/// Rate and granularity of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Bytes per second; at least 1.
    pub(crate) rate: u64,

    /// Largest number of bytes that are released together.
    pub(crate) batch: usize,

    /// Limit on the lateness that is caught up.
    pub(crate) catch_up: Duration,
}

impl Pace {
    /// Returns the pace of `window` per RTT, times `gain`.
    pub(crate) fn new(
        window: usize, rtt: Duration, gain: f64, max_datagram_size: usize,
    ) -> Self {
        let rate = (window as f64 * gain / rtt.as_secs_f64().max(1e-6)) as u64;
        let rate = rate.max(1);

        Pace {
            rate,
            batch: batch_bytes(rate, max_datagram_size),
            catch_up: rtt / CATCH_UP_RTT_DIVISOR,
        }
    }

    /// Returns the pace limited to `max_rate`, in bytes per second.
    pub(crate) fn capped(self, max_rate: Option<u64>) -> Self {
        Pace {
            rate: self.rate.min(max_rate.unwrap_or(u64::MAX)).max(1),
            ..self
        }
    }

    /// Returns the time that the rate needs for `bytes`, at most a few batches.
    pub(crate) fn duration(&self, bytes: usize) -> Duration {
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / self.rate;
        Duration::from_nanos(nanos)
    }
}

/// Schedule of the next batch.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    /// Release time by the rate.
    due: Instant,

    /// Lower bound on the release time while the sender catches up.
    earliest: Instant,
}

impl Schedule {
    fn release(&self) -> Instant {
        self.due.max(self.earliest)
    }
}

/// Packets that are released together.
#[derive(Clone, Copy, Debug)]
struct Batch {
    pace: Pace,

    /// Release time by the rate. After a pause, the time at which the batch
    /// would have been due if its bytes had been sent just before the end of
    /// the pause.
    due: Instant,

    /// Actual release time.
    release: Instant,

    /// Time at which the batch closes: the release time of the next batch if
    /// this one were full.
    end: Instant,

    /// Bytes in the batch.
    bytes: usize,
}

impl Batch {
    fn new(pace: Pace, schedule: Option<Schedule>, now: Instant) -> Self {
        let release = schedule.map_or(now, |next| next.release().max(now));
        let oldest_due = release.checked_sub(pace.catch_up).unwrap_or(release);
        let due = schedule.map_or(release, |next| next.due.max(oldest_due));

        let mut batch = Batch {
            pace,
            due,
            release,
            end: release,
            bytes: 0,
        };
        batch.end = batch.next(pace.batch).release();
        batch
    }

    /// Returns the schedule of the next batch, after `bytes` of this one.
    fn next(&self, bytes: usize) -> Schedule {
        let step = self.pace.duration(bytes);

        Schedule {
            due: self.due + step,
            earliest: self.release.max(self.due) + step / 2,
        }
    }

    /// Returns whether a packet built at `now` may join the batch.
    fn is_open(&mut self, now: Instant) -> bool {
        if now >= self.end {
            self.end = self.next(self.pace.batch).release();
        }

        now < self.end
    }

    /// Continues at `now` as if the bytes of the batch had been sent just
    /// before, at the rate. Inlined because most packets of a sender that waits
    /// for ACKs follow a pause.
    #[inline]
    fn skip_pause(&mut self, now: Instant) {
        let spent = self.pace.duration(self.bytes);
        self.due = self.due.max(now.checked_sub(spent).unwrap_or(now));
    }
}

/// Pacer of one path.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes that may still be sent without pacing: the initial window, at the
    /// start and after idling (RFC 9002, 7.7).
    burst_left: usize,

    /// Batch that the next packet may join.
    batch: Option<Batch>,

    /// Schedule after the last complete batch.
    schedule: Option<Schedule>,

    /// When the last packet was built.
    built: Option<Instant>,

    /// Release time of the last packet, if it was built earlier.
    waits_until: Option<Instant>,

    /// Whether there was nothing to send after the last packet.
    is_paused: bool,

    pub(crate) window_use: WindowUse,
}

impl Pacer {
    /// Resets the schedule: the next packet starts a batch, without a burst.
    pub(crate) fn restart(&mut self) {
        *self = Pacer::default();
    }

    /// Sets the number of bytes that may be sent without pacing.
    pub(crate) fn allow_burst(&mut self, bytes: usize) {
        self.burst_left = bytes;
    }

    /// Records that nothing can be sent now, for lack of data or window: the
    /// time until the next packet is not caught up.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Returns the release time of the next packet; `None` means at once.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        if self.burst_left > 0 || self.batch.is_some() {
            return None;
        }

        self.schedule.map(|next| next.release())
    }

    /// Returns the release time of the last packet.
    #[cfg(test)]
    pub(crate) fn last_release(&self) -> Option<Instant> {
        self.waits_until.or(self.built)
    }

    /// Returns when a datagram leaves that is ready at `now`, after the last
    /// packet was built.
    pub(crate) fn send_time(&self, now: Instant) -> Instant {
        let release = self.waits_until.filter(|release| *release > now);
        release.unwrap_or(now)
    }

    /// Returns when the last packet was built.
    pub(crate) fn last_built(&self) -> Option<Instant> {
        self.built
    }

    /// Records a packet of `size` bytes, built at `now`, and returns its
    /// release time. `burst`, if any, is the number of bytes that may be sent
    /// at once because nothing is in flight. `pace` is called once for each
    /// batch.
    pub(crate) fn on_packet_sent(
        &mut self, size: usize, max_datagram_size: usize,
        pace: impl FnOnce() -> Pace, burst: Option<usize>, now: Instant,
    ) -> Instant {
        self.built = Some(now);

        if let Some(burst) = burst {
            self.burst_left = burst;
        }

        if self.burst_left > 0 {
            self.burst_left = self.burst_left.saturating_sub(size);
            self.waits_until = None;
            return now;
        }

        let was_paused = std::mem::take(&mut self.is_paused);

        let batch = match self.open_batch(now) {
            Some(batch) => {
                if was_paused {
                    batch.skip_pause(now);
                }
                batch
            },

            None => self.begin_batch(pace, was_paused, now),
        };

        batch.bytes += size;
        let is_full = batch.bytes + max_datagram_size > batch.pace.batch;
        let waits_until = (batch.release > now).then_some(batch.release);
        self.waits_until = waits_until;

        if is_full {
            self.end_batch();
        }

        waits_until.unwrap_or(now)
    }

    /// Returns the batch that a packet built at `now` joins.
    fn open_batch(&mut self, now: Instant) -> Option<&mut Batch> {
        let batch = self.batch.as_mut()?;
        batch.is_open(now).then_some(batch)
    }

    // Not inlined: most packets join an open batch.
    #[inline(never)]
    fn begin_batch(
        &mut self, pace: impl FnOnce() -> Pace, was_paused: bool, now: Instant,
    ) -> &mut Batch {
        self.end_batch();

        if let Some(next) = self.schedule.as_mut().filter(|_| was_paused) {
            next.due = next.due.max(now);
        }

        self.batch.insert(Batch::new(pace(), self.schedule, now))
    }

    #[inline(never)]
    fn end_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.schedule = Some(batch.next(batch.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MDS: usize = 1200;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// 1.2 MB/s in batches of two packets: a batch every 2 ms.
    fn pace() -> Pace {
        let pace = Pace::new(120_000, ms(100), 1.0, MDS);
        assert_eq!(pace.rate, 1_200_000);
        assert_eq!(pace.batch, 2 * MDS);
        pace
    }

    fn send(pacer: &mut Pacer, now: Instant) -> Instant {
        pacer.on_packet_sent(MDS, MDS, pace, None, now)
    }

    #[test]
    fn batches_follow_each_other_at_the_rate() {
        let mut pacer = Pacer::default();
        let start = crate::clock::now();

        for i in 0..100 {
            let at = start + ms(2) * (i / 2);
            assert_eq!(send(&mut pacer, start), at);
            assert_eq!(pacer.last_release(), Some(at));
        }

        assert_eq!(pacer.next_release(), Some(start + ms(100)));
    }

    #[test]
    fn restart_forgets_earlier_batches() {
        let mut pacer = Pacer::default();
        let start = crate::clock::now();
        pacer.on_packet_sent(MDS, MDS, pace, Some(10 * MDS), start);

        pacer.restart();
        for i in 0..10 {
            assert_eq!(send(&mut pacer, start), start + ms(2) * (i / 2));
        }

        pacer.restart();
        assert_eq!((pacer.next_release(), pacer.last_release()), (None, None));
        assert_eq!(send(&mut pacer, start), start);
    }

    #[test]
    fn initial_window_is_not_paced() {
        let mut pacer = Pacer::default();
        let start = crate::clock::now();
        let idle = Some(10 * MDS);

        pacer.on_packet_sent(MDS, MDS, pace, idle, start);
        for _ in 0..9 {
            assert_eq!(pacer.next_release(), None);
            assert_eq!(send(&mut pacer, start), start);
        }

        send(&mut pacer, start);
        send(&mut pacer, start);
        assert_eq!(pacer.next_release(), Some(start + ms(2)));

        pacer.on_packet_sent(MDS, MDS, pace, idle, start);
        assert_eq!(pacer.next_release(), None);
    }

    #[test]
    fn late_batch_is_caught_up_at_twice_the_rate() {
        let mut pacer = Pacer::default();
        let start = crate::clock::now();
        let mut now = start;

        for _ in 0..2 {
            send(&mut pacer, now);
        }

        // The batch due at 2 ms is sent at 5 ms.
        now = start + ms(5);
        let mut releases = vec![];
        for _ in 0..20 {
            now = now.max(pacer.next_release().unwrap_or(now));
            releases.push(send(&mut pacer, now) - start);
        }

        let batches: Vec<u128> = releases
            .chunks(2)
            .map(|batch| batch[0].as_millis())
            .collect();
        assert_eq!(batches, [5, 6, 7, 8, 10, 12, 14, 16, 18, 20]);
    }

    /// 12 MB/s in batches of ten packets, a millisecond each.
    fn fast() -> Pace {
        let pace = Pace::new(1_200_000, ms(100), 1.0, MDS);
        assert_eq!(pace.batch, 10 * MDS);
        pace
    }

    /// Sends that many packets, each when it is released.
    fn send_released(
        pacer: &mut Pacer, packets: usize, mut now: Instant,
    ) -> Vec<Instant> {
        let mut send = || {
            now = now.max(pacer.next_release().unwrap_or(now));
            pacer.on_packet_sent(MDS, MDS, fast, None, now)
        };

        (0..packets).map(|_| send()).collect()
    }

    /// By how many bytes the fullest period exceeds the rate.
    fn excess(releases: &[Instant]) -> usize {
        let mut level = Duration::ZERO;
        let mut fullest = level;

        for pair in releases.windows(2) {
            level += fast().duration(MDS);
            fullest = fullest.max(level);
            level = level.saturating_sub(pair[1] - pair[0]);
        }

        fullest = fullest.max(level + fast().duration(MDS));
        (fullest.as_nanos() * fast().rate as u128 / 1_000_000_000) as usize
    }

    #[test]
    fn idle_time_is_not_caught_up() {
        let start = crate::clock::now();

        // Within a batch, at its end, within the next one.
        for before in 1..=15 {
            for pause_us in [0, 1, 450, 950, 1000, 1550, 30_000] {
                let mut pacer = Pacer::default();
                let mut releases = send_released(&mut pacer, before, start);

                pacer.pause();
                let resumed =
                    *releases.last().unwrap() + Duration::from_micros(pause_us);
                releases.extend(send_released(&mut pacer, 40, resumed));

                let most = excess(&releases);
                assert!(most <= 10 * MDS, "{before}, {pause_us} us: {most}");

                if pause_us == 0 {
                    let without =
                        send_released(&mut Pacer::default(), before + 40, start);
                    assert_eq!(releases, without);
                }
            }
        }
    }

    /// How many packets may leave at `now`.
    fn room(pacer: &mut Pacer, now: Instant) -> usize {
        let next = || {
            pacer.on_packet_sent(MDS, MDS, fast, None, now);
            pacer.next_release()
        };

        1 + std::iter::repeat_with(next)
            .take(100)
            .take_while(Option::is_none)
            .count()
    }

    #[test]
    fn rest_of_a_batch_lapses_when_the_next_is_due() {
        // Three packets; after a pause, perhaps, one more; then as many as may.
        for (fourth_us, then_us, expected) in [
            (None, 0, 7),
            (None, 999, 7),
            (None, 1000, 10),
            (None, 5000, 10),
            (Some(100), 1000, 10),
            (Some(900), 1000, 6),
            (Some(900), 1599, 6),
            (Some(900), 1600, 10),
            (Some(999), 1698, 6),
            (Some(999), 1699, 10),
        ] {
            let start = crate::clock::now();
            let us = |us| start + Duration::from_micros(us);
            let mut pacer = Pacer::default();
            send_released(&mut pacer, 3, start);

            if let Some(fourth_us) = fourth_us {
                pacer.pause();
                send_released(&mut pacer, 1, us(fourth_us));
            }

            let room = room(&mut pacer, us(then_us));
            assert_eq!(room, expected, "{fourth_us:?}, {then_us}");
        }
    }

    #[test]
    fn late_sender_catches_up_within_bounds() {
        let start = crate::clock::now();

        for late_ms in [0, 1, 12, 1000] {
            let mut pacer = Pacer::default();
            let mut releases = send_released(&mut pacer, 10, start);
            let late = start + ms(1) + ms(late_ms);
            releases.extend(send_released(&mut pacer, 500, late));

            // Twelve of an RTT's hundred milliseconds are, and a half.
            let made_up = Duration::from_micros(12_500).min(ms(late_ms));
            let bytes = (fast().rate as f64 * made_up.as_secs_f64()) as usize;
            assert_eq!(excess(&releases), 10 * MDS + bytes, "{late_ms} ms");
        }
    }

    #[test]
    fn a_batch_is_a_millisecond_within_bounds() {
        for (rate_mbit, batch) in [
            (1, 2 * MDS),
            (100, 12_500),
            (500, 62_500),
            (5000, MAX_BATCH),
        ] {
            let window = rate_mbit * 125_000 / 10;
            let pace = Pace::new(window, ms(100), 1.0, MDS);
            assert_eq!(pace.batch, batch);
        }

        assert_eq!(pace().capped(Some(1000)).rate, 1000);
        assert_eq!(pace().capped(None), pace());
    }
}
