//! Tests of a worker with its clients in memory, in simulated time.
//!
//! [`harness`] holds what a test works with. A test's thread does everything in one
//! order that follows from the seed; it needs no socket and no pause.

mod client;
mod codes;
mod forger;
mod harness;
mod path;
#[path = "../../../benches/support/windows.rs"]
mod windows;

mod access;
mod access_log;
mod agreement;
mod amplification;
mod budgets;
mod careful_resume;
mod control_group;
mod controllers;
mod drain;
mod early_data;
mod ecn;
mod gain;
mod harness_tests;
mod http;
mod idle;
mod limits;
mod metrics;
mod mixed_subnet;
mod own_state;
mod packet_sizes;
mod packets;
mod priorities;
mod qlog;
mod quic_lb;
mod retry;
mod settings;
mod speedtest;
mod windows_tests;
