//! Counters of Careful Resume: offers, jumps, refusals and their outcomes.

use std::sync::atomic::AtomicU64;
use std::time::Duration;
use std::time::SystemTime;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::SendLimit;
use quiche::careful_resume::Trigger;
use quiche::path_state::PathState;

use crate::resume::own_state::Source;
use crate::resume::summary::round_trips_saved;

/// Buckets of ages, in seconds, up to the default lifetime of saved parameters.
const AGE_BUCKETS_S: [f64; 8] = [1.0, 10.0, 60.0, 300.0, 900.0, 1800.0, 2700.0, 3600.0];

/// Buckets of the RTT as a multiple of the saved one: from half to ten times the saved RTT the
/// path counts as the same (RFC 9959, 3.2 and 4.2.1).
const RTT_RATIO_BUCKETS: [f64; 11] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0];

/// Reason of a connection with saved parameters that ended before its window limited it.
const UNUSED: &str = "unused";

/// Reasons of connections that do not jump. Their counters start at 0, so that `increase()` sees
/// the first event.
const REFUSALS: [Trigger; 8] = [
    Trigger::RttNotValidated,
    Trigger::JumpNotLarger,
    Trigger::SlowStartExit,
    Trigger::PacketLoss,
    Trigger::PersistentCongestion,
    Trigger::LifetimePassed,
    Trigger::ClaimLapsed,
    Trigger::PathChanged,
];

/// Phases after the first and the triggers that they begin with as a rule. Their counters start at
/// 0 likewise.
const PHASES: [(Phase, Trigger); 13] = [
    (Phase::Unvalidated, Trigger::CongestionWindowLimited),
    (Phase::Validating, Trigger::LastUnvalidatedPacketSent),
    (Phase::Validating, Trigger::FirstUnvalidatedPacketAcknowledged),
    (Phase::Validating, Trigger::RttExceeded),
    (Phase::SafeRetreat, Trigger::PacketLoss),
    (Phase::SafeRetreat, Trigger::EcnCe),
    (Phase::SafeRetreat, Trigger::PersistentCongestion),
    (Phase::SafeRetreat, Trigger::PathChanged),
    (Phase::Normal, Trigger::LastUnvalidatedPacketAcknowledged),
    (Phase::Normal, Trigger::RateLimited),
    (Phase::Normal, Trigger::ExitRecovery),
    (Phase::Normal, Trigger::RttNotValidated),
    (Phase::Normal, Trigger::JumpNotLarger),
];

/// What may limit a jump.
const JUMP_LIMITS: [&str; 4] = ["saved_cwnd", "max_jump", "flow_control", "application"];

