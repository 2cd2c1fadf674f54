//! File names of a database and of what lies beside it.

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;

/// Returns `path` with `suffix` behind its last component.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
