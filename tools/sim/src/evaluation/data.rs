//! Outcomes, with their scenarios.

use std::collections::HashMap;

use quiche::careful_resume::AfterJump;
use report::bound::bdp_bytes;
use report::bound::INITIAL_WINDOW_BYTES;
use report::stats::mean;

use crate::interval::Interval;
use crate::limits;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;
use crate::scenario::file::File;
use crate::scenario::file::Named;
use crate::scenario::Controller;
use crate::scenario::Mode;
use crate::scenario::PACKETS_MIN;
use crate::scenario::PACKET_BYTES;

/// The key of how the judged flow starts.
const MODE: &str = "flow.mode";

/// Least capacity of a path where there is much to save, in initial windows.
const MUCH_WINDOWS: f64 = 64.0;

/// Jitter that even paths have on which nothing happens, in ms.
const USUAL_JITTER_MS: f64 = 0.5;

/// Least denominator of losses, in bytes of payload: a path of less has a buffer of 20 packets.
const LOSS_UNIT_BYTES_MIN: f64 = (PACKETS_MIN * PACKET_BYTES) as f64;

/// A scenario file and its outcomes.
pub struct Chapter<'a> {
    pub file: &'a File,
    /// Those that have a run, in the order of the file.
    pub cells: Vec<Cell<'a>>,
}

/// One scenario and its runs: at least one, and each has all flows.
#[derive(Clone)]
pub struct Cell<'a> {
    pub named: &'a Named,
    pub runs: Vec<&'a Outcome>,
}

/// The same scenario with slow start and with Careful Resume.
pub struct Pair<'a> {
    pub slow: &'a Cell<'a>,
    pub careful: &'a Cell<'a>,
}

/// Returns a figure of two scenarios, of each seed that both have.
pub fn paired(
    first: &Cell,
    second: &Cell,
    figure: impl Fn(&FlowOutcome) -> f64,
) -> Vec<(f64, f64)> {
    let second: HashMap<u64, f64> = second.by_seed(&figure).into_iter().collect();
    let first = first.by_seed(&figure).into_iter();
    first.filter_map(|(seed, value)| Some((value, *second.get(&seed)?))).collect()
}

/// Returns the identity of a scenario: its file and parameters.
fn key(stem: &str, parameters: &serde_json::Map<String, serde_json::Value>) -> String {
    let mut pairs: Vec<String> = parameters.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.sort();
    format!("{stem}:{}", pairs.join(","))
}

impl<'a> Chapter<'a> {
    /// Finds the outcomes of a file's scenarios.
    pub fn new(file: &'a File, outcomes: &'a [Outcome]) -> Self {
        let mut runs: HashMap<String, Vec<&Outcome>> = HashMap::new();
        for outcome in outcomes.iter().filter(|o| o.scenario == file.stem) {
            runs.entry(key(&outcome.scenario, &outcome.parameters)).or_default().push(outcome);
        }
        let cell = |named: &'a Named| {
            let flows: u32 = named.scenario.flows.iter().map(|f| f.count).sum();
            let mut runs = runs.remove(&key(&file.stem, &named.parameters))?;
            runs.retain(|run| run.flows.len() == flows as usize);
            (!runs.is_empty()).then_some(Cell { named, runs })
        };
        Chapter { file, cells: file.scenarios.iter().filter_map(cell).collect() }
    }

    /// Returns every scenario that was run in both modes.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let without_mode = |cell: &Cell| {
            let mut parameters = cell.named.parameters.clone();
            parameters.remove(MODE);
            key("", &parameters)
        };
        let mode = |mode: Mode| self.cells.iter().filter(move |c| c.mode() == Some(mode));
        let slow: HashMap<String, &Cell> =
            mode(Mode::SlowStart).map(|c| (without_mode(c), c)).collect();
        let pair = |careful| Some(Pair { slow: slow.get(&without_mode(careful))?, careful });
        mode(Mode::CarefulResume).filter_map(pair).collect()
    }
}

