//! Lines for the user about trouble with single clients or the server. Each
//! kind of trouble is told once, not once for every packet.

use crate::cli::PROGRAM;
use std::io;
use std::net::SocketAddr;

/// What has been told.
#[derive(Debug, Default)]
pub struct Notices {
    server_told: bool,
    client_told: bool,
}

impl Notices {
    /// The server cannot be reached. The relay goes on: it may come yet.
    pub fn server_unreachable(&mut self, server: SocketAddr, error: &io::Error) {
        if !std::mem::replace(&mut self.server_told, true) {
            PROGRAM.say(format_args!("cannot reach {server}: {error}; is a server running there?"));
        }
    }

    /// The server is back; its next outage is news.
    pub fn server_answers(&mut self) {
        self.server_told = false;
    }

    /// A client's packets are ignored.
    pub fn client_refused(&mut self, client: SocketAddr, error: &io::Error) {
        if !std::mem::replace(&mut self.client_told, true) {
            PROGRAM.say(format_args!("cannot serve client {client}: {error}"));
        }
    }
}
