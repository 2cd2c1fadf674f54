//! Report of Careful Resume on one connection, for its client: JSON and `Server-Timing`.

use std::fmt::Write;
use std::time::Duration;

use quiche::careful_resume::Phase;
use quiche::careful_resume::Trigger;
use serde::Serialize;

use crate::quic::INITIAL_WINDOW_BYTES;
use crate::resume::own_state::Source;
use crate::resume::summary::round_trips_saved;
use crate::resume::summary::ResumeSummary;

/// What the server knows of a connection's path, and what Careful Resume did with it. Bytes and
/// milliseconds; a value is absent until it is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// Name of the connection in the access log and of its qlog.
    pub connection: String,

    pub outcome: JumpOutcome,

    /// Phase, and the trigger with which it began.
    pub phase: Option<&'static str>,
    pub trigger: Option<&'static str>,

    /// Where saved parameters come from that the connection has claimed: `store`, or the client's
    /// `token`.
    pub source: Option<&'static str>,

    /// The saved parameters that the connection was given.
    pub saved_cwnd: Option<u64>,
    pub saved_rtt_ms: Option<f64>,

    pub initial_window: u64,
    pub jump_cwnd: Option<usize>,

    /// See [`round_trips_saved`]; known once the jump is validated.
    pub round_trips_saved: Option<f64>,

    pub rtt_ms: Option<f64>,
    pub min_rtt_ms: Option<f64>,
}

/// What has become of Careful Resume on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JumpOutcome {
    /// It is off for this client.
    Off,

    /// The client asked for a connection that does not jump.
    Declined,

    /// The initial window still probes the path.
    Undecided,

    /// The connection did not jump; the trigger says why.
    NoJump,

    /// The jump is under way.
    Jumping,

    /// All packets of the jump arrived.
    Validated,

    /// The jump ended without congestion before all of it was acknowledged or sent.
    Unconfirmed,

    /// Congestion followed the jump.
    Retreated,
}

impl JumpOutcome {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Declined => "declined",
            Self::Undecided => "undecided",
            Self::NoJump => "no_jump",
            Self::Jumping => "jumping",
            Self::Validated => "validated",
            Self::Unconfirmed => "unconfirmed",
            Self::Retreated => "retreated",
        }
    }

    fn of(summary: &ResumeSummary) -> Self {
        match summary.phase {
            _ if summary.retreated => Self::Retreated,
            _ if summary.validated_bytes.is_some() => Self::Validated,
            Phase::Normal if summary.has_jumped() => Self::Unconfirmed,
            _ if summary.has_jumped() => Self::Jumping,
            _ if summary.declined => Self::Declined,
            Phase::Normal => Self::NoJump,
            _ => Self::Undecided,
        }
    }
}

impl ConnectionReport {
    /// Returns the report of a connection with this name and summary, which is absent where
    /// Careful Resume is off, and with these round-trip times.
    pub fn new(
        connection: String,
        summary: Option<&ResumeSummary>,
        rtt: Option<Duration>,
        min_rtt: Option<Duration>,
    ) -> Self {
        let saved = summary.and_then(|summary| summary.saved);
        let validated = summary.filter(|summary| !summary.retreated);
        let saved_trips = validated.and_then(|summary| summary.validated_bytes);
        Self {
            connection,
            outcome: summary.map_or(JumpOutcome::Off, JumpOutcome::of),
            phase: summary.map(|summary| summary.phase.name()),
            trigger: summary.and_then(|summary| summary.trigger).map(Trigger::name),
            source: summary.and_then(|summary| summary.source).map(Source::name),
            saved_cwnd: saved.map(|saved| saved.saved_cwnd),
            saved_rtt_ms: saved.map(|saved| in_ms(saved.saved_rtt)),
            initial_window: INITIAL_WINDOW_BYTES,
            jump_cwnd: summary.and_then(|summary| summary.jump_bytes),
            round_trips_saved: saved_trips.map(|bytes| in_tenths(round_trips_saved(bytes))),
            rtt_ms: rtt.map(in_ms),
            min_rtt_ms: min_rtt.map(in_ms),
        }
    }

