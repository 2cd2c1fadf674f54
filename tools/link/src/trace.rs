//! Trace of a path: its rate, round-trip time and loss over time, from a file, as a schedule.
//!
//! Owns the two formats of such files, and the errors that name a line.
//!
//! - mahimahi: one delivery opportunity of 1500 bytes a line, a whole number of ms since the
//!   start. The last line is also the length of the trace, which then begins again. The link
//!   sends the bytes of an opportunity evenly since the one before: a link that is busy has
//!   sent, at each opportunity, exactly what the trace says.
//! - CSV, in a file that ends in `.csv`: `time_ms` and at least one of `rate_mbps`, `rtt_ms`,
//!   `loss`, named in the first line. Values hold from their time on; an empty one stays as it
//!   was. A last line with a time alone ends the trace, which then begins again; without one the
//!   last values hold for good.

mod csv;
mod mahimahi;

use crate::rate::Rate;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// A path over time.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTrace {
    steps: Vec<Step>,
    period: Option<Duration>,
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

/// Error of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file, if it was read from one.
    pub file: String,
    /// From 1; none if the file as a whole is at fault.
    pub line: Option<usize>,
    /// What is wrong, and what would be accepted.
    pub reason: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file, self.reason),
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}

impl std::error::Error for TraceError {}

/// Line and reason of an error.
type Fault = (Option<usize>, String);

impl PathTrace {
    /// Reads a file: CSV if its name ends in `.csv`, mahimahi's format otherwise.
    ///
    /// # Errors
    ///
    /// One line that names the file, the line and the way out.
    pub fn read(file: &Path) -> Result<Self, TraceError> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| TraceError {
            file: name.clone(),
            line: None,
            reason: format!("cannot read the trace: {error}"),
        })?;
        Self::parse(&name, &text)
    }

    /// Reads the text of the file called `name`; see [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self, TraceError> {
        let is_csv = Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
        let parsed = if is_csv { csv::parse(text) } else { mahimahi::parse(text) };
        parsed.map_err(|(line, reason)| TraceError { file: name.into(), line, reason })
    }

    /// Returns the steps, in order of time; the first is at the start.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the time after which the steps begin again; the last one holds for good if there is
    /// none.
    pub fn period(&self) -> Option<Duration> {
        self.period
    }

    /// Returns the mean rate over the trace, in Mbit/s; none if it has no rates.
    pub fn mean_rate_mbps(&self) -> Option<f64> {
        self.mean(|step| step.rate.map(|rate| rate.bits_per_s() as f64 / 1e6))
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
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_weighted_by_time() {
        let text = "time_ms,rate_mbps,rtt_ms\n0,10,40\n100,20,\n300,5,80\n400,,\n";
        let trace = PathTrace::parse("a.csv", text).unwrap();
        assert_eq!(trace.mean_rate_mbps(), Some((10.0 + 40.0 + 5.0) / 4.0));
        assert_eq!(trace.mean_rtt_ms(), Some(50.0));
        let holds = PathTrace::parse("a.csv", "time_ms,loss\n0,0.5\n").unwrap();
        assert_eq!((holds.mean_rate_mbps(), holds.period()), (None, None));
    }

    #[test]
    fn error_names_file_and_line() {
        let error = PathTrace::parse("a/b.csv", "time_ms,rate_mbps\n0,fast\n").unwrap_err();
        let expected = "a/b.csv, line 2: rate_mbps is fast: a rate is a number from 0.001 to 1000000 Mbit/s";
        assert_eq!(error.to_string(), expected);
        let error = PathTrace::read(Path::new("no/such.csv")).unwrap_err().to_string();
        assert!(error.starts_with("no/such.csv: cannot read the trace: "), "{error}");
    }
}
