//! Bounds of simulated downloads: the least time that one can take.

use std::time::Duration;

use quiche::slow_start::SlowStartExit;
use report::bound::bounds_of_jump;
use report::bound::bounds_over;
use report::bound::Bounds;
use report::bound::Capacity;
use report::bound::INITIAL_WINDOW_BYTES;

use crate::scenario::Controller;
use crate::scenario::Flow;
use crate::scenario::Mode;
use crate::scenario::Path;
use crate::scenario::Scenario;
use crate::scenario::INITIAL_WINDOW_PACKETS;

/// Returns the fluid bounds of one of a scenario's flows, were it alone: with the
/// highest rate and the shortest RTT that its path ever has, and a jump to half
/// of what was saved.
pub fn bounds(scenario: &Scenario, flow: &Flow) -> Bounds {
    let path = &scenario.path;
    let rates = path.changes.iter().filter_map(|c| c.rate_mbps);
    let rtts = path.changes.iter().filter_map(|c| c.rtt_ms);
    let (up, shorter) = best(path);
    let rate_mbps = rates.fold(path.rate_mbps, f64::max) * up;
    let rate_mbps = flow.access_mbps.map_or(rate_mbps, |access| access.min(rate_mbps));
    let rtt_ms = rtts.fold(path.rtt_ms, f64::min) * shorter + flow.extra_rtt_ms;
    bounds_of_jump(rate_mbps, rtt_ms, flow.each_bytes(path), jump_bytes(scenario, flow))
}

/// Returns how much faster and shorter a path becomes that swings or has handovers, at its best.
fn best(path: &Path) -> (f64, f64) {
    let swing = path.swing.map(|s| (s.rate_share, s.rtt_share));
    let shares = swing.or(path.handover.map(|h| (h.rate_share, h.rtt_share)));
    shares.map_or((1.0, 1.0), |(rate_share, rtt_share)| (1.0 + rate_share, 1.0 - rtt_share))
}

/// Returns the largest window that a jump may have (RFC 9959, 3.3).
fn jump_bytes(scenario: &Scenario, flow: &Flow) -> f64 {
    half_saved_bytes(scenario, flow).min(flow.max_jump as f64)
}

/// Returns whether a flow's jump is limited by `max_jump`, not by what was saved.
pub fn is_jump_limited(scenario: &Scenario, flow: &Flow) -> bool {
    half_saved_bytes(scenario, flow) > flow.max_jump as f64
}

fn half_saved_bytes(scenario: &Scenario, flow: &Flow) -> f64 {
    flow.saved.cwnd_bdp * scenario.path.bdp_bytes() / 2.0
}

/// Returns the same for a flow that starts at `start_ms`, over the rates that its path has from then
/// on. A path that swings has its highest rate.
pub fn bounds_from(scenario: &Scenario, flow: &Flow, start_ms: f64) -> Bounds {
    let path = &scenario.path;
    let Some(capacity) = capacity(path) else { return bounds(scenario, flow) };
    let capacity = match flow.access_mbps {
        Some(access_mbps) => capacity.capped(access_mbps),
        None => capacity,
    };
    let rtt_ms = shortest_rtt_ms(path) + flow.extra_rtt_ms;
    bounds_over(&capacity, start_ms, rtt_ms, flow.each_bytes(path), jump_bytes(scenario, flow))
}

