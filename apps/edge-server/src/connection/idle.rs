//! Idleness of a connection: nothing has come from its client for a while, so that
//! memory that only traffic needs can be given back.

use std::time::Duration;
use std::time::Instant;

/// How long nothing comes before a connection is at rest. What is given back is taken again
/// with the next request, which costs the more the more often it happens.
const QUIET: Duration = Duration::from_secs(1);

/// From one rest to the next.
#[derive(Debug, Default)]
pub struct Rest {
    /// Something has come since the last turn.
    stirred: bool,

    /// When it is at rest, unless something comes before.
    at: Option<Instant>,
}

impl Rest {
    /// Something has come from the client.
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// The connection has its turn.
    pub fn on_turn(&mut self, now: Instant) {
        if std::mem::take(&mut self.stirred) {
            self.at = Some(now + QUIET);
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Whether the connection has come to rest by now, told once.
    pub fn begins(&mut self, now: Instant) -> bool {
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
        let mut rest = Rest::default();
        rest.on_turn(start);
        assert_eq!(rest.deadline(), None, "nothing has come");
        for (turn, stirs) in [(0, true), (1, false), (2, true), (3, false), (5, false)] {
            if stirs {
                rest.stir();
            }
            rest.on_turn(at(turn));
            assert!(!rest.begins(at(turn)), "{turn}");
        }
        assert_eq!(rest.deadline(), Some(at(6)));
        assert!(rest.begins(at(6)));
        rest.on_turn(at(6));
        assert_eq!(rest.deadline(), None, "the turn is its own");
    }
}
