//! Checks of a scenario: values that it cannot have, beyond their types.

use anyhow::bail;
use anyhow::ensure;
use quiche::careful_resume::CarefulResumeConfig;
use quiche::slow_start::SlowStartExit;

use super::Change;
use super::Controller;
use super::Flow;
use super::FlowEcn;
use super::Handover;
use super::Mode;
use super::Pareto;
use super::Path;
use super::Queue;
use super::Scenario;
use super::Segments;
use super::Swing;
use super::INITIAL_WINDOW_PACKETS;

/// Least send buffer, in bytes: some packets.
const SEND_BUFFER_MIN: u64 = 16_000;

/// Longest time between grants, in ms.
const AGGREGATION_MS_MAX: f64 = 1000.0;

/// Condition on a number.
#[derive(Clone, Copy)]
enum Must {
    BePositive,
    NotBeNegative,
    BeShare,
    BeThreshold,
}

/// A key, its value if it has one, and what that must be.
type Requirement = (&'static str, Option<f64>, Must);

/// Returns whether `scenario` makes sense.
///
/// # Errors
///
/// A message that names a key, its value and what is allowed.
pub fn check(scenario: &Scenario) -> anyhow::Result<()> {
    numbers(
        "",
        &[
            ("deadline_s", Some(scenario.deadline_s), Must::BePositive),
            ("visit_pause_s", scenario.visit_pause_s, Must::NotBeNegative),
        ],
    )?;
    path(&scenario.path)?;
    ensure!(!scenario.flows.is_empty(), "no [[flow]] with a count above 0: a scenario has a flow");
    for flow in &scenario.flows {
        check_flow(flow)?;
        ensure!(
            scenario.visit_pause_s.is_none() || !flow.in_turn,
            "{}.in_turn: with visit_pause_s all flows are in turn; leave out one of them",
            flow.name
        );
        let last_start_s = (flow.start_ms + flow.start_spread_ms) / 1e3;
        ensure!(
            last_start_s < scenario.deadline_s,
            "{}.start_ms = {}: must be before deadline_s = {}",
            flow.name,
            flow.start_ms,
            scenario.deadline_s
        );
    }
    Ok(())
}

fn path(path: &Path) -> anyhow::Result<()> {
    numbers(
        "path.",
        &[
            ("rate_mbps", Some(path.rate_mbps), Must::BePositive),
            ("up_rate_mbps", path.up_rate_mbps, Must::BePositive),
            ("rtt_ms", Some(path.rtt_ms), Must::BePositive),
            ("buffer_bdp", Some(path.buffer_bdp), Must::BePositive),
            ("loss", Some(path.loss), Must::BeShare),
            ("jitter_ms", Some(path.jitter_ms), Must::NotBeNegative),
            ("jitter_share", Some(path.jitter_share), Must::BeShare),
            ("aggregation_ms", Some(path.aggregation_ms), Must::NotBeNegative),
            ("ack_thinning", Some(path.ack_thinning.into()), Must::BePositive),
            ("mark_above_ms", path.mark_above_ms, Must::BePositive),
        ],
    )?;
    ensure!(
        (path.queue == Queue::Step) == path.mark_above_ms.is_some(),
        "path.mark_above_ms: say it with queue = \"step\", and with no other queue"
    );
    ensure!(
        path.aggregation_ms <= AGGREGATION_MS_MAX,
        "path.aggregation_ms = {}: must be at most {AGGREGATION_MS_MAX}",
        path.aggregation_ms
    );
    let mut before_ms = 0.0;
    for change in &path.changes {
        check_change(change, before_ms)?;
        before_ms = change.at_ms;
    }
    let last = path.changes.iter().rfind(|change| change.rate_mbps.is_some());
    if let Some(Change { at_ms, .. }) = last.filter(|change| change.rate_mbps == Some(0.0)) {
        bail!(
            "path.change.rate_mbps = 0 from at_ms = {at_ms} on, for good: add a path.change with the \
             rate after the outage"
        );
    }
    check_trace(path)?;
    check_drops(path)?;
    path.handover.map_or(Ok(()), |handover| check_handover(&handover, path))?;
    path.swing.map_or(Ok(()), |swing| check_swing(&swing, path))
}

fn check_handover(handover: &Handover, path: &Path) -> anyhow::Result<()> {
    numbers(
        "path.handover.",
        &[
            ("every_ms", Some(handover.every_ms), Must::BePositive),
            ("gap_ms", Some(handover.gap_ms), Must::NotBeNegative),
            ("rate_share", Some(handover.rate_share), Must::BeShare),
            ("rtt_share", Some(handover.rtt_share), Must::BeShare),
        ],
    )?;
    ensure!(
        handover.gap_ms < handover.every_ms,
        "path.handover.gap_ms = {}: must be less than every_ms",
        handover.gap_ms
    );
    let alone = path.changes.is_empty() && path.swing.is_none() && path.trace.is_none();
    ensure!(alone, "path.handover: a path has no change, swing or trace besides");
    ensure!(
        path.up_rate_mbps.is_none() || handover.rate_share == 0.0,
        "path.handover.rate_share and path.up_rate_mbps: a path whose rate changes has one rate"
    );
    Ok(())
}

fn check_drops(path: &Path) -> anyhow::Result<()> {
    if let Some(burst) = path.burst {
        for (key, share) in [("enter", burst.enter), ("leave", burst.leave), ("loss", burst.loss)] {
            let valid = (0.0..=1.0).contains(&share);
            ensure!(valid, "path.burst.{key} = {share}: must be from 0 to 1");
        }
        ensure!(burst.leave > 0.0, "path.burst.leave = 0: must be above 0");
    }
    path.policer.map_or(Ok(()), |policer| {
        numbers(
            "path.policer.",
            &[
                ("rate_mbps", Some(policer.rate_mbps), Must::BePositive),
                ("burst_bytes", Some(policer.burst_bytes as f64), Must::BePositive),
            ],
        )
    })
}

fn check_trace(path: &Path) -> anyhow::Result<()> {
    let Some(file) = &path.trace else { return Ok(()) };
    let alone = path.changes.is_empty() && path.swing.is_none();
    ensure!(alone, "path.trace, path.change and path.swing: a path has one of them");
    let loses = file.trace.steps().iter().any(|step| step.loss.is_some());
    ensure!(
        !loses || path.loss == 0.0,
        "path.loss = {}: the trace has losses; leave out one of them",
        path.loss
    );
    Ok(())
}

fn check_swing(swing: &Swing, path: &Path) -> anyhow::Result<()> {
    let Swing { rate_share, rtt_share, period_rtts } = *swing;
    numbers(
        "path.swing.",
        &[
            ("rate_share", Some(rate_share), Must::BeShare),
            ("rtt_share", Some(rtt_share), Must::BeShare),
            ("period_rtts", Some(period_rtts), Must::BePositive),
        ],
    )?;
    let swings = rate_share > 0.0 || rtt_share > 0.0;
    ensure!(swings, "path.swing: say a rate_share or an rtt_share above 0");
    ensure!(path.changes.is_empty(), "path.swing and path.change: a path has one of them");
    ensure!(
        path.up_rate_mbps.is_none(),
        "path.swing and path.up_rate_mbps: a path that swings has one rate"
    );
    Ok(())
}

fn check_change(change: &Change, before_ms: f64) -> anyhow::Result<()> {
    let Change { at_ms, rate_mbps, rtt_ms, loss } = *change;
    numbers(
        "path.change.",
        &[
            ("at_ms", Some(at_ms), Must::NotBeNegative),
            ("rate_mbps", rate_mbps, Must::NotBeNegative),
            ("rtt_ms", rtt_ms, Must::BePositive),
            ("loss", loss, Must::BeShare),
        ],
    )?;
    ensure!(at_ms >= before_ms, "path.change.at_ms = {at_ms}: write changes in order of time");
    let some = rate_mbps.or(rtt_ms).or(loss).is_some();
    ensure!(some, "path.change.at_ms = {at_ms}: say a rate_mbps, rtt_ms or loss from then on");
    Ok(())
}

fn check_flow(flow: &Flow) -> anyhow::Result<()> {
    let Flow { object_bytes, object_bdp, total_bdp, .. } = flow;
    let name = &flow.name;
    let sizes = [object_bytes.map(|b| b as f64), *object_bdp, *total_bdp];
    match sizes.iter().flatten().count() + usize::from(flow.page.is_some()) {
        1 => {}
        0 => bail!("{name} has no size: say one of object_bytes, object_bdp, total_bdp, page"),
        _ => {
            bail!("{name} has several sizes: say one of object_bytes, object_bdp, total_bdp, page")
        }
    }
    ensure!(
        flow.page.is_none() || flow.size_pareto.is_none(),
        "{name}.size_pareto and {name}.page: a flow has one of them"
    );
    ensure!(
        flow.initial_window_packets == INITIAL_WINDOW_PACKETS || flow.mode == Mode::SlowStart,
        "{name}.initial_window_packets = {}: with Careful Resume it is {INITIAL_WINDOW_PACKETS} (RFC 9002, 7.2)",
        flow.initial_window_packets
    );
    if let Some(Pareto { shape, most }) = flow.size_pareto {
        let part = format!("{name}.size_pareto.");
        numbers(&part, &[("shape", Some(shape), Must::BePositive)])?;
        ensure!(most >= 1.0 && most.is_finite(), "{part}most = {most}: must be 1 or more");
    }
    if let Some(Segments { bytes, every_ms }) = flow.segments {
        let rules = [
            ("bytes", Some(bytes as f64), Must::BePositive),
            ("every_ms", Some(every_ms), Must::BePositive),
        ];
        numbers(&format!("{name}.segments."), &rules)?;
        ensure!(
            flow.app_limit_mbps.is_none(),
            "{name}.segments and {name}.app_limit_mbps: a flow has one of them"
        );
    }
    ensure!(
        flow.arrivals_per_s.is_none() || (!flow.in_turn && flow.start_spread_ms == 0.0),
        "{name}.arrivals_per_s: leave out in_turn and start_spread_ms"
    );
    let window_response = match flow.ecn {
        FlowEcn::Off | FlowEcn::On => None,
        FlowEcn::Alternative => Some("alternative"),
        FlowEcn::L4s => Some("l4s"),
    };
    if let Some(ecn) = window_response.filter(|_| flow.cc == Controller::Bbr2) {
        bail!("{name}.ecn = {ecn:?}: it is for cubic and reno; with cc = \"bbr2\", say \"on\"");
    }
    let searches = matches!(flow.slow_start_exit, SlowStartExit::Search(_));
    if let Some(threshold) = flow.search_threshold.filter(|_| !searches) {
        let exit = flow.slow_start_exit.name();
        bail!("{name}.search_threshold = {threshold}: slow_start_exit = {exit} has none");
    }
    let least = CarefulResumeConfig::MAX_JUMP_MIN;
    ensure!(
        flow.max_jump >= least,
        "{name}.max_jump = {}: must be at least {least}, as edge-server's --max-jump",
        flow.max_jump
    );
    ensure!(
        flow.initial_window_packets >= 2,
        "{name}.initial_window_packets = {}: must be at least 2",
        flow.initial_window_packets
    );
    if let Some(bytes) = flow.send_buffer_bytes.filter(|bytes| *bytes < SEND_BUFFER_MIN) {
        bail!("{name}.send_buffer_bytes = {bytes}: must be at least {SEND_BUFFER_MIN}");
    }
    numbers(
        &format!("{name}."),
        &[
            ("object_bytes", sizes[0], Must::BePositive),
            ("object_bdp", *object_bdp, Must::BePositive),
            ("total_bdp", *total_bdp, Must::BePositive),
            ("extra_rtt_ms", Some(flow.extra_rtt_ms), Must::NotBeNegative),
            ("access_mbps", flow.access_mbps, Must::BePositive),
            ("start_ms", Some(flow.start_ms), Must::NotBeNegative),
            ("start_spread_ms", Some(flow.start_spread_ms), Must::NotBeNegative),
            ("share_from_ms", flow.share_from_ms, Must::NotBeNegative),
            ("release_late_ms", Some(flow.release_late_ms), Must::NotBeNegative),
            ("client_window_bytes", flow.client_window_bytes.map(|b| b as f64), Must::BePositive),
            ("clients", flow.clients.map(f64::from), Must::BePositive),
            ("arrivals_per_s", flow.arrivals_per_s, Must::BePositive),
            ("app_limit_mbps", flow.app_limit_mbps, Must::BePositive),
            ("search_threshold", flow.search_threshold, Must::BeThreshold),
            ("saved.cwnd_bdp", Some(flow.saved.cwnd_bdp), Must::BePositive),
            ("saved.rtt_ratio", Some(flow.saved.rtt_ratio), Must::BePositive),
            ("saved.age_s", Some(flow.saved.age_s), Must::NotBeNegative),
        ],
    )
}

fn numbers(part: &str, rules: &[Requirement]) -> anyhow::Result<()> {
    for &(key, value, must) in rules {
        let Some(value) = value else { continue };
        let (fits, say) = match must {
            Must::BePositive => (value > 0.0, "must be above 0"),
            Must::NotBeNegative => (value >= 0.0, "must be 0 or more"),
            Must::BeShare => ((0.0..1.0).contains(&value), "must be from 0 to less than 1"),
            Must::BeThreshold => (value > 0.0 && value < 1.0, "must be between 0 and 1"),
        };
        ensure!(fits && value.is_finite(), "{part}{key} = {value}: {say}");
    }
    Ok(())
}
