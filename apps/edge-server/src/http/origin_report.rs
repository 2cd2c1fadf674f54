//! Report of what a request has had an origin do, for the access log. It is filled while that happens.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

/// Report of one request. It has what the last request at the origin was, if several were needed.
#[derive(Debug, Default)]
pub struct OriginReport(Mutex<ReportState>);

#[derive(Debug, Default)]
struct ReportState {
    /// When the request was to be sent. Absent if the origin was not asked.
    began: Option<Instant>,
    upstream: Option<Arc<str>>,
    first_byte: Option<Duration>,
    whole: Option<Duration>,
}

/// What an origin has done for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginTimes {
    /// Upstream that got the request, the last one of several.
    pub upstream: Arc<str>,

    /// Time until the response began, with connections and attempts that failed. Absent if it has not.
    pub first_byte: Option<Duration>,

    /// Time until the response, or the last attempt, ended. Absent if it has not.
    pub whole: Option<Duration>,
}

impl OriginReport {
    /// Notes that a request is to be sent.
    pub fn on_begin(&self, now: Instant) {
        *self.state() = ReportState { began: Some(now), ..ReportState::default() };
    }

    /// Notes the upstream that gets the request.
    pub fn on_attempt(&self, upstream: &Arc<str>) {
        let mut state = self.state();
        (state.upstream, state.whole) = (Some(Arc::clone(upstream)), None);
    }

    /// Notes that the response has begun.
    pub fn on_response(&self, now: Instant) {
        let mut state = self.state();
        state.first_byte = state.time(now);
    }

    /// Notes that the response, or the attempt, has ended.
    pub fn on_end(&self, now: Instant) {
        let mut state = self.state();
        state.whole = state.whole.or(state.time(now));
    }

    /// Returns what is known, if the origin was asked.
    pub fn times(&self) -> Option<OriginTimes> {
        let state = self.state();
        let ReportState { first_byte, whole, .. } = *state;
        Some(OriginTimes { upstream: state.upstream.clone()?, first_byte, whole })
    }

    fn state(&self) -> MutexGuard<'_, ReportState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportState {
    fn time(&self, now: Instant) -> Option<Duration> {
        self.began.map(|began| now.saturating_duration_since(began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::clock;

    #[test]
    fn report_is_of_the_last_request_and_upstream() {
        let (report, start) = (OriginReport::default(), clock::now());
        let ms = |ms| Duration::from_millis(ms);
        assert_eq!(report.times(), None);
        report.on_begin(start);
        assert_eq!(report.times(), None);
        report.on_attempt(&"a".into());
        report.on_end(start + ms(1));
        let failed = |whole| OriginTimes { upstream: "a".into(), first_byte: None, whole };
        assert_eq!(report.times(), Some(failed(Some(ms(1)))));
        report.on_attempt(&"b".into());
        report.on_response(start + ms(2));
        let first_byte = Some(ms(2));
        let begun = OriginTimes { upstream: "b".into(), first_byte, whole: None };
        assert_eq!(report.times(), Some(begun.clone()));
        report.on_end(start + ms(3));
        report.on_end(start + ms(4));
        assert_eq!(report.times(), Some(OriginTimes { whole: Some(ms(3)), ..begun }));
        report.on_begin(start);
        report.on_attempt(&"a".into());
        assert_eq!(report.times(), Some(failed(None)));
    }
}
