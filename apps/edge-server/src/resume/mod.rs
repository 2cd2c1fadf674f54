//! Saved path state (RFC 9959, 2.2): key, store client, summary, report, arm.

pub mod arm;
pub mod claimants;
pub mod path_key;
pub mod pending_claim;
pub mod report;
pub mod store;
pub mod summary;
