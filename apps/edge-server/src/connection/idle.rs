//! Idleness of a connection: nothing has come from its client for a while, so that
//! memory that only traffic needs can be given back.

use std::time::Duration;
use std::time::Instant;

/// How long a connection is quiet before it is idle. Memory that is given back is asked for again
/// with the next request: too short a time costs more than it saves.
const QUIET: Duration = Duration::from_secs(1);

/// Tells when a connection has become idle.
#[derive(Debug, Default)]
pub struct IdleDetector {
    /// A packet has come since the last turn.
    active: bool,

    /// When it becomes idle unless a packet comes first.
    at: Option<Instant>,
}

impl IdleDetector {
    /// Notes a packet of the client.
    pub fn on_activity(&mut self) {
        self.active = true;
    }

    /// Starts the quiet time again if packets came since the last turn.
    pub fn on_turn(&mut self, now: Instant) {
        if std::mem::take(&mut self.active) {
            self.at = Some(now + QUIET);
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Returns whether the connection has become idle; true once for each idle time.
    pub fn take_idle(&mut self, now: Instant) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_once_after_the_last_packet() {
        let start = quiche::clock::now();
        let at = |quarters| start + QUIET * quarters / 4;
        let mut idle = IdleDetector::default();
        idle.on_turn(start);
        assert_eq!(idle.deadline(), None, "nothing has come");
        for (turn, stirs) in [(0, true), (1, false), (2, true), (3, false), (5, false)] {
            if stirs {
                idle.on_activity();
            }
            idle.on_turn(at(turn));
            assert!(!idle.take_idle(at(turn)), "{turn}");
        }
        assert_eq!(idle.deadline(), Some(at(6)));
        assert!(idle.take_idle(at(6)));
        idle.on_turn(at(6));
        assert_eq!(idle.deadline(), None, "the turn is its own");
    }
}
