//! Health of an upstream: whether requests are sent there, by how the last ones and the last checks
//! ended. An upstream that is out gets one request, on trial, after a time that doubles.

use std::time::Duration;
use std::time::Instant;

/// Time in which failures are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// How long an upstream is out for the first time, and at most.
const OUT_TIME_MIN: Duration = Duration::from_secs(5);
const OUT_TIME_MAX: Duration = Duration::from_secs(60);

/// Health checks that fail one after the other before an upstream is out.
const CHECK_FAILURES_MAX: u32 = 2;

/// Health of one upstream. It begins well.
#[derive(Debug)]
pub struct UpstreamHealth {
    /// Failures in a window that put it out.
    failures_max: u32,
    standing: UpstreamStanding,
    window_began: Instant,
    failures: u32,
    successes: u32,

    /// How long it is out next time.
    out_time: Duration,

    /// Health checks that have failed since the last that did not.
    failed_checks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpstreamStanding {
    In,
    Out {
        until: Instant,
    },

    /// One request is there to try it.
    OnTrial,
}

/// Change of an upstream's health, which is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthChange {
    /// It is out for so long, after so many failures in a window.
    Out {
        failures: u32,
        time: Duration,
    },
    FailsChecks,
    Back,
}

impl UpstreamHealth {
    /// Returns the health of an upstream that so many failures in a window put out.
    pub fn new(failures_max: u32, now: Instant) -> Self {
        Self {
            failures_max,
            standing: UpstreamStanding::In,
            window_began: now,
            failures: 0,
            successes: 0,
            out_time: OUT_TIME_MIN,
            failed_checks: 0,
        }
    }

    /// Returns whether it may get a request.
    pub fn is_available(&self, now: Instant) -> bool {
        let is_due = match self.standing {
            UpstreamStanding::In => true,
            UpstreamStanding::Out { until } => until <= now,
            UpstreamStanding::OnTrial => false,
        };
        is_due && !self.fails_checks()
    }

    /// Returns whether nothing is known against it.
    pub fn is_healthy(&self) -> bool {
        self.standing == UpstreamStanding::In && !self.fails_checks()
    }

    fn fails_checks(&self) -> bool {
        self.failed_checks >= CHECK_FAILURES_MAX
    }

    /// Notes that it gets a request. Returns whether that is on trial.
    pub fn on_request(&mut self, now: Instant) -> bool {
        let is_trial = matches!(self.standing, UpstreamStanding::Out { until } if until <= now);
        if is_trial {
            self.standing = UpstreamStanding::OnTrial;
        }
        is_trial
    }

    /// Notes a response.
    pub fn on_success(&mut self, now: Instant) -> Option<HealthChange> {
        self.slide(now);
        self.successes = self.successes.saturating_add(1);
        if self.standing == UpstreamStanding::In {
            return None;
        }
        self.standing = UpstreamStanding::In;
        self.failures = 0;
        (!self.fails_checks()).then_some(HealthChange::Back)
    }

    /// Notes that there was none, or a part.
    pub fn on_failure(&mut self, now: Instant) -> Option<HealthChange> {
        self.slide(now);
        self.failures = self.failures.saturating_add(1);
        let is_many = self.failures >= self.failures_max && self.failures >= self.successes;
        match self.standing {
            UpstreamStanding::In if !is_many => return None,
            UpstreamStanding::In | UpstreamStanding::OnTrial => (),
            UpstreamStanding::Out { .. } => return None,
        }
        let (failures, time) = (self.failures, self.out_time);
        self.standing = UpstreamStanding::Out { until: now + time };
        self.out_time = (time * 2).min(OUT_TIME_MAX);
        Some(HealthChange::Out { failures, time })
    }

    /// Notes that a request on trial has ended, and nothing is known.
    pub fn on_trial_end(&mut self, now: Instant) {
        if self.standing == UpstreamStanding::OnTrial {
            self.standing = UpstreamStanding::Out { until: now };
        }
    }

