//! Metrics of both arms of the comparison of Careful Resume with slow start (`--resume-share`).
//!
//! All but the count of connections are of connections that jumped or could have, from then on, so
//! that the arms differ in nothing but the jump.

use ab_test::Arm;
use ab_test::SizeClass;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::http::exchange::FinishedRequest;
use crate::resume::summary::ResumeSummary;
use crate::telemetry::metrics::traffic::SentBytes;

/// Buckets of the time to the last byte, in seconds.
const RESPONSE_BUCKETS_S: [f64; 14] =
    [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 60.0];

/// The metrics, shared by the workers. Both arms' are at 0 from the start.
#[derive(Clone)]
pub struct ArmMetrics([ArmCounters; 2]);

#[derive(Clone)]
struct ArmCounters {
    connections: Counter,
    could_jump: Counter,
    retreats: Counter,
    bytes: Counter,
    bytes_lost: Counter,
    responses_s: [Histogram; SizeClass::COUNT],
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ArmLabels {
    arm: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ArmResponseLabels {
    arm: &'static str,
    size: &'static str,
}

impl ArmMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("edge_server_arm");
        let mut counters = |name: &str, help: &str| {
            let family = Family::<ArmLabels, Counter>::default();
            registry.register(name, help, family.clone());
            family
        };
        let connections = counters("connections", "Connections of clients in each arm");
        let could_jump = counters("could_jump", "Connections that jumped, or could have");
        let retreats = counters("retreats", "Retreats after jumps");
        let bytes = counters("bytes", "UDP payload sent by connections that could jump");
        let bytes_lost =
            counters("bytes_lost", "Bytes in packets declared lost by connections that could jump");
        let responses_s: Family<ArmResponseLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(RESPONSE_BUCKETS_S));
        registry.register(
            "response_seconds",
            "Time to the last byte of complete responses under way when connections could jump",
            responses_s.clone(),
        );
        Self(Arm::ALL.map(Arm::name).map(|arm| {
            let of = |family: &Family<ArmLabels, Counter>| {
                family.get_or_create(&ArmLabels { arm }).clone()
            };
            let histograms = SizeClass::all()
                .map(|size| ArmResponseLabels { arm, size: size.name() })
                .map(|labels| responses_s.get_or_create(&labels).clone());
            let histograms: Vec<_> = histograms.collect();
            ArmCounters {
                connections: of(&connections),
                could_jump: of(&could_jump),
                retreats: of(&retreats),
                bytes: of(&bytes),
                bytes_lost: of(&bytes_lost),
                responses_s: histograms.try_into().expect("one for each class"),
            }
        }))
    }

    fn of(&self, arm: Arm) -> &ArmCounters {
        &self.0[arm.index()]
    }

    /// Counts a new connection.
    pub fn count_connection(&self, arm: Arm) {
        self.of(arm).connections.inc();
    }

    /// Counts what a change of phase changed in a connection's summary.
    pub fn on_change(&self, before: &ResumeSummary, after: &ResumeSummary) {
        let Some(arm) = after.compared_arm() else { return };
        if before.compared_arm().is_none() {
            self.of(arm).could_jump.inc();
        }
        if after.retreated && !before.retreated {
            self.of(arm).retreats.inc();
        }
    }

    /// Counts what a connection has sent and lost.
    pub fn count_bytes(&self, arm: Arm, bytes: SentBytes) {
        self.of(arm).bytes.inc_by(bytes.sent);
        self.of(arm).bytes_lost.inc_by(bytes.lost);
    }

    /// Observes a response of a connection, if it is compared.
    pub fn on_response(&self, request: &FinishedRequest, summary: &ResumeSummary) {
        let Some(arm) = summary.arm.filter(|_| summary.could_jump_since(request.started)) else {
            return;
        };
        if request.complete {
            let class = SizeClass::of(request.bytes).index();
            self.of(arm).responses_s[class].observe(request.duration.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange::tests::finished;
    use crate::telemetry::metrics::tests::assert_exported;
    use crate::telemetry::metrics::tests::page_of;
    use std::time::Duration;
    use std::time::SystemTime;
    use std::time::UNIX_EPOCH;

    /// Summary of a connection that could jump at that time.
    fn summary(arm: Arm, could_jump_at: Option<SystemTime>) -> ResumeSummary {
        ResumeSummary { could_jump_at, ..ResumeSummary::new(0, Some(arm)) }
    }

    #[test]
    fn compared_connections_are_counted_by_arm() {
        let mut registry = Registry::default();
        let metrics = ArmMetrics::register(&mut registry);
        let at = UNIX_EPOCH + Duration::from_secs(9);
        for arm in [Arm::Control, Arm::Resume] {
            let (before, after) = (summary(arm, None), summary(arm, Some(at)));
            metrics.count_connection(arm);
            metrics.on_change(&before, &before);
            metrics.on_change(&before, &after);
            metrics.on_change(&after, &after);
            metrics.count_bytes(arm, SentBytes { sent: 100, lost: 3 });
        }
        let jumped = summary(Arm::Resume, Some(at));
        let retreated = ResumeSummary { retreated: true, ..jumped };
        metrics.on_change(&jumped, &retreated);
        metrics.on_change(&retreated, &retreated);

        let lines = [
            "connections_total{arm=\"control\"} 1",
            "could_jump_total{arm=\"control\"} 1",
            "could_jump_total{arm=\"resume\"} 1",
            "retreats_total{arm=\"resume\"} 1",
            "retreats_total{arm=\"control\"} 0",
            "bytes_total{arm=\"control\"} 100",
            "bytes_lost_total{arm=\"resume\"} 3",
        ];
        assert_exported(&registry, "edge_server_arm_", &lines);
    }

    #[test]
    fn complete_responses_under_way_at_the_jump_are_observed() {
        let mut registry = Registry::default();
        let metrics = ArmMetrics::register(&mut registry);
        let at = UNIX_EPOCH + Duration::from_secs(9);
        let request = |started_s, bytes, complete| FinishedRequest {
            started: UNIX_EPOCH + Duration::from_secs(started_s),
            duration: Duration::from_millis(400),
            bytes,
            complete,
            ..finished()
        };
        let compared = summary(Arm::Control, Some(at));
        metrics.on_response(&request(9, 2_000_000, true), &compared);
        metrics.on_response(&request(9, 2_000_000, false), &compared);
        metrics.on_response(&request(10, 2_000_000, true), &compared);
        metrics.on_response(&request(9, 2_000_000, true), &summary(Arm::Control, None));
        metrics.on_response(&request(9, 200, true), &ResumeSummary { arm: None, ..compared });

        let lines = [("0.3", 0), ("0.5", 1), ("+Inf", 1)].map(|(bucket, count)| {
            format!("{{le=\"{bucket}\",arm=\"control\",size=\"1-3MB\"}} {count}")
        });
        assert_exported(&registry, "edge_server_arm_response_seconds_bucket", &lines);
        let page = page_of(&registry);
        let counts = page.lines().filter(|line| line.contains("_count{"));
        assert_eq!(counts.filter(|line| !line.ends_with(" 0")).count(), 1);
    }

    // metrics-and-logs.md names this number.
    #[test]
    fn number_of_series_is_bounded() {
        let mut registry = Registry::default();
        ArmMetrics::register(&mut registry);
        assert_eq!(page_of(&registry).lines().filter(|line| !line.starts_with('#')).count(), 282);
    }
}
