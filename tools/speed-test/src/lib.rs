//! Speed test of Careful Resume: times of downloads with slow start and with saved
//! parameters, and how close both come to their bounds.
//!
//! The measuring half ([`runner`], [`remote`]) runs real servers and clients.
//! The reporting half ([`summary`], [`verdict`], [`page`]) knows only the JSON
//! lines and the server's qlog files, from any server.

pub mod about;
pub mod client_report;
pub mod emulator_report;
#[cfg(test)]
mod fixture;
pub mod keep;
pub mod page;
pub mod path;
pub mod process;
pub mod progress;
pub mod remote;
pub mod runner;
pub mod scenario;
pub mod summary;
pub mod verdict;
