//! Location of a store: from the value of `--store` to a backend.

use std::path::Path;
use std::path::PathBuf;

use quiche::path_state::MemoryStore;

use crate::backend::Backend;
use crate::boot_clock::SystemBootClock;
use crate::opening::OpenError;
use crate::opening::Role;
use crate::redis::RedisOptions;
use crate::redis::RedisStore;
use crate::redis::RedisUrl;
use crate::sqlite::SqliteOptions;
use crate::sqlite::SqliteStore;

/// Parsed value of `--store`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Location {
    Memory,
    File(PathBuf),
    Redis(RedisUrl),
}

fn parse(location: &str) -> Result<Location, OpenError> {
    match location {
        "" => return Err(OpenError::Empty),
        "memory:" => return Ok(Location::Memory),
        _ => (),
    }

    let Some((scheme, _)) = location.split_once("://") else {
        return Ok(Location::File(PathBuf::from(location)));
    };

    match RedisUrl::parse(location) {
        Some(url) => url.map(Location::Redis),
        None => Err(OpenError::UnknownScheme { scheme: scheme.to_string() }),
    }
}

/// Opens the store that `location` names: a path is an SQLite database on disk,
/// shared by processes; `memory:` is this process's own; `redis://` is a server
/// or cluster, shared by machines.
///
/// It keeps at most `capacity` remote endpoints; all processes that share it should agree.
///
/// Blocks on the disk and the network: call it before the event loop runs.
///
/// # Errors
///
/// One human-readable line, see [`OpenError`].
pub fn open(location: &str, role: Role, capacity: usize) -> Result<Box<dyn Backend>, OpenError> {
    match parse(location)? {
        Location::Memory => Ok(Box::new(MemoryStore::new(capacity))),
        Location::File(path) => Ok(Box::new(open_file(&path, role, capacity)?)),
        Location::Redis(url) => {
            let options = RedisOptions { capacity, ..RedisOptions::default() };
            Ok(Box::new(RedisStore::open(&url, role, options)?))
        }
    }
}

/// Checks whether `location` can be the name of a store, without opening it: creates
/// nothing, and asks no server.
///
/// # Errors
///
/// One human-readable line, see [`OpenError`].
pub fn check(location: &str) -> Result<(), OpenError> {
    match parse(location)? {
        Location::Memory | Location::Redis(_) => Ok(()),
        Location::File(path) => {
            SystemBootClock::new().map_err(OpenError::NoBootId)?;
            SqliteStore::check(&path)
        }
    }
}

fn open_file(path: &Path, role: Role, capacity: usize) -> Result<SqliteStore, OpenError> {
    let clock = SystemBootClock::new().map_err(OpenError::NoBootId)?;
    SqliteStore::open(path, role, SqliteOptions { capacity }, Box::new(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_without_scheme_is_a_path() {
        for path in ["paths.db", "/var/lib/edge/paths.db", "a:b", "C:/x", "memory"] {
            assert_eq!(parse(path).unwrap(), Location::File(path.into()));
        }
        assert_eq!(parse("memory:").unwrap(), Location::Memory);
    }

    #[test]
    fn check_opens_and_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("other"), "no database").unwrap();
        std::fs::write(path("file"), "").unwrap();
        for good in ["memory:", "redis://127.0.0.1:1", &path("new.db"), &path("file")] {
            assert!(check(good).is_ok(), "{good}");
        }
        let places = ["", "none/x.db", "file/x.db", "other"].map(path);
        for bad in ["", "ftp://x", "redis://"].into_iter().chain(places.iter().map(|p| &p[..])) {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn bad_location_is_refused_without_its_password() {
        for (location, expected) in [
            ("", "no name"),
            ("redis://:secret@", "a host is missing"),
            ("redis://:secret@cache/secret", "number of a database"),
            ("rediss://:secret@one,two", "write +cluster"),
            ("valkey+cluster://:secret@one,,two", "a host is missing"),
            ("redis://:secret@cache?secret=1", "ca=FILE"),
            ("http://secret", "not a kind of store"),
        ] {
            let error = parse(location).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
        }
    }
}
