//! Discrete-event simulation of whole patched quiche connections over the link
//! model of `link`, in virtual time.
//!
//! A [`scenario`] describes a path and its flows; [`world`] runs it once from a seed; an
//! [`outcome`] is the result, one JSON line per run. [`invariants`] hold in every run,
//! an [`experiment`] draws results, the [`evaluation`] judges those of the shipped scenarios,
//! [`fuzz`] searches for runs that break one, and a [`trace`] shows one run in detail.

pub mod evaluation;
pub mod experiment;
pub mod fuzz;
mod interval;
pub mod invariants;
mod limits;
pub mod outcome;
mod random;
pub mod scenario;
mod seeds;
pub mod trace;
pub mod world;
