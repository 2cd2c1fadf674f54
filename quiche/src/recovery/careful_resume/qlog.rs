//! qlog event `careful_resume_phase_updated`
//! (draft-ietf-tsvwg-careful-resume-qlog-02).

use qlog::events::EventImportance;
use qlog::events::JsonEvent;
use qlog::streamer::QlogStreamer;
use serde_json::json;
use serde_json::Value;

use crate::recovery::careful_resume::CarefulResume;
use crate::recovery::careful_resume::CarefulResumeEvent;

const NAME: &str = "quic:careful_resume_phase_updated";

/// Writes the changes of phase since the last call.
pub(super) fn write(resume: &mut CarefulResume, streamer: &mut QlogStreamer) {
    for event in resume.events_to_log() {
        let json = JsonEvent {
            time: 0.0,
            importance: EventImportance::Extra,
            name: NAME.to_string(),
            data: data(event),
        };

        streamer.add_event_with_instant(json, event.time).ok();
    }
}

/// Fields without a value are left out. saved_rtt is in milliseconds.
fn data(event: &CarefulResumeEvent) -> Value {
    let mut data = json!({
        "old": event.old.map(|phase| phase.name()),
        "new": event.new.name(),
        "state_data": {
            "pipesize": event.pipe_size,
            "first_unvalidated_packet":
                event.first_unvalidated_packet.unwrap_or_default(),
            "last_unvalidated_packet":
                event.last_unvalidated_packet.unwrap_or_default(),
            "congestion_window": event.congestion_window,
            "ssthresh": event.ssthresh,
        },
        "restored_data": event.restored.map(|restored| json!({
            "saved_congestion_window": restored.saved_cwnd,
            "saved_rtt": restored.saved_rtt.as_secs_f64() * 1000.0,
        })),
        "trigger": event.trigger.map(|trigger| trigger.name()),
    });

    if let Value::Object(fields) = &mut data {
        fields.retain(|_, value| !value.is_null());
    }

    data
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::careful_resume::CarefulResumeConfig;
    use crate::careful_resume::Phase;
    use crate::careful_resume::Trigger;
    use crate::clock;
    use crate::path_state::PathState;
    use crate::recovery::careful_resume::Conditions;
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::time::Duration;
    use std::time::Instant;

    fn event() -> CarefulResumeEvent {
        CarefulResumeEvent {
            time: clock::now(),
            old: None,
            new: Phase::Reconnaissance,
            trigger: None,
            pipe_size: 0,
            congestion_window: 13_500,
            ssthresh: 27_000,
            first_unvalidated_packet: None,
            last_unvalidated_packet: None,
            restored: None,
        }
    }

    /// Section H: names and fields; a field without a value is left out.
    #[test]
    fn event_has_the_fields_of_the_draft() {
        assert_eq!(
            data(&event()),
            json!({
                "new": "reconnaissance",
                "state_data": {
                    "pipesize": 0,
                    "first_unvalidated_packet": 0,
                    "last_unvalidated_packet": 0,
                    "congestion_window": 13_500,
                    "ssthresh": 27_000,
                },
            })
        );

        let wall_now = clock::wall_now();
        let retreat = CarefulResumeEvent {
            old: Some(Phase::Validating),
            new: Phase::SafeRetreat,
            trigger: Some(Trigger::PacketLoss),
            pipe_size: 85_050,
            first_unvalidated_packet: Some(30),
            last_unvalidated_packet: Some(150),
            restored: Some(PathState {
                saved_cwnd: 3_125_000,
                saved_rtt: Duration::from_micros(50_500),
                observed: wall_now,
                expires: wall_now,
                limited: false,
                validated: false,
            }),
            ..event()
        };

        assert_eq!(
            data(&retreat),
            json!({
                "old": "validating",
                "new": "safe_retreat",
                "state_data": {
                    "pipesize": 85_050,
                    "first_unvalidated_packet": 30,
                    "last_unvalidated_packet": 150,
                    "congestion_window": 13_500,
                    "ssthresh": 27_000,
                },
                "restored_data": {
                    "saved_congestion_window": 3_125_000,
                    "saved_rtt": 50.5,
                },
                "trigger": "packet_loss",
            })
        );
    }
    /// The text of a log, in memory.
    #[derive(Clone, Default)]
    pub(crate) struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl LogBuffer {
        /// Starts a log at this time, with all events.
        pub(crate) fn start_log(&self, start: Instant) -> QlogStreamer {
            let mut log = QlogStreamer::new(
                None,
                None,
                start,
                qlog::TraceSeq::new(None, None, None, None, vec![]),
                EventImportance::Extra,
                qlog::streamer::EventTimePrecision::MicroSeconds,
                Box::new(self.clone()),
            );
            log.start_log().unwrap();
            log
        }

        /// Returns its lines, parsed.
        pub(crate) fn lines(&self) -> Vec<Value> {
            let text = self.0.lock().unwrap();
            let lines = text.split(|byte| *byte == 0x1e);
            lines
                .filter_map(|line| serde_json::from_slice(line).ok())
                .collect()
        }
    }

    impl std::io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Section H: each change of phase is one event, at its own time.
    #[test]
    fn log_has_each_change_of_phase_once() {
        let start = clock::now();
        let buffer = LogBuffer::default();
        let mut log = buffer.start_log(start);

        let mut resume = CarefulResume::new(CarefulResumeConfig::default());
        let c = Conditions {
            now: start + Duration::from_millis(250),
            cwnd: 12_000,
            ssthresh: usize::MAX,
            flight_size: 0,
            initial_window: 12_000,
            max_datagram_size: 1200,
            rtt: Duration::ZERO,
            min_rtt: None,
            window_limited: true,
            has_left_slow_start: false,
        };
        resume.on_path_change(&c);

        for _ in 0..2 {
            write(&mut resume, &mut log);
        }

        let mut events = buffer.lines();
        events.retain(|e| e["data"]["new"] == "normal");

        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["name"], "quic:careful_resume_phase_updated");
        assert_eq!(events[0]["data"]["trigger"], "path_changed");
        assert_eq!(events[0]["time"].as_f64(), Some(250.0));
    }
}