    /// Returns the report as JSON, with a line break at its end.
    pub fn json(&self) -> String {
        // Text and numbers always serialize.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Returns the value of a `Server-Timing` field. The description of `resume` has the form of
    /// a query, so that scripts take it apart with `URLSearchParams`.
    pub fn server_timing(&self) -> String {
        let mut text = format!("resume;desc=\"outcome={}", self.outcome.name());
        let parameters = [
            ("trigger", self.trigger.map(str::to_owned)),
            ("source", self.source.map(str::to_owned)),
            ("saved_cwnd", self.saved_cwnd.map(|bytes| bytes.to_string())),
            ("saved_rtt_ms", self.saved_rtt_ms.map(|ms| ms.to_string())),
            ("jump_cwnd", self.jump_cwnd.map(|bytes| bytes.to_string())),
            ("round_trips_saved", self.round_trips_saved.map(|trips| trips.to_string())),
        ];
        for (name, value) in parameters {
            if let Some(value) = value {
                let _ = write!(text, "&{name}={value}");
            }
        }
        text.push('"');
        for (name, ms) in [("rtt", self.rtt_ms), ("min-rtt", self.min_rtt_ms)] {
            if let Some(ms) = ms {
                let _ = write!(text, ", {name};dur={ms}");
            }
        }
        text
    }
}

fn in_ms(time: Duration) -> f64 {
    in_tenths(time.as_secs_f64() * 1e3)
}

/// Returns a number rounded to one decimal.
fn in_tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::path_state::PathState;
    use std::time::SystemTime;

    const MS: Duration = Duration::from_millis(1);

    fn summary() -> ResumeSummary {
        ResumeSummary::new(8 << 20, None)
    }

    fn validated() -> ResumeSummary {
        ResumeSummary {
            phase: Phase::Normal,
            trigger: Some(Trigger::LastUnvalidatedPacketAcknowledged),
            saved: Some(PathState {
                saved_cwnd: 336_000,
                saved_rtt: 600 * MS,
                observed: SystemTime::UNIX_EPOCH,
                expires: SystemTime::UNIX_EPOCH,
                limited: false,
                validated: false,
            }),
            source: Some(Source::Token),
            jump_bytes: Some(168_000),
            validated_bytes: Some(168_000),
            ..summary()
        }
    }

    #[test]
    fn outcome_follows_phase_and_jump() {
        let of = |phase, jump_bytes| ResumeSummary { phase, jump_bytes, ..summary() };
        for (summary, outcome) in [
            (of(Phase::Reconnaissance, None), JumpOutcome::Undecided),
            (of(Phase::Normal, None), JumpOutcome::NoJump),
            (of(Phase::Unvalidated, Some(9)), JumpOutcome::Jumping),
            (of(Phase::Validating, Some(9)), JumpOutcome::Jumping),
            (of(Phase::Normal, Some(9)), JumpOutcome::Unconfirmed),
            (
                ResumeSummary { retreated: true, ..of(Phase::SafeRetreat, Some(9)) },
                JumpOutcome::Retreated,
            ),
            (
                ResumeSummary { retreated: true, ..of(Phase::Normal, Some(9)) },
                JumpOutcome::Retreated,
            ),
            (ResumeSummary { declined: true, ..of(Phase::Normal, None) }, JumpOutcome::Declined),
            (
                ResumeSummary { declined: true, ..of(Phase::Normal, Some(9)) },
                JumpOutcome::Unconfirmed,
            ),
            (validated(), JumpOutcome::Validated),
        ] {
            let report = ConnectionReport::new("00ab".into(), Some(&summary), None, None);
            assert_eq!(report.outcome, outcome, "{summary:?}");
            let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
            assert_eq!(json["outcome"], outcome.name());
        }
        let off = ConnectionReport::new("00ab".into(), None, None, None);
        assert_eq!((off.outcome, off.phase), (JumpOutcome::Off, None));
    }

    #[test]
    fn server_timing_tells_jump_and_round_trips() {
        let rtts = (Some(601_234 * MS / 1000), Some(600 * MS));
        let report = ConnectionReport::new("00ab".into(), Some(&validated()), rtts.0, rtts.1);
        assert_eq!(
            report.server_timing(),
            "resume;desc=\"outcome=validated&trigger=last_unvalidated_packet_acknowledged\
             &source=token&saved_cwnd=336000&saved_rtt_ms=600&jump_cwnd=168000&round_trips_saved=2\", \
             rtt;dur=601.2, min-rtt;dur=600"
        );
        let new = ConnectionReport::new("00ab".into(), Some(&summary()), None, None);
        assert_eq!(new.server_timing(), "resume;desc=\"outcome=undecided\"");
    }

    #[test]
    fn retreat_saves_no_round_trips() {
        let summary = ResumeSummary { retreated: true, ..validated() };
        let report = ConnectionReport::new("00ab".into(), Some(&summary), None, None);
        assert_eq!(report.round_trips_saved, None);
    }
}
