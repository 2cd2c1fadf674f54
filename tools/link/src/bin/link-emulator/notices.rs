//! Warnings about single clients or the server, once each and not once per packet.

use crate::cli::PROGRAM;
use std::io;
use std::net::SocketAddr;

/// Which warnings were printed.
#[derive(Debug, Default)]
pub struct Notices {
    server_warned: bool,
    client_warned: bool,
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

    /// Warns once that a client's packets are ignored.
    pub fn client_refused(&mut self, client: SocketAddr, error: &io::Error) {
        if !std::mem::replace(&mut self.client_warned, true) {
            PROGRAM.say(format_args!("cannot serve client {client}: {error}"));
        }
    }
}
