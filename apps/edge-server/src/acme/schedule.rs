//! Times of renewals, and pauses after failures.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Part of its validity that a certificate has left when it is to be renewed.
const PART_LEFT: f64 = 1.0 / 3.0;

/// Renewals are earlier by up to this part of the validity, so that hosts whose certificates came
/// together are not renewed together.
const JITTER_PART: f64 = 1.0 / 30.0;

/// Longest pause after failures, and after those that the authority's rate limits caused.
const PAUSE_MAX: Duration = Duration::from_secs(4 * 3600);
const LIMITED_PAUSE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Pauses differ from each other by up to this part.
const PAUSE_JITTER_PART: f64 = 0.2;

/// Failed attempts for a host since the last success, which servers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    pub count: u32,
    pub next_attempt: SystemTime,
}

/// Returns when a certificate is to be renewed. `random` is from 0 to 1.
pub fn renewal_time(start: SystemTime, expiry: SystemTime, random: f64) -> SystemTime {
    let validity = expiry.duration_since(start).unwrap_or_default();
    let ahead = validity.mul_f64(PART_LEFT + JITTER_PART * random.clamp(0.0, 1.0));
    expiry.checked_sub(ahead).unwrap_or(UNIX_EPOCH)
}

impl Failures {
    /// Returns the failures with another one at `now`, after which the first pause is `pause`. The
    /// authority may want no attempt until a later time. `random` is from 0 to 1.
    pub fn and(
        previous: Option<Self>,
        now: SystemTime,
        pause: Duration,
        not_before: Option<SystemTime>,
        random: f64,
    ) -> Self {
        let count = previous.map_or(0, |failures| failures.count).saturating_add(1);
        let doubled = pause.saturating_mul(1 << (count - 1).min(16));
        let jitter = 1.0 + PAUSE_JITTER_PART * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        let pause = doubled.min(PAUSE_MAX.max(pause)).mul_f64(jitter);
        let limited = not_before.map(|time| time.min(now + LIMITED_PAUSE_MAX));
        Self { count, next_attempt: (now + pause).max(limited.unwrap_or(now)) }
    }

    /// Parses what another server may have written.
    pub fn parse(text: &str) -> Option<Self> {
        let (count, next) = text.trim().split_once(' ')?;
        let next_attempt = humantime::parse_rfc3339(next).ok()?;
        Some(Self { count: count.parse().ok()?, next_attempt })
    }
}

/// Formats them for the file.
impl std::fmt::Display for Failures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let next_attempt = humantime::format_rfc3339_millis(self.next_attempt);
        writeln!(f, "{} {next_attempt}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn certificate_is_renewed_when_a_third_is_left() {
        const DAY: u64 = 86_400;
        for (start, expiry, random, expected) in [
            (0, 90 * DAY, 0.0, 60 * DAY),
            (0, 90 * DAY, 1.0, 57 * DAY),
            (10 * DAY, 16 * DAY, 0.5, 14 * DAY - 6 * DAY / 60),
            (1000, 1030, 0.0, 1020),
            // Without a validity, and before 1970.
            (2000, 1000, 0.0, 1000),
        ] {
            let time = renewal_time(at(start), at(expiry), random);
            let error = time.duration_since(at(expected)).unwrap_or_else(|e| e.duration());
            assert!(error < Duration::from_millis(1), "{start} {expiry} {random}: {time:?}");
        }
    }

    #[test]
    fn pause_doubles_up_to_hours() {
        let (now, pause) = (at(10_000), Duration::from_secs(120));
        let mut failures = None;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let next = Failures::and(failures, now, pause, None, 0.5);
            pauses.push(next.next_attempt.duration_since(now).unwrap().as_secs());
            failures = Some(next);
        }
        assert_eq!(pauses, [120, 240, 480, 960, 1920, 3840, 7680, 14_400, 14_400]);
        let many = Some(Failures { count: u32::MAX, next_attempt: now });
        let next = Failures::and(many, now, pause, None, 0.0).next_attempt;
        assert_eq!(next, now + PAUSE_MAX.mul_f64(0.8));
    }

    #[test]
    fn authority_may_prolong_a_pause() {
        let (now, pause) = (at(10_000), Duration::from_secs(120));
        for (not_before, expected) in [
            (None, 10_120),
            (Some(at(10_001)), 10_120),
            (Some(at(20_000)), 20_000),
            (Some(at(1 << 40)), 10_000 + 7 * 86_400),
        ] {
            let failures = Failures::and(None, now, pause, not_before, 0.5);
            assert_eq!(failures.next_attempt, at(expected), "{not_before:?}");
        }
    }

    #[test]
    fn failures_are_read_as_they_were_written() {
        let failures = Failures { count: 3, next_attempt: at(1_800_000_000) };
        assert_eq!(failures.to_string(), "3 2027-01-15T08:00:00.000Z\n");
        assert_eq!(Failures::parse(&failures.to_string()), Some(failures));
        for text in ["", "3", "x 2027-01-15T08:00:00Z", "3 tomorrow"] {
            assert_eq!(Failures::parse(text), None, "{text}");
        }
    }
}
