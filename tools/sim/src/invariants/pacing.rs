//! Pacing of the unvalidated phase (RFC 9959, 3.3 and 4.3.2).

use std::time::Duration;

use super::rule::check;
use super::rule::Rule;
use super::rule::Violation;

/// Most packets that a time-out sends at once, whatever window and pace allow (RFC
/// 9002, 6.2.4 and 7.5).
pub const PROBE_PACKETS: usize = 2;

/// Two packets at least, and the initial window at most, make a batch.
const BATCH_PACKETS_MIN: f64 = 2.0;
const INITIAL_WINDOW_PACKETS: f64 = 10.0;
const BATCHES_PER_JUMP: f64 = 128.0;

/// A late sender catches up within a thirty-second of the jump.
const EXCESSES_PER_JUMP: f64 = 32.0;

/// Rates are whole bytes, and the time between two packets is whole nanoseconds.
const TOLERANCE_BYTES: f64 = 2.0;
const TOLERANCE_PER_PACKET: Duration = Duration::from_nanos(1);

/// No interval sees more than its share of `rate`, and one batch. That is what
/// a bucket of the size of the batch measures which leaks at the rate.
#[derive(Clone, Debug)]
pub struct PacingRule {
    rate_bytes_per_s: f64,
    batch_bytes: f64,
    /// The same with what a late sender catches up with.
    excess_bytes: f64,
    packet_bytes: f64,
    level_bytes: f64,
    at: Duration,
    probe_timeouts: usize,
}

impl PacingRule {
    /// Notes a jump to `jump_cwnd` bytes at `now`, when the RTT was `rtt`.
    pub fn new(
        jump_cwnd: usize,
        rtt: Duration,
        packet_bytes: usize,
        probe_timeouts: usize,
        now: Duration,
    ) -> Self {
        let packet_bytes = packet_bytes as f64;
        let jump_cwnd = jump_cwnd as f64;
        Self {
            rate_bytes_per_s: jump_cwnd / rtt.as_secs_f64().max(1e-6),
            batch_bytes: (jump_cwnd / BATCHES_PER_JUMP)
                .min(INITIAL_WINDOW_PACKETS * packet_bytes)
                .max(BATCH_PACKETS_MIN * packet_bytes),
            excess_bytes: (jump_cwnd / EXCESSES_PER_JUMP).max(BATCH_PACKETS_MIN * packet_bytes),
            packet_bytes,
            level_bytes: 0.0,
            at: now,
            probe_timeouts,
        }
    }

    /// Lets a sender whose timers are late catch up.
    pub fn late(self) -> Self {
        Self { batch_bytes: self.batch_bytes.max(self.excess_bytes), ..self }
    }

    /// Notes how many probe timeouts this connection has had.
    pub fn on_probe_timeouts(&mut self, probe_timeouts: usize) {
        let new = probe_timeouts.saturating_sub(self.probe_timeouts);
        self.probe_timeouts = probe_timeouts;
        self.level_bytes -= (new * PROBE_PACKETS) as f64 * self.packet_bytes;
    }

    /// Checks the time of a packet that leaves.
    ///
    /// # Errors
    ///
    /// It leaves too early.
    pub fn on_sent(&mut self, bytes: usize, now: Duration) -> Result<(), Violation> {
        let elapsed = now.saturating_sub(self.at) + TOLERANCE_PER_PACKET;
        let leaked_bytes = elapsed.as_secs_f64() * self.rate_bytes_per_s;
        self.at = now;
        if self.level_bytes > 0.0 {
            self.level_bytes = (self.level_bytes - leaked_bytes).max(0.0);
        }
        self.level_bytes += bytes as f64;
        check(self.level_bytes <= self.batch_bytes + TOLERANCE_BYTES, Rule::Pacing, || {
            format!(
                "{:.0} bytes more than {:.0} bytes/s allow, {:.0} make a batch",
                self.level_bytes, self.rate_bytes_per_s, self.batch_bytes
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rule for 135 kB in 100 ms: a packet each millisecond, two in a batch.
    fn rule() -> PacingRule {
        PacingRule::new(135_000, Duration::from_millis(100), 1350, 0, Duration::ZERO)
    }

    fn send(rule: &mut PacingRule, times_us: impl IntoIterator<Item = u64>) -> Option<Rule> {
        let mut send = |us| rule.on_sent(1350, Duration::from_micros(us));
        times_us.into_iter().find_map(|us| send(us).err()).map(|violation| violation.rule)
    }

    #[test]
    fn batches_at_the_rate_are_right() {
        let batches = (0..100).flat_map(|batch| [2000 * batch; 2]);
        assert_eq!(send(&mut rule(), batches), None);
    }

    #[test]
    fn late_sender_catches_up_within_its_share_of_the_jump() {
        let (on_time, late) = (rule(), rule().late());
        assert_eq!(send(&mut on_time.clone(), [0; 3]), Some(Rule::Pacing));
        assert_eq!(send(&mut late.clone(), [0; 3]), None);
        assert_eq!(send(&mut late.clone(), [0; 4]), Some(Rule::Pacing));
        assert_eq!(send(&mut late.clone(), [0, 0, 5000, 5000, 5000]), None);
    }

    #[test]
    fn burst_or_rate_above_the_pace_is_a_violation() {
        assert_eq!(send(&mut rule(), [0, 0, 0]), Some(Rule::Pacing));
        assert_eq!(send(&mut rule(), (0..100).map(|i| 950 * i)), Some(Rule::Pacing));
        assert_eq!(send(&mut rule(), (0..1000).map(|i| 1000 * i)), None);
    }

    #[test]
    fn pause_saves_no_credit() {
        let times = [0, 0, 50_000, 50_000, 50_000];
        assert_eq!(send(&mut rule(), times), Some(Rule::Pacing));
    }

    #[test]
    fn probes_do_not_wait() {
        let mut rule = rule();
        assert_eq!(send(&mut rule, [0, 0]), None);
        rule.on_probe_timeouts(1);
        assert_eq!(send(&mut rule, [0, 0]), None);
        assert_eq!(send(&mut rule, [0]), Some(Rule::Pacing));
    }

    #[test]
    fn batch_of_a_large_jump_is_its_128th_part() {
        for (jump_cwnd, packets) in [(135_000, 2), (1_350 * 640, 5), (8 << 20, 10)] {
            let mut rule =
                PacingRule::new(jump_cwnd, Duration::from_secs(1), 1350, 0, Duration::ZERO);
            assert_eq!(send(&mut rule, vec![0; packets]), None);
            assert_eq!(send(&mut rule, [0]), Some(Rule::Pacing));
        }
    }
}
