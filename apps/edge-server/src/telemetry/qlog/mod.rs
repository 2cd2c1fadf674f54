//! qlog: which connections have a file, and the file.

pub mod file;
pub mod sampling;
