//! Clock of a run: the virtual time of this thread, as times since the start.

use std::time::Duration;
use std::time::Instant;

use quiche::clock;
use quiche::clock::Simulation;

/// The wall clock at the start of each run, since the Unix epoch. Any time will
/// do that is later than the age of saved parameters.
const WALL_START: Duration = Duration::from_secs(1_700_000_000);

/// Virtual time; one clock a thread.
pub struct Clock {
    simulation: Simulation,
    start: Instant,
}

impl Clock {
    /// Starts at zero. What quiche draws at random follows from `seed`.
    pub fn start(seed: u64) -> Self {
        let simulation = Simulation::start(seed, WALL_START);
        Self { simulation, start: clock::now() }
    }

    pub fn advance_to(&self, at: Duration) {
        self.simulation.advance_to(at);
    }

    /// Converts a time of quiche to a time since the start.
    pub fn since_start(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.start)
    }

    /// Converts a time since the start to one of quiche.
    pub fn instant(&self, at: Duration) -> Instant {
        self.start + at
    }
}
