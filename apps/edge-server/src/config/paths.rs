//! Paths that the server writes to: each must be its own, and none should be served.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use log::warn;

use crate::config::preflight::resolved;

/// OptionValues that name what the server writes to, and what it reads.
const WRITTEN: [&str; 6] = ["admin", "takeover", "store", "access-log", "qlog-dir", "acme-dir"];
const READ: [&str; 9] = [
    "config",
    "secrets",
    "hash-keys",
    "cert",
    "key",
    "client-ca",
    "ech-keys",
    "acme-ca",
    "acme-external-account",
];

/// Those of them whose content is nobody else's.
const PRIVATE: [&str; 9] = [
    "store",
    "access-log",
    "qlog-dir",
    "secrets",
    "hash-keys",
    "key",
    "ech-keys",
    "acme-dir",
    "acme-external-account",
];

/// Values of options, by name.
type OptionValues = BTreeMap<String, Vec<OsString>>;

/// Two options whose paths share a file.
#[derive(Debug)]
pub struct Collision {
    pub option: &'static str,
    other: &'static str,
    is_same_path: bool,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, other, is_same_path } = self;
        let what = if *is_same_path { "are the same path" } else { "share a file" };
        write!(f, "--{other} and --{option} {what}; name two")
    }
}

/// Value of an option.
#[derive(Debug)]
struct NamedPath {
    option: &'static str,
    path: PathBuf,
}

impl NamedPath {
    fn of<'a>(
        options: &'a OptionValues,
        option: &'static str,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let is_file = |value: &&OsString| {
            *value != "-" && !value.as_bytes().windows(3).any(|part| part == b"://")
        };
        let values = options.get(option).into_iter().flatten().filter(is_file);
        values.map(move |value| Self { option, path: resolved(Path::new(value)) })
    }

    /// Returns whether a file of the other one is at the path of this, or would be.
    fn collides_with(&self, other: &Self) -> bool {
        self.path == other.path || is_same_file(&self.path, &other.path) || other.writes(&self.path)
    }

    /// Returns whether the server writes to `path`, beside the one that the option names.
    fn writes(&self, path: &Path) -> bool {
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        let other = path.file_name().unwrap_or_default().as_bytes();
        let is_beside = path.parent() == self.path.parent();
        match other.strip_prefix(name).filter(|_| is_beside) {
            None => false,
            Some(suffix) if self.option == "store" => {
                [&b".lock"[..], b"-wal", b"-shm"].contains(&suffix)
            }
            // The sockets of servers that drain.
            Some(suffix) if self.option == "admin" => suffix
                .strip_prefix(b".")
                .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit)),
            Some(_) => false,
        }
    }
}

/// Checks that nothing else is at a path to which the server writes.
///
/// # Errors
///
/// The first two options that share a file.
pub fn check(options: &OptionValues) -> Result<(), Collision> {
    let named = |option: &&'static str| NamedPath::of(options, option);
    let written: Vec<_> = WRITTEN.iter().flat_map(named).collect();
    let read: Vec<_> = READ.iter().flat_map(named).collect();
    for (index, one) in written.iter().enumerate() {
        let mut others = written[..index].iter().chain(&read);
        let collides = |other: &&NamedPath| one.collides_with(other) || other.collides_with(one);
        if let Some(other) = others.find(collides) {
            let is_same_path = one.path == other.path;
            return Err(Collision { option: one.option, other: other.option, is_same_path });
        }
    }
    Ok(())
}

/// Warns of private files that clients could download from one of the folders `roots`.
pub fn warn_of_served_files<'a>(options: &OptionValues, roots: impl Iterator<Item = &'a PathBuf>) {
    let roots: Vec<_> = roots.map(|root| resolved(root)).collect();
    for option in PRIVATE {
        let mut named = NamedPath::of(options, option);
        let root = named.find_map(|named| roots.iter().find(|root| named.path.starts_with(root)));
        if let Some(root) = root {
            warn!(
                "--{option} is in {}, which clients can download from; move it elsewhere",
                root.display()
            );
        }
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|identity_of_one| identity(other) == Some(identity_of_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(option: &'static str, path: &str) -> NamedPath {
        NamedPath { option, path: path.into() }
    }

    #[test]
    fn files_beside_a_store_and_an_admin_socket_are_taken() {
        for (option, path, other, expected) in [
            ("store", "/a/paths.db", "/a/paths.db-wal", true),
            ("store", "/a/paths.db", "/a/paths.db.lock", true),
            ("store", "/a/paths.db", "/b/paths.db-wal", false),
            ("store", "/a/paths.db", "/a/paths.db2", false),
            ("access-log", "/a/log", "/a/log-wal", false),
            ("admin", "/a/admin.sock", "/a/admin.sock.0", true),
            ("admin", "/a/admin.sock", "/a/admin.sock.17", true),
            ("admin", "/a/admin.sock", "/a/admin.sock.", false),
            ("admin", "/a/admin.sock", "/a/admin.sock.1x", false),
            ("takeover", "/a/sock", "/a/sock.0", false),
        ] {
            let other = named("access-log", other);
            assert_eq!(other.collides_with(&named(option, path)), expected, "{path} {other:?}");
        }
    }
}
