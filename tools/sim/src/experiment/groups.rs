//! Groups of downloads: those of like flows in all runs of a scenario.

use std::collections::BTreeMap;

use report::stats::jain;

use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;

/// All groups, in the order of the results.
pub struct Groups<'a> {
    pub all: Vec<FlowGroup<'a>>,
    /// Of each scenario with several flows, and run: how evenly the flows shared the path.
    pub fairness: Vec<(String, Vec<f64>)>,
}

/// Like flows of one scenario.
pub struct FlowGroup<'a> {
    /// The scenario as its parameters tell; empty if there is no other.
    pub scenario: String,
    /// Name of its flows.
    pub name: String,
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The scenario without its modes.
    pub without_mode: String,
    /// The parameters, and the name of the flow, without its mode: what is compared with the same
    /// in another mode.
    pub key: String,
    /// With the seed of their run, in the order of the results.
    pub flows: Vec<(u64, &'a FlowOutcome)>,
}

impl<'a> Groups<'a> {
    pub fn new(outcomes: &'a [Outcome]) -> Self {
        let mut all: Vec<FlowGroup> = Vec::new();
        let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut fairness: Vec<(String, Vec<f64>)> = Vec::new();
        for outcome in outcomes {
            let scenario = scenario(outcome, |_| true);
            for flow in &outcome.flows {
                let place = (scenario.clone(), flow.name.clone());
                let index = *places.entry(place).or_insert_with(|| {
                    all.push(FlowGroup::new(outcome, &scenario, flow));
                    all.len() - 1
                });
                all[index].flows.push((outcome.seed, flow));
            }
            let rates: Vec<f64> = outcome.flows.iter().map(goodput_mbps).collect();
            let Some(index) = jain(&rates).filter(|_| rates.len() > 1) else { continue };
            match fairness.iter_mut().find(|(name, _)| *name == scenario) {
                Some((_, indices)) => indices.push(index),
                None => fairness.push((scenario, vec![index])),
            }
        }
        Self { all, fairness }
    }

    /// Returns the groups whose scenario has Careful Resume, flows of that mode and those beside them,
    /// each with the same of slow start.
    pub fn pairs(&self) -> impl Iterator<Item = (&FlowGroup<'a>, &FlowGroup<'a>)> {
        let of = |group: &FlowGroup, mode: &str| group.scenario.contains(mode);
        self.all.iter().filter(move |group| of(group, "careful-resume")).filter_map(
            move |careful| {
                let is_same =
                    |other: &&FlowGroup| other.key == careful.key && of(other, "slow-start");
                Some((careful, self.all.iter().find(is_same)?))
            },
        )
    }
}

impl<'a> FlowGroup<'a> {
    fn new(outcome: &Outcome, scenario: &str, flow: &FlowOutcome) -> Self {
        let without_mode = self::scenario(outcome, |key| !key.ends_with(".mode"));
        Self {
            scenario: scenario.to_owned(),
            name: flow.name.clone(),
            parameters: outcome.parameters.clone(),
            key: format!("{}/{without_mode}/{}", outcome.scenario, flow.name),
            without_mode,
            flows: Vec::new(),
        }
    }

    /// Returns how figures call it.
    pub fn label(&self) -> String {
        named(&self.name, &self.scenario)
    }

    /// Returns how tables call it that compare its modes.
    pub fn compared_label(&self) -> String {
        named(&self.name, &self.without_mode)
    }

    pub fn figures(&self, figure: impl Fn(&FlowOutcome) -> f64) -> Vec<f64> {
        self.flows.iter().map(|(_, flow)| figure(flow)).collect()
    }

    /// Returns the mean of a figure of its flows in each run, by seed.
    pub fn by_seed(&self, figure: impl Fn(&FlowOutcome) -> f64) -> BTreeMap<u64, f64> {
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (seed, flow) in &self.flows {
            let (sum, count) = sums.entry(*seed).or_default();
            *sum += figure(flow);
            *count += 1.0;
        }
        sums.into_iter().map(|(seed, (sum, count))| (seed, sum / count)).collect()
    }
}

fn named(name: &str, scenario: &str) -> String {
    match scenario.is_empty() {
        true => name.to_owned(),
        false => format!("{name} ({scenario})"),
    }
}

/// Returns the rate at which a flow got its object, over its own lifetime.
pub fn goodput_mbps(flow: &FlowOutcome) -> f64 {
    flow.object_bytes as f64 * 8.0 / (flow.ttlb_ms * 1e3)
}

/// Returns a scenario as its parameters tell: values, with the last part of their keys where the
/// value alone says nothing.
fn scenario(outcome: &Outcome, wanted: impl Fn(&str) -> bool) -> String {
    let say = |(key, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => text.clone(),
        other => format!("{} {other}", key.rsplit('.').next().unwrap_or(key)),
    };
    let parameters = outcome.parameters.iter().filter(|(key, _)| wanted(key));
    parameters.map(say).collect::<Vec<_>>().join(", ")
}
