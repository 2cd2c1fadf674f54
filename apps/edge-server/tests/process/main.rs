//! The server as a process, with real sockets.

mod access;
mod access_log;
mod admin;
mod bad_input;
mod compression;
mod controllers;
mod draining;
mod early_data;
mod ech;
mod ecn;
mod floods;
mod hosts;
mod limits;
mod operations;
mod own_state;
mod reloading;
mod restarts;
mod resuming;
mod serving;
mod store_faults;
mod support;
mod takeover;
mod takeover_search;
mod tcp;
mod tls;
mod workers;
