//! Progress bar, if stderr is a terminal.

use std::io::stderr;
use std::io::IsTerminal;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

/// Redraws per second; each costs CPU time that the download needs.
const DRAWS_PER_SECOND: u8 = 8;

const WITH_TOTAL: &str = "{wide_msg} {bytes}/{total_bytes} {bar:20} {bytes_per_sec} {eta}";
const REQUESTS: &str = "{wide_msg} {pos}/{len} {bar:20} {per_sec} {eta}";
const WITHOUT_TOTAL: &str = "{wide_msg} {bytes} {bytes_per_sec}";

/// A bar, or nothing.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates a bar of bytes with this label, if stderr is a terminal.
    pub fn for_stderr(label: &str) -> Self {
        Self::new(label, WITHOUT_TOTAL)
    }

    /// Creates a bar of `total` requests with this label, if stderr is a terminal.
    pub fn of_requests(label: &str, total: u64) -> Self {
        let progress = Self::new(label, REQUESTS);
        if let Some(bar) = &progress.bar {
            bar.set_length(total);
        }
        progress
    }

    fn new(label: &str, template: &str) -> Self {
        if !stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::no_length().with_message(label.to_owned());
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        bar.set_style(style(template));
        Self { bar: Some(bar) }
    }

    /// Shows how much has arrived, and the total once it is known.
    pub fn update(&mut self, arrived: u64, total: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        if bar.length().is_none() && total.is_some() {
            bar.set_style(style(WITH_TOTAL));
            bar.update(|state| state.set_len(total.unwrap_or(0)));
        }
        bar.set_position(arrived);
    }

    /// Removes the bar from the screen.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        style(WITH_TOTAL);
        style(WITHOUT_TOTAL);
        style(REQUESTS);
    }
}