impl Cell<'_> {
    /// Returns how the judged flow starts, where that was varied.
    pub fn mode(&self) -> Option<Mode> {
        self.named.parameters.contains_key(MODE).then(|| self.named.scenario.flows[0].mode)
    }

    /// Returns a parameter as text; empty when it was not varied.
    pub fn parameter(&self, key: &str) -> String {
        match self.named.parameters.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    /// Returns how messages name it: its parameters but for the mode.
    pub fn label(&self) -> String {
        let said = self.named.parameters.iter().filter(|(key, _)| *key != MODE);
        let said = said.map(|(key, _)| match key.as_str() {
            "case" => self.parameter(key),
            _ => format!("{} {}", key.rsplit('.').next().unwrap_or(key), self.parameter(key)),
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Returns the judged flows, the first and those like it, of each run.
    pub fn judged<T>(&self, figure: impl Fn(&FlowOutcome) -> T) -> Vec<T> {
        let count = self.named.scenario.flows[0].count as usize;
        self.runs.iter().flat_map(|run| run.flows.iter().take(count).map(&figure)).collect()
    }

    /// Returns a figure of each run by its seed; of several judged flows, their mean.
    pub fn by_seed(&self, figure: impl Fn(&FlowOutcome) -> f64) -> Vec<(u64, f64)> {
        let count = self.named.scenario.flows[0].count as usize;
        let figures = self.judged(figure);
        let means = figures.chunks(count).map(|run| run.iter().sum::<f64>() / count as f64);
        self.runs.iter().map(|run| run.seed).zip(means).collect()
    }

    /// Returns the mean over runs of a figure of the judged flow.
    pub fn mean(&self, figure: impl Fn(&FlowOutcome) -> f64) -> Interval {
        let figures: Vec<f64> = self.by_seed(figure).into_iter().map(|(_, value)| value).collect();
        Interval::mean(&figures)
    }

    /// Returns the mean time to the last byte of the judged flow.
    pub fn ttlb_ms(&self) -> f64 {
        mean(&self.judged(|f| f.ttlb_ms)).map_or(f64::NAN, |mean| mean.value)
    }

    /// Returns the bound of the judged flow; NaN without one.
    pub fn bound_ms(&self) -> f64 {
        let scenario = &self.named.scenario;
        limits::bound_ms(scenario, &scenario.flows[0]).unwrap_or(f64::NAN)
    }

    /// Returns how many judged flows retreated after their jump.
    pub fn retreats(&self) -> usize {
        let retreated = |f: &FlowOutcome| f.phases.iter().any(|p| p.1 == "safe_retreat");
        self.judged(retreated).into_iter().filter(|r| *r).count()
    }

    /// Retreats as a rule judges them: no number unless every judged flow jumped.
    pub fn retreats_of_jumps(&self) -> f64 {
        match self.judged(|f| f.jump_cwnd_bytes.is_some()).contains(&false) {
            true => f64::NAN,
            false => self.retreats() as f64,
        }
    }

    /// Returns the least share of its bound that a flow of any run took.
    pub fn least_of_bound(&self) -> f64 {
        let scenario = &self.named.scenario;
        let bounds = scenario.flows.iter().flat_map(|flow| {
            let ms = limits::least_ms(scenario, flow);
            std::iter::repeat_n(ms, flow.count as usize)
        });
        let bounds: Vec<f64> = bounds.collect();
        let shares = self.runs.iter().flat_map(|run| {
            run.flows.iter().zip(&bounds).map(|(flow, bound_ms)| flow.ttlb_ms / bound_ms)
        });
        shares.fold(f64::INFINITY, f64::min)
    }

    /// Returns whether a single flow, which nothing but the path limits, is alone on a
    /// path that stays as it is.
    pub fn is_plain(&self) -> bool {
        let scenario = &self.named.scenario;
        let (path, flow) = (&scenario.path, &scenario.flows[0]);
        let alone = scenario.flows.len() == 1 && flow.count == 1;
        let free = flow.access_mbps.is_none()
            && flow.client_window_bytes.is_none()
            && flow.app_limit_mbps.is_none()
            && flow.segments.is_none()
            && flow.size_pareto.is_none()
            && path.up_rate_mbps.is_none();
        let steady = path.changes.is_empty()
            && path.swing.is_none()
            && path.handover.is_none()
            && path.trace.is_none()
            && path.burst.is_none()
            && path.policer.is_none()
            && path.loss == 0.0
            && path.longest_jitter_ms() <= USUAL_JITTER_MS;
        alone && free && steady
    }

    /// Returns whether growth after a jump is soft, as only Reno's and CUBIC's is, alone on a path
    /// with a buffer of one BDP that holds what was saved.
    pub fn grows_softly_on_idle_path(&self) -> bool {
        let scenario = &self.named.scenario;
        let flow = &scenario.flows[0];
        let as_saved =
            flow.saved.cwnd_bdp <= 1.0 && flow.saved.rtt_ratio == 1.0 && !flow.saved.cold;
        self.is_plain()
            && as_saved
            && flow.mode == Mode::CarefulResume
            && flow.after_jump == AfterJump::Soft
            && flow.cc != Controller::Bbr2
            && scenario.path.buffer_bdp == 1.0
    }
}

impl Pair<'_> {
    pub fn rate_mbps(&self) -> f64 {
        self.careful.named.scenario.path.rate_mbps
    }

    pub fn controller(&self) -> Controller {
        self.careful.named.scenario.flows[0].cc
    }

    /// Returns the round-trip time of the judged flow without queue, in ms.
    pub fn rtt_ms(&self) -> f64 {
        let scenario = &self.careful.named.scenario;
        scenario.path.rtt_ms + scenario.flows[0].extra_rtt_ms
    }

    pub fn object_bytes(&self) -> u64 {
        let scenario = &self.careful.named.scenario;
        scenario.flows[0].each_bytes(&scenario.path)
    }

    pub fn object_bdp(&self) -> f64 {
        self.object_bytes() as f64 / bdp_bytes(self.rate_mbps(), self.rtt_ms())
    }

    /// Returns the bandwidth-delay product, in initial windows.
    pub fn bdp_windows(&self) -> f64 {
        bdp_bytes(self.rate_mbps(), self.rtt_ms()) / INITIAL_WINDOW_BYTES
    }

    /// Returns a figure with Careful Resume and with slow start, of each seed.
    pub fn by_seed(&self, figure: impl Fn(&FlowOutcome) -> f64) -> Vec<(f64, f64)> {
        paired(self.careful, self.slow, figure)
    }

    /// Returns the mean time with Careful Resume over that with slow start.
    pub fn ratio(&self) -> Interval {
        Interval::ratio_of_means(&self.by_seed(|flow| flow.ttlb_ms))
    }

    /// Returns the round trips by which the mean time is shorter with Careful Resume.
    pub fn saved_rtts(&self) -> Interval {
        let difference = Interval::difference(&self.by_seed(|flow| flow.ttlb_ms));
        difference.map(|ms| -ms / self.rtt_ms())
    }

    /// Returns what is lost more in all with Careful Resume, in BDP: bytes dropped on the path, from
    /// the first packet to the last.
    pub fn more_lost_bdp(&self) -> Interval {
        let unit = bdp_bytes(self.rate_mbps(), self.rtt_ms()).max(LOSS_UNIT_BYTES_MIN);
        let difference = Interval::difference(&self.by_seed(|flow| flow.dropped_bytes as f64));
        difference.map(|bytes| bytes / unit)
    }

    pub fn bound_ratio(&self) -> f64 {
        self.careful.bound_ms() / self.slow.bound_ms()
    }

    pub fn bound_saved_rtts(&self) -> f64 {
        (self.slow.bound_ms() - self.careful.bound_ms()) / self.rtt_ms()
    }

    /// Returns whether `max_jump` limits the jump.
    pub fn is_jump_limited(&self) -> bool {
        let scenario = &self.careful.named.scenario;
        limits::is_jump_limited(scenario, &scenario.flows[0])
    }

    /// Returns whether the path, found as it was saved, holds 64 initial windows, and
    /// the object fills it.
    pub fn has_much_to_save(&self) -> bool {
        let saved = self.careful.named.scenario.flows[0].saved;
        let as_saved = (saved.cwnd_bdp, saved.rtt_ratio, saved.cold) == (1.0, 1.0, false);
        let much = self.bdp_windows() >= MUCH_WINDOWS && self.object_bdp() >= 1.0;
        self.careful.is_plain() && as_saved && much
    }
}
