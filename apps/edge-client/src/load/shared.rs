//! State that all connections of a load share.

use quiche::h3;

use super::summary::Summary;
use crate::cli::Cli;

/// Command line, request, buffer and results.
pub struct Shared<'a> {
    pub cli: &'a Cli,
    pub request: Vec<h3::Header>,
    pub chunk: Box<[u8]>,
    pub summary: Summary,
}
