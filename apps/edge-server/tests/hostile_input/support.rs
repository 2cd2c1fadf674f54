//! Server process and regular client, shared with the process tests.

#[path = "../process/support/client.rs"]
pub mod client;
#[path = "../process/support/metrics.rs"]
pub mod metrics;
#[path = "../process/support/process.rs"]
pub mod process;
