//! Warnings about single clients or the server, once each and not once per packet.

use crate::cli::PROGRAM;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// What helps a machine that is late.
pub const LATE_WAY_OUT: &str = "lower --rate, or leave this machine more CPU time";

/// Which warnings were printed.
#[derive(Debug, Default)]
pub struct Notices {
    server_warned: bool,
    client_warned: bool,
    late_warned: bool,
}

impl Notices {
    /// Warns once that the server cannot be reached. The relay goes on: the server may start later.
    pub fn server_unreachable(&mut self, server: SocketAddr, error: &io::Error) {
        if !std::mem::replace(&mut self.server_warned, true) {
            PROGRAM.say(format_args!("cannot reach {server}: {error}; is a server running there?"));
        }
    }

    /// Notes that the server answers, so that its next outage is a new warning.
    pub fn server_answers(&mut self) {
        self.server_warned = false;
    }

    /// Warns once that packets leave late.
    pub fn late(&mut self, limit: Duration) {
        if !std::mem::replace(&mut self.late_warned, true) {
            PROGRAM.say(format_args!(
                "cannot keep up: more than 1 % of the latest packets left more than {:.1} ms late; \
                 {LATE_WAY_OUT}",
                limit.as_secs_f64() * 1e3
            ));
        }
    }

    /// Warns once that a client's packets are ignored.
    pub fn client_refused(&mut self, client: SocketAddr, error: &io::Error) {
        if !std::mem::replace(&mut self.client_warned, true) {
            PROGRAM.say(format_args!("cannot serve client {client}: {error}"));
        }
    }
}
