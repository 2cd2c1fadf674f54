//! File names of a database and of the files beside it.

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;

/// Appends `suffix` to the last component of `path`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
