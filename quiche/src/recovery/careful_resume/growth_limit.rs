//! Limit of slow start after a jump, which RFC 9959, 3.4 leaves to the
//! controller.

use std::time::Duration;

use super::after_jump::SoftGrowth;
use super::jump_decision;
use super::AfterJump;
use super::CarefulResumeConfig;
use crate::path_state::PathState;

/// In force from a jump until slow start ends.
#[derive(Debug, Default)]
pub(super) enum GrowthLimit {
    #[default]
    None,

    /// Slow start ends at this window, in bytes.
    Ceiling(usize),

    /// Slow start is slower beyond what the path is known to hold.
    Soft(Box<SoftGrowth>),
}

impl GrowthLimit {
    /// Returns the limit after a jump with `saved`.
    pub(super) fn new(
        config: &CarefulResumeConfig, saved: &PathState,
        min_rtt: Option<Duration>,
    ) -> Self {
        match config.after_jump {
            AfterJump::Soft => {
                let min_rtt = min_rtt.unwrap_or(saved.saved_rtt);
                let known = jump_decision::beside_queue(
                    saved.saved_cwnd,
                    min_rtt,
                    saved.saved_rtt,
                );
                // RFC 9959, 4.1: if something else limited the observation, the
                // path may hold more; a path that has become longer does.
                let is_limit = jump_decision::is_path_limited(config, saved)
                    && !jump_decision::is_longer(saved, min_rtt);

                GrowthLimit::Soft(Box::new(SoftGrowth::new(known, is_limit)))
            },

            AfterJump::Ceiling => match jump_decision::ceiling(config, saved) {
                Some(ceiling) => GrowthLimit::Ceiling(ceiling),
                None => GrowthLimit::None,
            },

            AfterJump::None => GrowthLimit::None,
        }
    }

    pub(super) fn ceiling(&self) -> Option<usize> {
        match self {
            GrowthLimit::Ceiling(ceiling) => Some(*ceiling),
            _ => None,
        }
    }

    pub(super) fn soft(&self) -> Option<&SoftGrowth> {
        match self {
            GrowthLimit::Soft(soft_growth) => Some(soft_growth),
            _ => None,
        }
    }

    pub(super) fn soft_mut(&mut self) -> Option<&mut SoftGrowth> {
        match self {
            GrowthLimit::Soft(soft_growth) => Some(soft_growth),
            _ => None,
        }
    }

    /// A jump that was not used says nothing about the capacity.
    pub(super) fn drop_ceiling(&mut self) {
        if self.ceiling().is_some() {
            *self = GrowthLimit::None;
        }
    }
}
