//! Telemetry: metrics, access log, qlog and health, and the admin listener that serves them.

pub mod access_log;
pub mod admin;
pub mod health;
pub mod metrics;
pub mod printable;
pub mod process_log;
pub mod qlog;
pub mod shutdown_log;
pub mod standard_error;
