//! The server as a process, with real sockets.

mod abuse;
mod access_log;
mod admission;
mod agreement;
mod amplification;
mod bad_input;
mod draining;
mod early_data;
mod floods;
mod hosts;
mod http;
mod limits;
mod moving;
mod neighbours;
mod packet_sizes;
mod priorities;
mod qlogs;
mod reloading;
mod restarts;
mod resuming;
mod scenarios;
mod serving;
mod store_faults;
mod support;
mod takeover;
mod workers;
