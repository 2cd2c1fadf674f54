//! Discrete-event simulation of whole patched quiche connections over the link
//! model of `link`, in virtual time.
//!
//! A [`scenario`] says which flows share which path; [`world`] runs it once
//! from a seed; an [`outcome`] is what came of it, one JSON line a run.
//! [`invariants`] are what holds in every run, [`fuzz`] looks for runs in which
//! they do not, and a [`trace`] shows one run in detail.

mod dice;
pub mod evaluation;
pub mod fuzz;
pub mod invariants;
pub mod outcome;
pub mod scenario;
mod seeds;
pub mod trace;
pub mod world;