/// The counters, shared by the workers.
#[derive(Clone)]
pub struct ResumeMetrics {
    phases: Family<PhaseLabels, Counter>,
    offered: Counter,
    taken: Counter,
    sources: Family<SourceLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    limits: Family<LimitLabels, Counter>,
    set_age_s: Histogram,
    rtt_ratio: Histogram,
    rtts_saved: Counter<f64, AtomicU64>,
    violations: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
    trigger: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabels {
    source: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

/// State of path and connection at a change of phase.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSnapshot {
    pub min_rtt: Option<Duration>,

    /// What limits the connection's sending.
    pub limit: SendLimit,

    /// Window of the jump and its upper limit, in bytes.
    pub jump_bytes: usize,
    pub max_jump: u32,

    /// Where the saved parameters come from.
    pub source: Option<Source>,
    pub wall_now: SystemTime,
}

impl ResumeMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            phases: Family::default(),
            offered: Counter::default(),
            taken: Counter::default(),
            sources: Family::default(),
            refused: Family::default(),
            limits: Family::default(),
            set_age_s: Histogram::new(AGE_BUCKETS_S),
            rtt_ratio: Histogram::new(RTT_RATIO_BUCKETS),
            rtts_saved: Counter::default(),
            violations: Counter::default(),
        };
        let Self {
            phases,
            offered,
            taken,
            sources,
            refused,
            limits,
            set_age_s,
            rtt_ratio,
            rtts_saved,
            violations,
        } = metrics.clone();
        let resume = registry.sub_registry_with_prefix("edge_server_resume");
        let help = "Phases of Careful Resume that connections entered, and why";
        resume.register("phases", help, phases);
        resume.register("jumps_offered", "Connections that got saved parameters", offered);
        resume.register("jumps_taken", "Connections that jumped", taken);
        let help = "Connections that jumped, by where their saved parameters were kept";
        resume.register("jump_sources", help, sources);
        let help = "Connections that got saved parameters and did not jump, and why";
        resume.register("jumps_refused", help, refused);
        resume.register("jump_limits", "What ended the sending of jumps", limits);
        let help = "Age of the saved parameters with which connections jumped";
        resume.register("set_age_seconds", help, set_age_s);
        let help = "RTT of the path divided by the saved RTT, at jumps and refusals";
        resume.register("rtt_ratio", help, rtt_ratio);
        let help = "Estimated round trips of slow start that jumps saved";
        resume.register("rtts_saved", help, rtts_saved);
        let help = "Connections closed because the client acknowledged what it had not received";
        resume.register("violations", help, violations);
        for limit in JUMP_LIMITS {
            drop(metrics.limits.get_or_create(&LimitLabels { limit }));
        }
        for source in Source::ALL.map(Source::name) {
            drop(metrics.sources.get_or_create(&SourceLabels { source }));
        }
        for (phase, trigger) in PHASES {
            let labels = PhaseLabels { phase: phase.name(), trigger: trigger.name() };
            drop(metrics.phases.get_or_create(&labels));
        }
        for reason in REFUSALS.map(Trigger::name).into_iter().chain([UNUSED]) {
            drop(metrics.refused.get_or_create(&ReasonLabels { reason }));
        }
        metrics
    }

    /// Counts the beginning of a phase.
    pub fn on_event(&self, event: &CarefulResumeEvent, snapshot: &ConnectionSnapshot) {
        let trigger = event.trigger.map_or("none", Trigger::name);
        self.phases.get_or_create(&PhaseLabels { phase: event.new.name(), trigger }).inc();
        match (event.old, event.new) {
            (None, _) => drop(self.offered.inc()),
            (Some(Phase::Reconnaissance), Phase::Unvalidated) => {
                self.taken.inc();
                if let Some(source) = snapshot.source.map(Source::name) {
                    self.sources.get_or_create(&SourceLabels { source }).inc();
                }
                self.on_decision(event.restored, snapshot);
                if let Some(saved) = event.restored {
                    let age = snapshot.wall_now.duration_since(saved.observed).unwrap_or_default();
                    self.set_age_s.observe(age.as_secs_f64());
                }
            }
            (Some(Phase::Reconnaissance), Phase::Normal) if event.restored.is_some() => {
                self.refused.get_or_create(&ReasonLabels { reason: trigger }).inc();
                self.on_decision(event.restored, snapshot);
            }
            (Some(Phase::Unvalidated), Phase::Validating | Phase::Normal) => {
                let limit = jump_limit(event, snapshot);
                self.limits.get_or_create(&LimitLabels { limit }).inc();
            }
            _ => (),
        }
        if event.trigger == Some(Trigger::LastUnvalidatedPacketAcknowledged) {
            self.rtts_saved.inc_by(round_trips_saved(event.pipe_size));
        }
    }

    /// Counts a connection that ended before it used or refused its saved parameters.
    pub fn on_unused(&self) {
        self.refused.get_or_create(&ReasonLabels { reason: UNUSED }).inc();
    }

    /// Counts a connection of whose client nothing more is believed.
    pub fn on_violation(&self) {
        self.violations.inc();
    }

    fn on_decision(&self, saved: Option<PathState>, snapshot: &ConnectionSnapshot) {
        let Some((saved, min_rtt)) = saved.zip(snapshot.min_rtt) else { return };
        let saved_rtt_s = saved.saved_rtt.as_secs_f64();
        if saved_rtt_s > 0.0 {
            self.rtt_ratio.observe(min_rtt.as_secs_f64() / saved_rtt_s);
        }
    }
}

/// Share of a jump that may be unsent when it counts as used up: pacing takes a round trip, so
/// that the first ACK may arrive before the last packets are sent.
const PACED_DIVISOR: usize = 16;

/// Returns the label of what limited a jump: its window, `--max-jump`, flow control or the
/// application.
fn jump_limit(event: &CarefulResumeEvent, snapshot: &ConnectionSnapshot) -> &'static str {
    let jump = snapshot.jump_bytes;
    // The Validating phase begins with a window of the bytes in flight.
    let in_flight = if event.new == Phase::Validating { event.congestion_window } else { 0 };
    let used_up = event.trigger == Some(Trigger::LastUnvalidatedPacketSent)
        || in_flight >= (jump - jump / PACED_DIVISOR).max(1);
    match snapshot.limit {
        _ if used_up => window_label(snapshot),
        SendLimit::CongestionWindow => window_label(snapshot),
        SendLimit::FlowControl => "flow_control",
        SendLimit::Application => "application",
    }
}

