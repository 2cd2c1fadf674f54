//! qlog events of slow-start exits.
//!
//! `slow_start:conservative_entered`: HyStart++ noticed a longer RTT.
//! `slow_start:exited`: slow start is over; `reason` is `search`, `hystart`,
//! `queue`, after which it may go on, or `loss`. `slow_start:search_evaluated`:
//! the comparison with which SEARCH ends slow start, and all others if
//! [`SearchConfig::log_evaluations`] is set.
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
    /// Keeps an evaluation for the log: always the one that ends slow start.
    pub(crate) fn keep_for_log(&mut self, evaluation: Option<Evaluation>) {
        let logs_all = self
            .search
            .as_ref()
            .is_some_and(|search| search.config().log_evaluations);

        if let Some(evaluation) = evaluation.filter(|e| e.is_exit || logs_all) {
            self.evaluation = Some(evaluation);
        }
    }

    /// Writes the events since the last call.
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

/// Returns the data of an end, windows in bytes.
fn end_data(end: &SlowStartEnd) -> Value {
    json!({
        "reason": end.reason.name(),
        "congestion_window": end.congestion_window,
        "ssthresh": end.ssthresh,
    })
}

/// Returns the data of an evaluation, in bytes, and the missing share.
fn evaluation_data(evaluation: &Evaluation) -> Value {
    json!({
        "difference": evaluation.difference,
        "delivered": evaluation.delivered,
        "expected": evaluation.expected,
        "exit": evaluation.is_exit,
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_path::*;
    use super::super::SearchConfig;
    use super::super::SlowStartExit;
    use super::*;
    use crate::recovery::careful_resume_qlog::tests::LogBuffer;
    use crate::recovery::RecoveryOps;
    use crate::CongestionControlAlgorithm::CUBIC;

    /// Returns the names and data of a log of a flow until its slow start is
    /// over.
    fn log_of(setting: Setting) -> Vec<(String, Value)> {
        let mut flow = Flow::new(setting);
        let buffer = LogBuffer::default();
        let mut log = buffer.start_log(flow.now);

        for _ in 0..2000 {
            flow.run(0.05, |_| false);
            flow.recovery.slow_start_mut().unwrap().write_log(&mut log);
        }

        let events = buffer.lines().into_iter().filter_map(|event| {
            let name = event["name"].as_str()?.strip_prefix("slow_start:")?;
            Some((name.to_owned(), event["data"].clone()))
        });
        events.collect()
    }

    fn names(events: &[(String, Value)]) -> Vec<&str> {
        events.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn log_has_the_end_of_slow_start_once() {
        let search = Setting {
            buffer: 6 * BDP,
            ..Setting::new(CUBIC, "search")
        };
        let events = log_of(search);
        assert_eq!(names(&events), ["search_evaluated", "exited"]);
        let (evaluated, exited) = (&events[0].1, &events[1].1);
        assert_eq!(evaluated["exit"], true);
        assert!(evaluated["difference"].as_f64() >= Some(0.26));
        assert!(evaluated["delivered"].as_u64() < evaluated["expected"].as_u64());
        assert_eq!(exited["reason"], "search");
        assert!(
            exited["ssthresh"].as_u64() < exited["congestion_window"].as_u64()
        );

        let events = log_of(Setting::new(CUBIC, "hystart"));
        assert_eq!(names(&events), ["conservative_entered", "exited"]);

        let events = log_of(Setting::new(CUBIC, "none"));
        assert_eq!(names(&events), ["exited"]);
        assert_eq!(events[0].1["reason"], "loss");
    }

    #[test]
    fn every_evaluation_is_logged_on_demand() {
        let all = SearchConfig {
            log_evaluations: true,
            ..Default::default()
        };
        let events = log_of(Setting {
            exit: SlowStartExit::Search(all),
            buffer: 6 * BDP,
            ..Setting::new(CUBIC, "search")
        });
        let evaluations = events.iter().filter(|(n, _)| n == "search_evaluated");
        let exits: Vec<_> = evaluations.map(|(_, d)| d["exit"] == true).collect();

        // Three an RTT.
        assert!(exits.len() > 10, "{exits:?}");
        assert_eq!(exits.iter().position(|is| *is), Some(exits.len() - 1));
    }
}
