//! Invariants of every run, at every event (RFC 9959).
//!
//! Owns the rules, and the history that each needs. They check from outside what a
//! connection reports and sends, with the path and the saved parameters as the simulator
//! knows them; nothing here asks the engine whether it is right. [`world`](crate::world)
//! calls them.
//!
//! A broken rule is a [`Violation`], and fails the run.

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
