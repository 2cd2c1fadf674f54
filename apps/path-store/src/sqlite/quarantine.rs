//! Quarantine of damaged databases: the latest few stay beside the store, for inspection.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::clocks::unix_ms;
use super::file_names::with_suffix;

/// How many databases stay in quarantine.
const QUARANTINED_MAX: usize = 3;

/// Part of their file names between that of the database and the time.
const INFIX: &str = ".corrupt-";

/// Suffixes of SQLite's files. The log is moved first: left behind, it would be replayed into
/// the next database.
const PARTS: [&str; 3] = ["-wal", "-shm", ""];

/// Moves the database at `path` into quarantine. Returns its new path.
///
/// # Errors
///
/// The folder cannot be written to.
pub fn quarantine(path: &Path) -> io::Result<PathBuf> {
    let mut quarantined = quarantined(path)?;
    quarantined.sort_unstable();
    for (_, oldest) in
        quarantined.iter().take((quarantined.len() + 1).saturating_sub(QUARANTINED_MAX))
    {
        for suffix in PARTS {
            // The store can go on even if this fails.
            let _ = std::fs::remove_file(with_suffix(oldest, suffix));
        }
    }

    // Later than all others, even in the same second or after the clock was set back.
    let seconds = unix_ms(quiche::clock::wall_now()) / 1000;
    let last = quarantined.last().map_or(0, |(seconds, _)| *seconds);
    let target = with_suffix(path, &format!("{INFIX}{}", seconds.max(last.saturating_add(1))));
    for suffix in PARTS {
        match std::fs::rename(with_suffix(path, suffix), with_suffix(&target, suffix)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => (),
        }
    }

    Ok(target)
}

/// Returns the databases in the quarantine of `path`, and their times in seconds since 1970.
fn quarantined(path: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = [name.as_encoded_bytes(), INFIX.as_bytes()].concat();
    let seconds = |name: OsString| -> Option<i64> {
        let digits = name.as_encoded_bytes().strip_prefix(&prefix[..])?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };

    let files = folder.read_dir()?.collect::<io::Result<Vec<_>>>()?;
    let quarantined =
        files.iter().filter_map(|file| Some((seconds(file.file_name())?, file.path())));
    Ok(quarantined.collect())
}