fn window_label(snapshot: &ConnectionSnapshot) -> &'static str {
    match snapshot.jump_bytes >= snapshot.max_jump as usize {
        true => "max_jump",
        false => "saved_cwnd",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::INITIAL_WINDOW_BYTES;
    use crate::telemetry::metrics::tests::assert_exported;
    use std::time::UNIX_EPOCH;

    const NOW: SystemTime = UNIX_EPOCH;
    const MS: Duration = Duration::from_millis(1);

    fn saved(saved_cwnd: u64) -> PathState {
        PathState {
            saved_cwnd,
            saved_rtt: 50 * MS,
            observed: NOW - Duration::from_secs(100),
            expires: NOW + Duration::from_secs(3500),
            limited: false,
            validated: false,
        }
    }

    fn event(old: Option<Phase>, new: Phase, trigger: Option<Trigger>) -> CarefulResumeEvent {
        CarefulResumeEvent {
            time: quiche::clock::now(),
            old,
            new,
            trigger,
            pipe_size: 14 * INITIAL_WINDOW_BYTES as usize,
            congestion_window: 0,
            ssthresh: usize::MAX,
            first_unvalidated_packet: None,
            last_unvalidated_packet: None,
            restored: Some(saved(1_000_000)),
        }
    }

    #[test]
    fn jump_is_counted_from_offer_to_saved_rtts() {
        let mut registry = Registry::default();
        let metrics = ResumeMetrics::register(&mut registry);
        let snapshot = |limit| ConnectionSnapshot {
            min_rtt: Some(60 * MS),
            limit,
            jump_bytes: 500_000,
            max_jump: 1 << 20,
            source: Some(Source::Token),
            wall_now: NOW,
        };
        let window = snapshot(SendLimit::CongestionWindow);
        let (recon, jump) = (Some(Phase::Reconnaissance), Some(Phase::Unvalidated));
        let limited = Some(Trigger::CongestionWindowLimited);
        metrics.on_event(&event(None, Phase::Reconnaissance, None), &window);
        metrics.on_event(&event(recon, Phase::Unvalidated, limited), &window);
        let sent = Some(Trigger::LastUnvalidatedPacketSent);
        metrics.on_event(&event(jump, Phase::Validating, sent), &snapshot(SendLimit::Application));
        let end = Some(Trigger::LastUnvalidatedPacketAcknowledged);
        metrics.on_event(&event(Some(Phase::Validating), Phase::Normal, end), &window);

        metrics.on_event(&event(None, Phase::Reconnaissance, None), &window);
        let other = Some(Trigger::RttNotValidated);
        metrics.on_event(&event(recon, Phase::Normal, other), &window);
        let nothing = CarefulResumeEvent { restored: None, ..event(recon, Phase::Normal, other) };
        metrics.on_event(&nothing, &window);
        metrics.on_unused();

        let lines = [
            "jumps_offered_total 2",
            "jumps_taken_total 1",
            "jump_sources_total{source=\"token\"} 1",
            "jump_sources_total{source=\"store\"} 0",
            "jumps_refused_total{reason=\"rtt_not_validated\"} 1",
            "jumps_refused_total{reason=\"unused\"} 1",
            "jump_limits_total{limit=\"saved_cwnd\"} 1",
            "phases_total{phase=\"normal\",trigger=\"rtt_not_validated\"} 2",
            "phases_total{phase=\"reconnaissance\",trigger=\"none\"} 2",
            "set_age_seconds_bucket{le=\"60.0\"} 0",
            "set_age_seconds_bucket{le=\"300.0\"} 1",
            "rtt_ratio_bucket{le=\"1.1\"} 0",
            "rtt_ratio_bucket{le=\"1.25\"} 2",
            "rtts_saved_total 2.0",
        ];
        assert_exported(&registry, "edge_server_resume_", &lines);
    }

    #[test]
    fn jump_limit_is_labelled() {
        let sent = Some(Trigger::LastUnvalidatedPacketSent);
        let acked = Some(Trigger::FirstUnvalidatedPacketAcknowledged);
        let (full, half) = (SendLimit::CongestionWindow, 250_000);
        for (trigger, limit, in_flight, max_jump, expected) in [
            (sent, SendLimit::Application, 500_000, 500_001, "saved_cwnd"),
            (sent, SendLimit::Application, 500_000, 500_000, "max_jump"),
            (acked, full, half, 8 << 20, "saved_cwnd"),
            (acked, full, half, 500_000, "max_jump"),
            (acked, SendLimit::FlowControl, half, 500_000, "flow_control"),
            (acked, SendLimit::Application, half, 500_000, "application"),
            // The last packets were still waiting for the pacer.
            (acked, SendLimit::Application, 480_000, 500_000, "max_jump"),
            (acked, SendLimit::Application, 480_000, 8 << 20, "saved_cwnd"),
        ] {
            let event = event(Some(Phase::Unvalidated), Phase::Validating, trigger);
            let event = CarefulResumeEvent { congestion_window: in_flight, ..event };
            let jump_bytes = 500_000;
            let snapshot = ConnectionSnapshot {
                min_rtt: None,
                limit,
                jump_bytes,
                max_jump,
                source: None,
                wall_now: NOW,
            };
            assert_eq!(jump_limit(&event, &snapshot), expected);
        }
    }
}
