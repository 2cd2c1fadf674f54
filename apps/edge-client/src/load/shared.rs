//! State that all connections of a load share.

use quiche::h3;
use quiche::h3::NameValue;

use super::summary::Summary;
use crate::cli::Cli;
use crate::exchange;
use crate::exchange::CHUNK;

/// Command line, request, buffer and results.
pub struct Shared<'a> {
    pub cli: &'a Cli,
    request: Vec<h3::Header>,

    /// Requests so far.
    requested: usize,
    pub chunk: Box<[u8]>,
    pub summary: Summary,
}

impl<'a> Shared<'a> {
    /// Returns the state before the first request.
    pub fn new(cli: &'a Cli, requests: u32) -> Self {
        let mut shared = Self {
            cli,
            request: exchange::request(&cli.target, &cli.header),
            requested: 0,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            summary: Summary::new(&cli.target.url, requests),
        };
        shared.choose_path();
        shared
    }

    /// Returns the header section of the next request.
    pub fn request(&self) -> &[h3::Header] {
        &self.request
    }

    /// Goes on to the request after it.
    pub fn on_requested(&mut self) {
        self.requested += 1;
        self.choose_path();
    }

    fn choose_path(&mut self) {
        let Some(paths) = &self.cli.load.paths else { return };
        let path = paths.of_request(self.requested);
        if let Some(header) = self.request.iter_mut().find(|header| header.name() == b":path") {
            *header = h3::Header::new(b":path", path.as_bytes());
        }
    }
}
