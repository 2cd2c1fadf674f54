//! Progress of a measurement: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use indicatif::ProgressBar;
use indicatif::ProgressStyle;

/// Progress over a known number of steps, on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates a bar; `weight` is the sum of the weights of all steps.
    pub fn new(weight: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress { bar: None };
        }
        let bar = ProgressBar::new(weight);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Progress { bar: Some(bar) }
    }

    /// Shows that a step begins.
    pub fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
            bar.tick();
        }
    }

    /// Counts a step of this weight, and prints its result.
    pub fn done(&self, weight: u64, line: &str) {
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                bar.inc(weight);
            }
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
