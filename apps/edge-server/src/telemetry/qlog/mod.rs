//! qlog: sampling of connections, and their files.

pub mod file;
pub mod sampling;
