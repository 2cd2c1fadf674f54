//! Budget of rotations: how many connections get IDs of another configuration in one turn of the event loop.

/// Connections that get IDs of another configuration in one turn.
const ROTATIONS_PER_TURN_MAX: usize = 64;

/// Connections that may still begin to rotate their IDs in this turn.
#[derive(Default)]
pub struct RotationBudget(usize);

impl RotationBudget {
    pub fn begin_turn(&mut self) {
        self.0 = ROTATIONS_PER_TURN_MAX;
    }

    /// Takes a connection's place in the turn. Returns whether there was one.
    pub fn take(&mut self) -> bool {
        let is_left = self.0 > 0;
        self.0 -= usize::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_connections_rotate_in_one_turn() {
        let mut budget = RotationBudget::default();
        for _ in 0..3 {
            budget.begin_turn();
            let taken = (0..10_000).filter(|_| budget.take()).count();
            assert_eq!(taken, ROTATIONS_PER_TURN_MAX);
        }
    }
}
