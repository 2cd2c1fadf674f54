//! Paths that the server writes to: nothing else is there, and none should be served.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use log::warn;

use crate::config::file::ConfigFile;
use crate::config::preflight::resolved;

/// OptionValues that name what the server writes to, and what it reads.
const WRITTEN: [&str; 7] =
    ["admin", "takeover", "store", "access-log", "qlog-dir", "acme-dir", "cache-dir"];
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
const PRIVATE: [&str; 11] = [
    "config",
    "store",
    "access-log",
    "qlog-dir",
    "secrets",
    "hash-keys",
    "key",
    "ech-keys",
    "acme-dir",
    "cache-dir",
    "acme-external-account",
];

/// Keys of tables that name such files.
const PRIVATE_OF_TABLES: [&str; 3] = ["key", "basic-auth", "signed-url"];

/// Values of options, by name.
pub type OptionValues = BTreeMap<String, Vec<OsString>>;

/// Option that names what the server writes to, and what else is there.
#[derive(Debug)]
pub struct Collision {
    pub option: &'static str,
    other: String,
    is_same_path: bool,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, other, is_same_path } = self;
        let what = if *is_same_path { "are the same path" } else { "share a file" };
        write!(f, "{other} and --{option} {what}; name two")
    }
}

/// Value of an option, or of a key of a table.
#[derive(Debug)]
struct NamedPath {
    option: &'static str,

    /// The table, if it is a key's.
    table: Option<String>,
    path: PathBuf,
}

impl fmt::Display for NamedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(f, "{} of {table}", self.option),
            None => write!(f, "--{}", self.option),
        }
    }
}

impl NamedPath {
    /// Returns the files that tables name.
    fn of_tables(file: &ConfigFile) -> impl Iterator<Item = Self> + '_ {
        let of_hosts = file.hosts.iter().flat_map(|host| {
            host.files().map(|(key, path)| Self {
                option: key,
                table: Some(format!("[[host]] {}", host.first_name())),
                path: resolved(path),
            })
        });
        let of_quic_lb = file.quic_lb.iter().filter_map(|config| {
            Some(Self {
                option: "key",
                table: Some("[[quic-lb]]".to_owned()),
                path: resolved(config.key.as_ref()?),
            })
        });
        of_hosts.chain(of_quic_lb)
    }

    fn of<'a>(
        options: &'a OptionValues,
        option: &'static str,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let is_file = |value: &&OsString| {
            *value != "-" && !value.as_bytes().windows(3).any(|part| part == b"://")
        };
        let values = options.get(option).into_iter().flatten().filter(is_file);
        values.map(move |value| Self { option, table: None, path: resolved(Path::new(value)) })
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
            Some(_) if self.table.is_some() => false,
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

/// Checks that nothing else is at a path to which the server writes, as options of its start say: no
/// other one, and no file that it reads, as options and tables say now.
///
/// # Errors
///
/// The first option whose path is another's, too.
pub fn check(
    started: &OptionValues,
    options: &OptionValues,
    file: &ConfigFile,
) -> Result<(), Collision> {
    let written: Vec<_> =
        WRITTEN.iter().flat_map(|option| NamedPath::of(started, option)).collect();
    let read = READ.iter().flat_map(|option| NamedPath::of(options, option));
    let read: Vec<_> = read.chain(NamedPath::of_tables(file)).collect();
    for (index, one) in written.iter().enumerate() {
        let mut others = written[..index].iter().chain(&read);
        let collides = |other: &&NamedPath| one.collides_with(other) || other.collides_with(one);
        if let Some(other) = others.find(collides) {
            let is_same_path = one.path == other.path;
            return Err(Collision { option: one.option, other: other.to_string(), is_same_path });
        }
    }
    Ok(())
}

/// Warns of private files that clients could download from one of the folders `roots`.
pub fn warn_of_served_files<'a>(
    options: &OptionValues,
    file: &ConfigFile,
    roots: impl Iterator<Item = &'a PathBuf>,
) {
    let roots: Vec<_> = roots.map(|root| resolved(root)).collect();
    let of_options = PRIVATE.iter().flat_map(|option| NamedPath::of(options, option));
    let of_tables =
        NamedPath::of_tables(file).filter(|named| PRIVATE_OF_TABLES.contains(&named.option));
    let mut warned = Vec::new();
    for named in of_options.chain(of_tables) {
        let root = roots.iter().find(|root| named.path.starts_with(root));
        let name = named.to_string();
        if let Some(root) = root.filter(|_| !warned.contains(&name)) {
            warn!(
                "{name} is in {}, which clients can download from; move it elsewhere",
                root.display()
            );
            warned.push(name);
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
        NamedPath { option, table: None, path: path.into() }
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

    #[test]
    fn file_that_the_server_reads_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        let toml = "[[host]]\nnames = ['a']\ncert = ['c1', 'c2']\nkey = ['k1', 'k2']\n\
                    access = [{ basic-auth = 'users' }, { signed-url = 'signers' }]\n";
        let toml = format!(
            "{toml}[[quic-lb]]\nconfig-id = 0\nserver-id = '01'\nnonce-length = 8\nkey = 'lb'"
        );
        std::fs::write(&file, toml).unwrap();
        let file = ConfigFile::read(&file).unwrap();
        let values = |pairs: &[(&str, &str)]| -> OptionValues {
            pairs.iter().map(|(name, value)| (name.to_string(), vec![value.into()])).collect()
        };
        let read = values(&[
            ("cert", "c"),
            ("key", "k"),
            ("client-ca", "ca"),
            ("secrets", "s"),
            ("hash-keys", "h"),
            ("acme-ca", "aca"),
            ("acme-external-account", "aea"),
        ]);
        for written in WRITTEN {
            for (path, other) in [
                ("c", "--cert"),
                ("./k", "--key"),
                ("ca", "--client-ca"),
                ("s", "--secrets"),
                ("h", "--hash-keys"),
                ("aca", "--acme-ca"),
                ("aea", "--acme-external-account"),
                ("c2", "cert of [[host]] a"),
                ("./k2", "key of [[host]] a"),
                ("users", "basic-auth of [[host]] a"),
                ("signers", "signed-url of [[host]] a"),
                ("lb", "key of [[quic-lb]]"),
            ] {
                let error = check(&values(&[(written, path)]), &read, &file).unwrap_err();
                let expected = format!("{other} and --{written} are the same path; name two");
                assert_eq!(error.to_string(), expected);
            }
            assert!(check(&values(&[(written, "other")]), &read, &file).is_ok(), "{written}");
        }
    }
}
