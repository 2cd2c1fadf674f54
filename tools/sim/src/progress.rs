//! Progress of the runs: a bar on a terminal, a line a minute elsewhere.

use std::io::IsTerminal;
use std::time::Duration;
use std::time::Instant;

use indicatif::ProgressBar;
use indicatif::ProgressStyle;

const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Progress over runs of very different cost, on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    runs: usize,
    runs_done: usize,
    /// Time of the last line, if there is no bar.
    last_line: Instant,
}

#[expect(clippy::disallowed_methods, reason = "people wait in real time")]
impl Progress {
    /// Creates a bar; `cost` is that of all `runs`.
    pub fn new(runs: usize, cost: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(cost);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}, {eta} left") {
                bar.set_style(style);
            }
            bar.set_message(format!("0 of {runs} runs"));
            bar
        });
        Progress { bar, runs, runs_done: 0, last_line: Instant::now() }
    }

    /// Counts a run of this cost.
    pub fn done(&mut self, cost: u64) {
        self.runs_done += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} of {} runs", self.runs_done, self.runs));
            bar.inc(cost);
        } else if self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            eprintln!("sim: {} of {} runs", self.runs_done, self.runs);
        }
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
