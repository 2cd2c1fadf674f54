//! Metrics, access log, qlog and health of the server, and the HTTP listener that shows them.

pub mod access_log;
pub mod admin;
pub mod health;
pub mod metrics;
pub mod qlog;
