//! Phases of Careful Resume in a qlog.

use serde_json::Value;

/// A change of phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseChange {
    /// The new phase and the trigger, as in `normal: rate_limited`; the phase alone without a
    /// trigger.
    pub what: String,
    pub first_unvalidated: u64,
    pub last_unvalidated: u64,
    pub cwnd_bytes: u64,
}

/// Returns the changes of phase in a qlog.
pub fn phases(qlog: &str) -> Vec<PhaseChange> {
    events(qlog)
        .filter(|event| event["name"] == "quic:careful_resume_phase_updated")
        .map(|event| phase_change(&event["data"]))
        .collect()
}

/// Returns the events of a qlog.
pub fn events(qlog: &str) -> impl Iterator<Item = Value> + '_ {
    qlog.split('\u{1e}').filter_map(|record| serde_json::from_str(record).ok())
}

fn phase_change(data: &Value) -> PhaseChange {
    let phase = data["new"].as_str().unwrap();
    let state = |field: &str| data["state_data"][field].as_u64().unwrap();
    PhaseChange {
        what: match data["trigger"].as_str() {
            Some(trigger) => format!("{phase}: {trigger}"),
            None => phase.to_owned(),
        },
        first_unvalidated: state("first_unvalidated_packet"),
        last_unvalidated: state("last_unvalidated_packet"),
        cwnd_bytes: state("congestion_window"),
    }
}
