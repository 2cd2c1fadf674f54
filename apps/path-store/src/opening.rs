//! Opening of a store: roles, default capacity and errors that all backends share.

use std::io;
use std::path::PathBuf;

/// The most remote endpoints that a store keeps by default.
pub const CAPACITY_DEFAULT: usize = 100_000;

/// Purpose of opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Creates a missing store, and replaces a damaged one by an empty one.
    Server,

    /// Shows and edits a store: a missing or damaged one is an error.
    Tool,
}

/// Error of opening a store. The text is one line that names the store and the way out.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("the store has no name; pass a file's path, or memory:")]
    Empty,

    // An URL can hold a password: it is not repeated.
    #[error("{scheme}://…: {why}; expected {scheme}://[user:password@]host[:port][/database]")]
    RedisUrl { scheme: String, why: String },

    #[error("{name}: {why}; check the server and the URL, or name another store")]
    Redis { name: String, why: String },

    #[error("{scheme}: is not a kind of store; pass a file's path, memory:, or redis://host")]
    UnknownScheme { scheme: String },

    #[error("{}: the store is a directory; name a file in it, such as {}", .0.display(), .0.join("paths.db").display())]
    Directory(PathBuf),

    #[error("{}: the store is not a regular file; name another path", .0.display())]
    NotAFile(PathBuf),

    #[error("{}: the store's folder {} does not exist; create it, or name another path", .path.display(), .folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },

    #[error("{}: cannot write the store: {why}; make the file and its folder writable for this user, or name another path", .path.display())]
    Unwritable { path: PathBuf, why: String },

    #[error("{}: there is no store; a server creates it when it starts with this path", .0.display())]
    Missing(PathBuf),

    #[error("{}: the file is no store; name another path, or move the file away", .0.display())]
    NotAStore(PathBuf),

    #[error("{}: the file is another program's database; name another path", .0.display())]
    Foreign(PathBuf),

    #[error("{}: the store has schema {found}, this version knows {known}; run the newer version, or name another path", .path.display())]
    NewerSchema { path: PathBuf, found: i64, known: i64 },

    #[error("{}: the store is damaged ({why}); the next server that opens it quarantines it", .path.display())]
    Damaged { path: PathBuf, why: String },

    #[error("{}: another process keeps the store busy; stop that process, or try again", .0.display())]
    Busy(PathBuf),

    #[error("{}: the disk is full; make room on it, or name another path", .0.display())]
    DiskFull(PathBuf),

    #[error("{}: too many files are open; raise the limit of open files (ulimit -n)", .0.display())]
    Descriptors(PathBuf),

    #[error("{}: cannot use the store: {why}", .path.display())]
    Failed { path: PathBuf, why: String },

    #[error("cannot read the ID of this boot: {0}; mount /proc, or use memory:")]
    NoBootId(io::Error),
}

impl OpenError {
    /// Returns whether the store may be usable later under the same name, without a change of it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::DiskFull(_) | Self::Descriptors(_))
    }
}
