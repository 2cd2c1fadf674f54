//! Bounds of the congestion window (RFC 9002, 7.2; RFC 9959, 3.3 and 3.5).

use quiche::careful_resume::Phase;

use super::rule::check;
use super::rule::Rule;
use super::rule::Violation;

/// The floor of the window, in packets.
const PACKETS_MIN: usize = 2;

/// The window of one connection, and the phase in which it was seen last.
#[derive(Debug)]
pub struct WindowRule {
    packet_bytes: usize,
    seen: Option<(Phase, usize)>,
    /// Last window in safe retreat: the event that ends the phase is reported afterwards.
    in_retreat: Option<usize>,
}

impl WindowRule {
    pub fn new(packet_bytes: usize) -> Self {
        Self { packet_bytes, seen: None, in_retreat: None }
    }

    /// Checks the floor alone, outside of Careful Resume.
    ///
    /// # Errors
    ///
    /// Less than two packets.
    pub fn on_window(&self, window: usize) -> Result<(), Violation> {
        check(window >= PACKETS_MIN * self.packet_bytes, Rule::WindowFloor, || {
            format!("{window} bytes, in packets of {}", self.packet_bytes)
        })
    }

    /// Checks the window after an event.
    ///
    /// # Errors
    ///
    /// It is below the floor, above jump_cwnd, or grew where it must not.
    pub fn on_state(
        &mut self,
        phase: Phase,
        window: usize,
        jump_cwnd: Option<usize>,
    ) -> Result<(), Violation> {
        self.on_window(window)?;
        let before = self.seen.filter(|(seen, _)| *seen == phase).map(|(_, window)| window);
        self.seen = Some((phase, window));
        let grew = before.is_some_and(|before| window > before);
        match phase {
            Phase::Unvalidated => {
                let right = !grew && jump_cwnd.is_some_and(|jump_cwnd| window <= jump_cwnd);
                check(right, Rule::UnvalidatedWindow, || {
                    format!("{window} bytes after {before:?}, jump_cwnd {jump_cwnd:?}")
                })
            }
            Phase::SafeRetreat => {
                self.in_retreat = Some(window);
                check(!grew, Rule::RetreatGrowth, || format!("{window} bytes after {before:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the window that a retreat leaves, of a pipe of `pipe_size` bytes.
    ///
    /// # Errors
    ///
    /// More than half.
    pub fn on_retreat(&self, window: usize, pipe_size: usize) -> Result<(), Violation> {
        check(window <= self.half(pipe_size), Rule::RetreatWindow, || {
            format!("{window} bytes, of a pipe of {pipe_size}")
        })
    }

    /// Returns the window, and the threshold, that a retreat leaves at its end. The
    /// acknowledgement that ends it is the first of what was sent since it began:
    /// before that, nothing could grow.
    ///
    /// # Errors
    ///
    /// The window has grown, or the threshold is more than half of the pipe size.
    pub fn on_retreat_end(
        &self,
        window: usize,
        ssthresh: usize,
        pipe_size: usize,
    ) -> Result<(), Violation> {
        let before = self.in_retreat;
        let grew = before.is_some_and(|before| window > before);
        check(!grew, Rule::RetreatGrowth, || {
            format!("{window} bytes at its end, after {before:?}")
        })?;
        check(ssthresh <= self.half(pipe_size), Rule::RetreatThreshold, || {
            format!("{ssthresh} bytes, of a pipe of {pipe_size}")
        })
    }

    fn half(&self, pipe_size: usize) -> usize {
        (pipe_size / 2).max(PACKETS_MIN * self.packet_bytes)
    }
}

/// Checks that a jump is to at most half of saved_cwnd and to at most max_jump.
///
/// # Errors
///
/// `jump_cwnd` is more.
pub fn check_jump(jump_cwnd: usize, saved_cwnd: u64, max_jump: usize) -> Result<(), Violation> {
    let right = jump_cwnd as u64 <= saved_cwnd / 2 && jump_cwnd <= max_jump;
    check(right, Rule::JumpBound, || {
        format!("to {jump_cwnd} bytes, saved_cwnd {saved_cwnd}, max_jump {max_jump}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(states: &[(Phase, usize)]) -> Option<Rule> {
        let mut rule = WindowRule::new(1350);
        states
            .iter()
            .find_map(|&(phase, window)| rule.on_state(phase, window, Some(100_000)).err())
            .map(|violation| violation.rule)
    }

    #[test]
    fn window_floor_is_two_packets() {
        assert_eq!(broken(&[(Phase::Normal, 2700)]), None);
        assert_eq!(broken(&[(Phase::Normal, 2699)]), Some(Rule::WindowFloor));
    }

    #[test]
    fn window_does_not_grow_in_unvalidated() {
        use Phase::Unvalidated;
        let expected = Some(Rule::UnvalidatedWindow);
        assert_eq!(broken(&[(Unvalidated, 100_000), (Phase::Validating, 110_000)]), None);
        assert_eq!(broken(&[(Unvalidated, 100_001)]), expected);
        assert_eq!(broken(&[(Unvalidated, 90_000), (Unvalidated, 90_001)]), expected);
    }

    #[test]
    fn window_does_not_grow_in_safe_retreat() {
        use Phase::SafeRetreat;
        let expected = Some(Rule::RetreatGrowth);
        assert_eq!(broken(&[(SafeRetreat, 9000), (SafeRetreat, 8000)]), None);
        assert_eq!(broken(&[(SafeRetreat, 9000), (SafeRetreat, 9001)]), expected);
        assert_eq!(broken(&[(SafeRetreat, 9000), (Phase::Normal, 9001)]), None);
    }

    #[test]
    fn retreat_leaves_half_of_the_pipe() {
        let rule = WindowRule::new(1350);
        for (left, pipe_size, right) in
            [(50_000, 100_000, true), (50_001, 100_000, false), (2700, 0, true), (2701, 0, false)]
        {
            assert_eq!(rule.on_retreat(left, pipe_size).is_ok(), right);
            assert_eq!(rule.on_retreat_end(left, left, pipe_size).is_ok(), right);
        }
    }

    #[test]
    fn ack_that_ends_a_retreat_does_not_grow_window() {
        for (before, at_end, right) in [(9000, 9000, true), (9000, 8000, true), (9000, 9001, false)]
        {
            let mut rule = WindowRule::new(1350);
            rule.on_state(Phase::SafeRetreat, before, None).expect("the first");
            rule.on_state(Phase::Normal, 9500, None).expect("no growth in retreat");
            assert_eq!(rule.on_retreat_end(at_end, 5000, 10_000).is_ok(), right);
        }
    }

    #[test]
    fn jump_is_at_most_half_saved_cwnd_and_max_jump() {
        assert!(check_jump(50_000, 100_001, 60_000).is_ok());
        assert!(check_jump(50_001, 100_001, 60_000).is_err());
        assert!(check_jump(50_000, 100_001, 49_999).is_err());
    }
}
