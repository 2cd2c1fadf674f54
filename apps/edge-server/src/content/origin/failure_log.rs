//! Log of the requests that an upstream fails, with 502, 504 or a broken body: one line a minute at most, with the count of
//! those that it leaves out.

use std::time::Duration;
use std::time::Instant;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Failures since the last line.
#[derive(Debug, Default)]
pub struct FailureLog {
    last: Option<Instant>,
    untold: u64,

    /// What the last one was.
    what: String,
}

impl FailureLog {
    /// Adds a failure. Returns the line to write, if one is due.
    pub fn on_failure(&mut self, what: String, now: Instant) -> Option<String> {
        self.untold += 1;
        self.what = what;
        self.take(now)
    }

    /// Returns the line on failures that no other has told of, once it is due.
    pub fn take(&mut self, now: Instant) -> Option<String> {
        let is_early = self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL);
        if self.untold == 0 || is_early {
            return None;
        }
        self.last = Some(now);
        let (count, what) = (std::mem::take(&mut self.untold), std::mem::take(&mut self.what));
        Some(match count {
            1 => what,
            _ => format!("{what}; {} more since the last such line", count - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::clock;

    #[test]
    fn failures_give_a_line_a_minute() {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut log = FailureLog::default();
        assert_eq!(log.take(at(0)), None);
        for (seconds, expected) in [
            (0, Some("0")),
            (1, None),
            (59, None),
            (60, Some("60; 2 more since the last such line")),
            (61, None),
        ] {
            let line = log.on_failure(seconds.to_string(), at(seconds));
            assert_eq!(line.as_deref(), expected, "{seconds} s");
        }
        assert_eq!((log.take(at(119)), log.take(at(120))), (None, Some("61".to_owned())));
        assert_eq!(log.take(at(500)), None);
    }
}
