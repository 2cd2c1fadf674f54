//! Client of a request, and what its connection has for the response.

use std::net::IpAddr;
use std::time::Instant;
use std::time::SystemTime;

use crate::admission::file_limits::FilePermit;
use crate::admission::file_limits::FileReaders;
use crate::http::exchange::Protocol;
use crate::resume::report::ConnectionReport;

/// Client of a request, as of now.
#[derive(Clone, Copy)]
pub struct ClientContext<'a> {
    /// Returns the client's addresses: one, or two while the client has not proved yet that it is at
    /// a new one.
    pub addresses: &'a dyn Fn() -> Vec<IpAddr>,

    /// Gives a permit to read an open file.
    pub permit: &'a dyn Fn(&FileReaders) -> Option<FilePermit>,

    /// Returns what the client may know of its connection.
    pub report: &'a dyn Fn() -> ConnectionReport,

    pub protocol: Protocol,

    /// The request has been handled before, and has waited for its password to be checked.
    pub has_waited: bool,

    pub now: Instant,
    pub wall_now: SystemTime,
}
