//! qlog: sampling of connections, and their files.

pub mod budget;
pub mod file;
pub mod sampling;
