//! Pipe size (RFC 9959, 3.3 to 3.5).

use super::rule::check;
use super::rule::Rule;
use super::rule::Violation;

/// The pipe size since a jump.
#[derive(Clone, Copy, Debug)]
pub struct PipeRule {
    at_jump: usize,
    sent_at_jump_bytes: u64,
    last: usize,
}

impl PipeRule {
    /// Checks the pipe size at the jump. The window before it was `window` bytes, `probes`
    /// bytes of probes may have gone beyond it (RFC 9002, 7.5), and `sent_bytes` were sent
    /// in all.
    ///
    /// # Errors
    ///
    /// It is more than can have been in flight.
    pub fn new(
        pipe_size: usize,
        window: usize,
        probes: usize,
        sent_bytes: u64,
    ) -> Result<Self, Violation> {
        check(pipe_size <= window.saturating_add(probes), Rule::PipeSize, || {
            format!("{pipe_size} bytes at the jump, from a window of {window}, probes {probes}")
        })?;
        Ok(Self { at_jump: pipe_size, sent_at_jump_bytes: sent_bytes, last: pipe_size })
    }

    /// Updates the pipe size: so many bytes have been sent, and so many of them
    /// have arrived.
    ///
    /// # Errors
    ///
    /// It has shrunk, or grown by more than can have been acknowledged.
    pub fn on_state(
        &mut self,
        pipe_size: usize,
        sent_bytes: u64,
        arrived_bytes: u64,
    ) -> Result<(), Violation> {
        check(pipe_size >= self.last, Rule::PipeSize, || {
            format!("{pipe_size} bytes, after {}", self.last)
        })?;
        self.last = pipe_size;

        // Of what was in flight at the jump, and of what was sent since.
        let in_flight_bytes = self.at_jump as u64 + sent_bytes - self.sent_at_jump_bytes;
        let grown_bytes = (pipe_size - self.at_jump) as u64;
        check(grown_bytes <= in_flight_bytes.min(arrived_bytes), Rule::PipeSize, || {
            format!(
                "grown by {grown_bytes} bytes, of {in_flight_bytes} in flight and \
                 {arrived_bytes} that arrived"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> PipeRule {
        PipeRule::new(10_000, 13_500, 0, 15_000).unwrap()
    }

    #[test]
    fn pipe_is_at_most_window_and_probes() {
        for (probes, most) in [(0, 13_500), (2700, 16_200)] {
            assert!(PipeRule::new(most, 13_500, probes, 0).is_ok());
            let more = PipeRule::new(most + 1, 13_500, probes, 0);
            assert_eq!(more.unwrap_err().rule, Rule::PipeSize);
        }
    }

    #[test]
    fn pipe_grows_by_what_was_acknowledged() {
        let state = |pipe, sent, arrived| rule().on_state(pipe, sent, arrived).is_ok();
        assert!(state(20_000, 15_000, 50_000));
        assert!(!state(20_001, 15_000, 50_000));
        assert!(state(20_001, 15_001, 50_000));
        assert!(!state(20_001, 50_000, 10_000));
    }

    #[test]
    fn pipe_never_shrinks() {
        let mut rule = rule();
        rule.on_state(12_000, 20_000, 50_000).unwrap();
        assert_eq!(rule.on_state(11_999, 20_000, 50_000).unwrap_err().rule, Rule::PipeSize);
    }
}
