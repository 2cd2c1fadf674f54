//! Side of the release.

pub use ::release as quiche;

#[path = "side/mod.rs"]
pub mod side;
