//! Path state across connections (RFC 9959, 2.2): its key, the client of its store, and a summary
//! for logs.

pub mod path_key;
pub mod store;
pub mod summary;
