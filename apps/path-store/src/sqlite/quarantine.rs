//! Quarantine of damaged databases: beside the store, the latest few of them.
//!
//! They are kept for whoever looks into what happened.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::clocks::unix_ms;
use super::file_names::with_suffix;

/// How many are kept.
const KEPT_MAX: usize = 3;

/// What their names have between the database's and the time.
const INFIX: &str = ".corrupt-";

/// What SQLite keeps beside a database, and the database itself. The log goes
/// first: left behind, it would be replayed into the next one.
const PARTS: [&str; 3] = ["-wal", "-shm", ""];

/// Moves the database at `path` out of the way. Returns where it is now.
///
/// # Errors
///
/// The folder cannot be written to.
pub fn quarantine(path: &Path) -> io::Result<PathBuf> {
    let mut kept = kept(path)?;
    kept.sort_unstable();
    for (_, oldest) in kept.iter().take((kept.len() + 1).saturating_sub(KEPT_MAX)) {
        for suffix in PARTS {
            // One that cannot be deleted is no reason to go without a store.
            let _ = std::fs::remove_file(with_suffix(oldest, suffix));
        }
    }

    // Later than all others, also in the same second or with a clock set back.
    let seconds = unix_ms(quiche::clock::wall_now()) / 1000;
    let last = kept.last().map_or(0, |(seconds, _)| *seconds);
    let target = with_suffix(path, &format!("{INFIX}{}", seconds.max(last.saturating_add(1))));
    for suffix in PARTS {
        match std::fs::rename(with_suffix(path, suffix), with_suffix(&target, suffix)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => (),
        }
    }

    Ok(target)
}

/// Returns the databases in the quarantine of `path`, and since when, in seconds since 1970.
fn kept(path: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = [name.as_encoded_bytes(), INFIX.as_bytes()].concat();
    let seconds = |name: OsString| -> Option<i64> {
        let digits = name.as_encoded_bytes().strip_prefix(&prefix[..])?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };

    let files = folder.read_dir()?.collect::<io::Result<Vec<_>>>()?;
    let kept = files.iter().filter_map(|file| Some((seconds(file.file_name())?, file.path())));
    Ok(kept.collect())
}