/// Returns the rates of a path that changes at given times.
fn capacity(path: &Path) -> Option<Capacity> {
    let mut steps = vec![(0.0, path.rate_mbps)];
    let changes = path.changes.iter();
    steps.extend(changes.filter_map(|change| Some((change.at_ms, change.rate_mbps?))));
    let Some(trace) = path.trace.as_ref().map(|file| &file.trace) else {
        let told = path.swing.is_none() && path.handover.is_none();
        return told.then(|| Capacity::new(steps, None));
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let traced: Vec<(f64, f64)> = trace
        .steps()
        .iter()
        .filter_map(|step| Some((ms(step.at), step.rate?.bits_per_s() as f64 / 1e6)))
        .collect();
    let steps = if traced.is_empty() { steps } else { traced };
    Some(Capacity::new(steps, trace.period().map(ms)))
}

fn shortest_rtt_ms(path: &Path) -> f64 {
    let changed = path.changes.iter().filter_map(|change| change.rtt_ms);
    let traced = path.trace.iter().flat_map(|file| file.trace.steps());
    let traced: Vec<f64> = traced.filter_map(|step| Some(step.rtt?.as_secs_f64() * 1e3)).collect();
    // Those of a trace hold from the start on.
    let first = if traced.is_empty() { path.rtt_ms } else { f64::INFINITY };
    changed.chain(traced).fold(first, f64::min)
}

/// Returns the bound of the flow's own mode, in ms; that of slow start only where the
/// window does no more than double.
pub fn bound_ms(scenario: &Scenario, flow: &Flow) -> Option<f64> {
    own(&bounds(scenario, flow), flow)
}

/// Returns the one of `bounds` that is of the flow's own mode and initial window; see
/// [`bound_ms`].
pub fn own(bounds: &Bounds, flow: &Flow) -> Option<f64> {
    // Both grow by more than a doubling of 10 packets.
    if flow.initial_window_packets != INITIAL_WINDOW_PACKETS
        || flow.slow_start_exit == SlowStartExit::Rapid
    {
        return None;
    }
    let gains = bounds.careful_resume_ms < bounds.slow_start_ms;
    match (flow.mode, flow.cc) {
        (Mode::CarefulResume, _) if gains => Some(bounds.careful_resume_ms),
        (_, Controller::Cubic) => Some(bounds.slow_start_ms),
        // It grows by a packet for each that is acknowledged, however small.
        (_, Controller::Reno) => None,
        // It paces by 2.77 times what was delivered.
        (_, Controller::Bbr2) => None,
    }
}

/// Returns the least time of a download, in ms: its bound, or else what the path's
/// rate takes. The bound paces all that a jump lets go; but the ACKs of the initial window
/// let twice as much go at once, before it is complete. Reno, which has grown with
/// the handshake, sends even more.
pub fn least_ms(scenario: &Scenario, flow: &Flow) -> f64 {
    let floor_ms = bounds(scenario, flow).floor_ms;
    let early_ms = match flow.mode {
        Mode::SlowStart => 0.0,
        Mode::CarefulResume => {
            let rtt_ms = scenario.path.rtt_ms + flow.extra_rtt_ms;
            2.0 * INITIAL_WINDOW_BYTES / jump_bytes(scenario, flow) * rtt_ms
        }
    };
    let bound = bound_ms(scenario, flow).filter(|_| flow.cc == Controller::Cubic);
    bound.map_or(floor_ms, |bound_ms| (bound_ms - early_ms).max(floor_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::fake::scenario;

    #[test]
    fn steady_path_has_the_published_bounds() {
        let scenario =
            scenario("path.rate_mbps = 50\npath.rtt_ms = 600", "object_bytes = 3_750_000");
        let b = bounds(&scenario, &scenario.flows[0]);
        assert_eq!([b.careful_resume_ms, b.slow_start_ms].map(f64::round), [2698.0, 6049.0]);
        assert_eq!(bound_ms(&scenario, &scenario.flows[0]), Some(b.slow_start_ms));
    }

    #[test]
    fn changing_path_is_bounded_by_its_best() {
        let of = |change: &str, flow: &str| {
            let path = format!("path.rate_mbps = 50\npath.rtt_ms = 600\n{change}");
            let scenario = scenario(&path, &format!("object_bytes = 3_750_000\n{flow}"));
            least_ms(&scenario, &scenario.flows[0])
        };
        let steady = of("", "");
        assert!(of("path.change = [{ at_ms = 9, rate_mbps = 100 }]", "") < steady);
        assert!(of("path.change = [{ at_ms = 9, rtt_ms = 100 }]", "") < steady);
        assert_eq!(of("path.change = [{ at_ms = 9, rate_mbps = 10 }]", ""), steady);
        assert!(of("path.swing = { rate_share = 0.1 }", "") < steady);
        assert!(of("path.swing = { rtt_share = 0.1 }", "") < steady);
        assert!(of("path.handover = { every_ms = 900, rate_share = 0.1 }", "") < steady);
        assert!(of("path.handover = { every_ms = 900, rtt_share = 0.1 }", "") < steady);
        assert!(of("", "access_mbps = 10") > steady);
        assert!(of("", "extra_rtt_ms = 10") > steady);
        assert!(of("", "mode = \"careful-resume\"\nsaved.cwnd_bdp = 0.5") < steady);
    }

    #[test]
    fn jump_is_limited_by_the_flows_own_max_jump() {
        let of = |max_jump: &str| {
            let path = "path.rate_mbps = 400\npath.rtt_ms = 600";
            let flow = format!("mode = \"careful-resume\"\nobject_bdp = 1\n{max_jump}");
            let scenario = scenario(path, &flow);
            let flow = &scenario.flows[0];
            (is_jump_limited(&scenario, flow), bounds(&scenario, flow).careful_resume_ms)
        };
        let (limited, default_ms) = of("");
        assert!(limited);
        let (limited, ms) = of("max_jump = 15_000_000");
        assert!(!limited && ms < default_ms, "{ms} {default_ms}");
        let (limited, ms) = of("max_jump = 100_000");
        assert!(limited && ms > default_ms, "{ms} {default_ms}");
    }

    #[test]
    fn reno_slow_start_is_bounded_by_the_rate_alone() {
        let of = |flow: &str| {
            let flow = format!("object_bytes = 3_750_000\ncc = \"reno\"\n{flow}");
            let scenario = scenario("path.rate_mbps = 50\npath.rtt_ms = 600", &flow);
            let flow = &scenario.flows[0];
            (bound_ms(&scenario, flow), least_ms(&scenario, flow))
        };
        assert_eq!(of(""), (None, 1800.0));
        let (bound, least_ms) = of("mode = \"careful-resume\"");
        assert_eq!(bound.map(f64::round), Some(2698.0));
        assert_eq!(least_ms, 1800.0);
    }
}
