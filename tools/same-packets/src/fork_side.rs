//! Side of the fork.

pub use ::fork as quiche;

#[path = "side/mod.rs"]
pub mod side;
