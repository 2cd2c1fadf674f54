//! Trace of a path: its rate, round-trip time and loss over time, from a file, as a schedule.
//!
//! Owns the two formats of such files, and the errors that name a line.
//!
//! - mahimahi: one delivery opportunity of 1500 bytes a line, a whole number of ms since the
//!   start. The last line is also the length of the trace, which then begins again. The link
//!   sends the bytes of an opportunity evenly since the one before: a link that is busy has
//!   sent, at each opportunity, exactly what the trace says. After more than 12 s without one, it
//!   sends them in the last ms.
//! - CSV, in a file that ends in `.csv`: `time_ms` and at least one of `rate_mbps`, `rtt_ms`,
//!   `loss`, named in the first line. Values hold from their time on; an empty one stays as it
//!   was. A rate of 0 is an outage, which must end. A last line with a time alone ends the trace, which then begins again; without one the
//!   last values hold for good.

mod csv;
mod mahimahi;
mod steps;

pub use steps::PathTrace;
pub use steps::Step;

use std::fmt;
use std::path::Path;

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
        let outage = PathTrace::parse("a.csv", "time_ms,rate_mbps\n0,0\n9,20\n").unwrap();
        assert_eq!(outage.mean_rate_mbps(), Some(20.0));
        let holds = PathTrace::parse("a.csv", "time_ms,loss\n0,0.5\n").unwrap();
        assert_eq!((holds.mean_rate_mbps(), holds.period()), (None, None));
    }

    #[test]
    fn error_names_file_and_line() {
        let error = PathTrace::parse("a/b.csv", "time_ms,rate_mbps\n0,fast\n").unwrap_err();
        let expected =
            "a/b.csv, line 2: rate_mbps is fast: a rate is 0 for an outage, or a number from 0.001 to \
             1000000 Mbit/s";
        assert_eq!(error.to_string(), expected);
        let error = PathTrace::read(Path::new("no/such.csv")).unwrap_err().to_string();
        assert!(error.starts_with("no/such.csv: cannot read the trace: "), "{error}");
    }
}
