//! Saved path state (RFC 9959, 2.2): key, store client, summary, report.

pub mod path_key;
pub mod report;
pub mod store;
pub mod summary;