    /// Notes the result of a health check.
    pub fn on_check(&mut self, is_success: bool) -> Option<HealthChange> {
        let failed_before = self.fails_checks();
        self.failed_checks = if is_success { 0 } else { self.failed_checks.saturating_add(1) };
        match (failed_before, self.fails_checks()) {
            (false, true) => Some(HealthChange::FailsChecks),
            (true, false) if self.standing == UpstreamStanding::In => Some(HealthChange::Back),
            _ => None,
        }
    }

    /// Begins a window after the last. One without failures has it out shortly again.
    fn slide(&mut self, now: Instant) {
        if now.saturating_duration_since(self.window_began) < WINDOW {
            return;
        }
        if self.failures == 0 && self.successes > 0 && self.standing == UpstreamStanding::In {
            self.out_time = OUT_TIME_MIN;
        }
        (self.window_began, self.failures, self.successes) = (now, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::clock;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failures_put_an_upstream_out_for_ever_longer() {
        let mut now = clock::now();
        let mut health = UpstreamHealth::new(3, now);
        assert_eq!([health.on_failure(now), health.on_failure(now)], [None; 2]);
        for seconds in [5, 10, 20, 40, 60, 60] {
            let Some(HealthChange::Out { time, .. }) = health.on_failure(now) else {
                panic!("it is not out")
            };
            assert_eq!(time, seconds * SECOND);
            assert!(!health.is_available(now + time - SECOND) && !health.is_healthy());
            now += time;
            assert!(health.is_available(now));
            assert!(health.on_request(now), "on trial");
            assert!(!health.is_available(now), "one at a time");
        }
        assert_eq!(health.on_success(now), Some(HealthChange::Back));
        assert!(health.is_available(now) && health.is_healthy());
    }

    #[test]
    fn upstream_without_requests_is_tried_by_the_first() {
        let start = clock::now();
        let mut health = UpstreamHealth::new(1, start);
        assert!(health.on_failure(start).is_some());
        let later = start + 1000 * OUT_TIME_MAX;
        assert!(health.is_available(later) && !health.is_healthy());
        assert!(health.on_request(later), "on trial");
        assert_eq!(health.on_success(later), Some(HealthChange::Back));
    }

    #[test]
    fn few_failures_leave_an_upstream_in() {
        for (failures, successes, step, expected) in [
            (2, 0, SECOND, true),
            (3, 0, SECOND, false),
            (3, 3, SECOND, false),
            (3, 4, SECOND, true),
            (9, 0, WINDOW, true),
        ] {
            let mut now = clock::now();
            let mut health = UpstreamHealth::new(3, now);
            (0..successes).for_each(|_| assert_eq!(health.on_success(now), None));
            for _ in 0..failures {
                health.on_failure(now);
                now += step;
            }
            assert_eq!(health.is_healthy(), expected, "{failures} {successes} {step:?}");
        }
    }

    #[test]
    fn trial_without_a_result_is_followed_by_another() {
        let mut now = clock::now();
        let mut health = UpstreamHealth::new(1, now);
        health.on_failure(now);
        now += OUT_TIME_MIN;
        assert!(health.on_request(now));
        health.on_trial_end(now);
        assert!(health.is_available(now) && !health.is_healthy());
    }

    #[test]
    fn checks_put_an_upstream_out_and_bring_it_back() {
        let now = clock::now();
        let mut health = UpstreamHealth::new(1, now);
        for (is_success, expected, is_available) in [
            (false, None, true),
            (true, None, true),
            (false, None, true),
            (false, Some(HealthChange::FailsChecks), false),
            (false, None, false),
            (true, Some(HealthChange::Back), true),
        ] {
            assert_eq!(health.on_check(is_success), expected);
            assert_eq!(health.is_available(now), is_available);
        }
        health.on_failure(now);
        assert_eq!(health.on_check(true), None, "requests fail nevertheless");
        assert!(!health.is_available(now));
    }
}
