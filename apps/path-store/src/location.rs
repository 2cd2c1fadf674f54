//! From the text behind `--store` to a store.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use quiche::path_state::MemoryStore;

use crate::backend::Backend;
use crate::boot_clock::SystemBootClock;
use crate::redis::RedisOptions;
use crate::redis::RedisStore;
use crate::redis::RedisUrl;
use crate::sqlite::SqliteOptions;
use crate::sqlite::SqliteStore;

/// The most remote endpoints a store keeps, unless told otherwise.
pub const CAPACITY_DEFAULT: usize = 100_000;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To work with: creates the store if it is missing, and replaces a damaged
    /// one by an empty one.
    Server,

    /// To look into: a missing or damaged store is an error.
    Tool,
}

/// Why a store cannot be opened. The text is one line that names the store and
/// the way out.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("the store has no name; pass a file's path, or memory:")]
    Empty,

    // An URL can hold a password: it is not repeated.
    #[error("{scheme}://…: {why}; expected {scheme}://[user:password@]host[:port][/database]")]
    RedisUrl { scheme: String, why: String },

    #[error("{name}: {why}; look at the server and at the URL, or name another store")]
    Redis { name: String, why: String },

    #[error("{scheme}: is no kind of store; pass a file's path, memory:, or redis://host")]
    UnknownScheme { scheme: String },

    #[error("{}: the store is a directory; name a file in it, such as {}", .0.display(), .0.join("paths.db").display())]
    Directory(PathBuf),

    #[error("{}: the store is not a regular file; name another path", .0.display())]
    NotAFile(PathBuf),

    #[error("{}: the store's folder {} does not exist; create it, or name another path", .path.display(), .folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },

    #[error("{}: cannot write the store: {why}; make the file and its folder writable for this user, or name another path", .path.display())]
    Unwritable { path: PathBuf, why: String },

    #[error("{}: there is no store; a server makes it when it is started with this path", .0.display())]
    Missing(PathBuf),

    #[error("{}: the file is another program's database; name another path", .0.display())]
    Foreign(PathBuf),

    #[error("{}: the store has schema {found}, this version knows {known}; run the newer version, or name another path", .path.display())]
    NewerSchema { path: PathBuf, found: i64, known: i64 },

    #[error("{}: the store is damaged ({why}); the next server that opens it sets it aside", .path.display())]
    Damaged { path: PathBuf, why: String },

    #[error("{}: another process keeps the store busy; stop that process, or try again", .0.display())]
    Busy(PathBuf),

    #[error("{}: the disk is full; make room on it, or name another path", .0.display())]
    DiskFull(PathBuf),

    #[error("{}: cannot use the store: {why}", .path.display())]
    Failed { path: PathBuf, why: String },

    #[error("cannot tell one boot from another: {0}; mount /proc, or use memory:")]
    NoBootId(io::Error),
}

/// What the text behind `--store` means.
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
/// It keeps `capacity` remote endpoints at most; all who share it should agree.
///
/// Blocks on the disk and the network: call it before the event loop runs.
///
/// # Errors
///
/// One line for people, see [`OpenError`].
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

/// Whether `location` can be the name of a store, as far as can be told without opening
/// it: nothing is created, and no server asked.
///
/// # Errors
///
/// One line for people, see [`OpenError`].
pub fn check(location: &str) -> Result<(), OpenError> {
    match parse(location)? {
        Location::Memory | Location::Redis(_) => Ok(()),
        Location::File(path) => SqliteStore::check(&path),
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
    fn a_location_is_a_path_unless_it_has_a_scheme() {
        for path in ["paths.db", "/var/lib/edge/paths.db", "a:b", "C:/x", "memory"] {
            assert_eq!(parse(path).unwrap(), Location::File(path.into()));
        }
        assert_eq!(parse("memory:").unwrap(), Location::Memory);
    }

    #[test]
    fn a_check_opens_and_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("file"), "no database").unwrap();
        for good in ["memory:", "redis://127.0.0.1:1", &path("new.db"), &path("file")] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "ftp://x", "redis://", &path(""), &path("none/x.db"), &path("file/x.db")] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unusable_location_is_refused_without_repeating_a_password() {
        for (location, expected) in [
            ("", "no name"),
            ("redis://:secret@", "a host is missing"),
            ("redis://:secret@cache/secret", "number of a database"),
            ("rediss://:secret@one,two", "write +cluster"),
            ("valkey+cluster://:secret@one,,two", "a host is missing"),
            ("redis://:secret@cache?secret=1", "ca=FILE"),
            ("http://secret", "no kind of store"),
        ] {
            let error = parse(location).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
        }
    }
}
