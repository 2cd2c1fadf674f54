//! The server's process and a client that behaves, as the other tests of processes
//! have them.

#[path = "../process/support/client.rs"]
pub mod client;
#[path = "../process/support/forger.rs"]
pub mod forger;
#[path = "../process/support/metrics.rs"]
pub mod metrics;
#[path = "../process/support/process.rs"]
pub mod process;
