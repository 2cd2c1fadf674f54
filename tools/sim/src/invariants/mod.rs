//! Invariants of every run, at every event (RFC 9959).
//!
//! Owns: the rules, and what of the past each needs to know. They are checked
//! from outside, on what a connection reports and sends, with the path and the
//! saved set as the simulator knows them; nothing here asks the engine whether
//! it is right. Does not own: when to look ([`world`](crate::world)).
//!
//! A rule that is broken is a [`Violation`]; none is ever tolerated.

mod claims;
mod pacing;
mod phases;
mod pipe;
mod resume;
mod rule;
mod window;

pub use self::claims::Claims;
pub use self::resume::Observation;
pub use self::resume::ResumeRules;
pub use self::rule::Rule;
pub use self::rule::Violation;
