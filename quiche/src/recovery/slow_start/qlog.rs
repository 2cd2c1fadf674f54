//! Slow-start exits in the connection's log, through qlog's own means for
//! events that it does not know.
//!
//! `slow_start:conservative_entered`: HyStart++ noticed a longer RTT.
//! `slow_start:exited`: the first slow start is over; `reason` is `search`,
//! `hystart` or `loss`.
//! `slow_start:search_evaluated`: the comparison that made SEARCH speak, and
//! all others when [`SearchConfig::log_evaluations`] is set.
//!
//! [`SearchConfig::log_evaluations`]: super::SearchConfig::log_evaluations

use std::time::Instant;

use qlog::events::EventImportance;
use qlog::events::JsonEvent;
use qlog::streamer::QlogStreamer;
use serde_json::json;
use serde_json::Value;

use super::SlowStart;
use super::SlowStartEnd;
use crate::recovery::search::Evaluation;

impl SlowStart {
    /// The one that ends slow start is always worth it.
    pub(crate) fn keep_for_log(&mut self, evaluation: Option<Evaluation>) {
        let logs_all = self
            .search
            .as_ref()
            .is_some_and(|search| search.config().log_evaluations);

        if let Some(evaluation) = evaluation.filter(|e| e.is_exit || logs_all) {
            self.evaluation = Some(evaluation);
        }
    }

    /// Writes what happened since the last call.
    pub(crate) fn write_log(&mut self, streamer: &mut QlogStreamer) {
        if let Some(evaluation) = self.evaluation.take() {
            let data = evaluation_data(&evaluation);
            write(streamer, "search_evaluated", data, evaluation.time);
        }

        let logged = std::mem::replace(&mut self.logged, self.stats);

        if let Some(since) = self
            .stats
            .conservative_since
            .filter(|_| logged.conservative_since.is_none())
        {
            write(streamer, "conservative_entered", json!({}), since);
        }

        if let Some(end) = self.stats.end.filter(|_| logged.end.is_none()) {
            write(streamer, "exited", end_data(&end), end.time);
        }
    }
}

fn write(streamer: &mut QlogStreamer, name: &str, data: Value, time: Instant) {
    let event = JsonEvent {
        time: 0.0,
        importance: EventImportance::Extra,
        name: format!("slow_start:{name}"),
        data,
    };

    streamer.add_event_with_instant(event, time).ok();
}

/// Windows are in bytes.
fn end_data(end: &SlowStartEnd) -> Value {
    json!({
        "reason": end.reason.name(),
        "congestion_window": end.congestion_window,
        "ssthresh": end.ssthresh,
    })
}

/// Bytes, and the share of the expected ones that is missing.
fn evaluation_data(evaluation: &Evaluation) -> Value {
    json!({
        "difference": evaluation.difference,
        "delivered": evaluation.delivered,
        "expected": evaluation.expected,
        "exit": evaluation.is_exit,
    })
}
