//! Steps of a trace, and what the readers of its formats share.

use crate::rate::Rate;
use std::time::Duration;

/// A path over time.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTrace {
    pub(super) steps: Vec<Step>,
    pub(super) period: Option<Duration>,
}

/// New properties of a path, in both directions, from a time on. What is `None` stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Since the start of the trace.
    pub at: Duration,
    /// Bits of IP packets per second.
    pub rate: Option<Rate>,
    /// Round-trip time without a queue.
    pub rtt: Option<Duration>,
    /// Probability of loss.
    pub loss: Option<f64>,
}

/// Line and reason of an error.
pub(super) type Fault = (Option<usize>, String);

impl PathTrace {
    /// Returns the steps, in order of time; the first is at the start.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the time after which the steps begin again; the last one holds for good if there is
    /// none.
    pub fn period(&self) -> Option<Duration> {
        self.period
    }

    /// Returns the mean rate over the trace, in Mbit/s; none if it has no rates. An outage before the
    /// rate that holds for good does not count.
    pub fn mean_rate_mbps(&self) -> Option<f64> {
        let mbps = |step: &Step| step.rate.map(|rate| rate.bits_per_s() as f64 / 1e6);
        let mean = self.mean(mbps)?;
        if mean > 0.0 {
            Some(mean)
        } else {
            self.steps.iter().rev().find_map(mbps)
        }
    }

    /// Returns the mean round-trip time over the trace, in ms; none if it has none.
    pub fn mean_rtt_ms(&self) -> Option<f64> {
        self.mean(|step| step.rtt.map(|rtt| rtt.as_secs_f64() * 1e3))
    }

    /// Averages over time, up to the last step if it holds for good.
    fn mean(&self, of: impl Fn(&Step) -> Option<f64>) -> Option<f64> {
        let end = self.period.or(self.steps.last().map(|step| step.at))?;
        let ends = self.steps.iter().skip(1).map(|step| step.at).chain([end]);
        let mut value = self.steps.first().and_then(&of)?;
        let mut sum = 0.0;
        for (step, until) in self.steps.iter().zip(ends) {
            value = of(step).unwrap_or(value);
            sum += value * (until - step.at).as_secs_f64();
        }
        Some(if end.is_zero() { value } else { sum / end.as_secs_f64() })
    }
}

/// Returns the text's lines with their numbers, without blank ones and comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
