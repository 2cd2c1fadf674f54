//! Saved path state (RFC 9959, 2.2): key, store client, own states of clients, summary, report,
//! arm.

pub mod arm;
pub mod carried_state;
pub mod claimants;
pub mod last_states;
pub mod own_state;
pub mod path_key;
pub mod pending_claim;
pub mod report;
pub mod store;
pub mod summary;
