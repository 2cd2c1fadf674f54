//! Idleness of one connection: after a while without packets of its client, memory that only
//! traffic needs is freed.

use std::time::Duration;
use std::time::Instant;

/// How long a connection is quiet before it is idle. The next request allocates again what
/// was freed: too short a time costs more than it saves.
const QUIET: Duration = Duration::from_secs(1);

/// Detector of idleness.
#[derive(Debug, Default)]
pub struct IdleDetector {
    /// Whether a packet has arrived since the last turn.
    active: bool,

    /// When the connection becomes idle unless a packet arrives first.
    at: Option<Instant>,
}

impl IdleDetector {
    /// Notes a packet of the client.
    pub fn on_activity(&mut self) {
        self.active = true;
    }

    /// Starts the quiet time again if packets have arrived since the last turn.
    pub fn on_turn(&mut self, now: Instant) {
        if std::mem::take(&mut self.active) {
            self.at = Some(now + QUIET);
        }
    }

    /// Returns when the connection becomes idle.
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
    fn idleness_begins_once_after_the_last_packet() {
        let start = quiche::clock::now();
        let at = |quarters| start + QUIET * quarters / 4;
        let mut idle = IdleDetector::default();
        idle.on_turn(start);
        assert_eq!(idle.deadline(), None, "no packet has arrived");
        for (turn, active) in [(0, true), (1, false), (2, true), (3, false), (5, false)] {
            if active {
                idle.on_activity();
            }
            idle.on_turn(at(turn));
            assert!(!idle.take_idle(at(turn)), "{turn}");
        }
        assert_eq!(idle.deadline(), Some(at(6)));
        assert!(idle.take_idle(at(6)));
        idle.on_turn(at(6));
        assert_eq!(idle.deadline(), None, "no packet has arrived since");
    }
}
