//! Database file: opening it, telling damage from other errors, replacing a damaged one.
//!
//! Processes that open the database share a lock on a file beside it. A process that makes or
//! replaces it locks exclusively: SQLite waits for nobody while it turns a new file into one
//! with a write-ahead log, and nobody may open a file that is about to be quarantined.
//! Processes that have the database open notice by its inode that it was replaced.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::Connection;
use rusqlite::ErrorCode;
use rusqlite::OpenFlags;
use rusqlite::TransactionBehavior;
use rustix::fs::Access;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::claim;
use super::file_names::with_suffix;
use super::quarantine::quarantine;
use super::row;
use crate::opening::OpenError;
use crate::opening::Role;

/// "Path" in ASCII: distinguishes our databases from those of other programs.
const APPLICATION_ID: i64 = 0x5061_7468;

/// The tables of a store.
const TABLES: i64 = 3;

/// No future version will have a higher number: it is damage.
const SCHEMA_VERSION_MAX: i64 = 999;

/// How often, and how long apart, a transaction tries to start while other processes write:
/// 2 s in all. SQLite's own pauses grow to 100 ms, with which a process among busy ones can
/// miss every gap.
const BUSY_TRIES: i32 = 2000;
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// How often, and how long apart, opening tries the lock: 10 s in all.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The longest check of a database that is opened, and how many of its steps it takes between
/// two looks at the clock.
const CHECK_MAX: Duration = Duration::from_secs(2);
const CHECK_STEPS: std::ffi::c_int = 16;

/// The format's version of files that have a write-ahead log, the newest there is.
const WAL_VERSION: u8 = 2;

/// Size to which a checkpoint truncates the write-ahead log.
const JOURNAL_BYTES_MAX: i64 = 4 << 20;

/// Page size of a new database. Keys are random: a request reads, and writes, one page for a
/// hundred bytes, so that half of SQLite's default size is faster.
const PAGE_BYTES: i64 = 2048;

/// Size of the page cache, which grows as pages are read: the inner pages of 10 million entries
/// fit.
const CACHE_KIB_MAX: i64 = 32 << 10;

/// Identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    conn: Connection,
    id: FileId,
    damaged: bool,
}

/// Error of opening a file, by how the caller handles it.
enum OpenFailure {
    /// The content is damaged.
    Damaged(String),

    /// Anything else.
    Error(OpenError),
}

impl Database {
    /// Opens the database at `path`. For a server, creates a missing one and quarantines a
    /// damaged one; the second value is the warning to log then.
    pub fn open(path: &Path, role: Role) -> Result<(Self, Option<String>), OpenError> {
        check_path(path, role)?;
        let lock_path = with_suffix(path, ".lock");
        let has_lock_file = lock_path.exists();
        let first = lock_to_open(path)?;
        match open_locked(path, role) {
            Ok(database) => return Ok((database, None)),
            Err(OpenFailure::Error(error @ OpenError::Foreign(_))) if !has_lock_file => {
                // Nothing of ours stays beside another program's file.
                let _ = std::fs::remove_file(lock_path);
                return Err(error);
            }
            Err(OpenFailure::Error(error)) => return Err(error),
            Err(OpenFailure::Damaged(why)) if role == Role::Tool => {
                return Err(OpenError::Damaged { path: path.to_path_buf(), why });
            }
            Err(OpenFailure::Damaged(_)) => drop(first),
        }

        // Between the locks another process may have replaced it.
        let _exclusive = lock(path, FlockOperation::NonBlockingLockExclusive)?;
        match open_locked(path, role) {
            Ok(database) => Ok((database, None)),
            Err(OpenFailure::Error(error)) => Err(error),
            Err(OpenFailure::Damaged(why)) => replace_locked(path, &why),
        }
    }

    /// Quarantines this damaged database at `path`, unless another process did, and opens the
    /// database in its place.
    pub fn replace(mut self, path: &Path, why: &str) -> Result<(Self, Option<String>), OpenError> {
        let damaged = self.id;
        self.damaged = true;
        let lock = lock(path, FlockOperation::NonBlockingLockExclusive)?;
        drop(self);

        if file_id(path).ok() == Some(damaged) {
            return replace_locked(path, why);
        }

        drop(lock);
        Self::open(path, Role::Server)
    }

    /// Returns whether the path leads to another file or none.
    pub fn is_replaced(&self, path: &Path) -> bool {
        file_id(path).ok() != Some(self.id)
    }

    pub fn conn(&self) -> &Connection {
        &self.conn
    }
}

impl Drop for Database {
    // The last connection that closes a database checkpoints its log and deletes the log by
    // name. If the file is in quarantine, that name is another database's.
    fn drop(&mut self) {
        let path = self.conn.path().map(PathBuf::from);
        let ours = path.is_some_and(|path| !self.is_replaced(&path));

        if ours && !self.damaged {
            let _ = keep_log_on_close(&self.conn, false);
        }
    }
}

fn keep_log_on_close(conn: &Connection, keep: bool) -> rusqlite::Result<bool> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
}

/// Returns whether the error means that the file is damaged.
pub fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Returns the path without links and relative parts, so that a rename acts on the file
/// itself and later changes of the working directory do not matter.
pub fn canonical(path: &Path) -> Result<PathBuf, OpenError> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }

    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(OpenError::Directory(path.to_path_buf())),
    };
    let name = path.file_name().ok_or_else(|| OpenError::Directory(path.to_path_buf()))?;

    match folder.canonicalize() {
        Ok(folder) => Ok(folder.join(name)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::NoFolder { path: path.to_path_buf(), folder: folder.to_path_buf() })
        }
        Err(e) => Err(unwritable(path, &e)),
    }
}

fn unwritable(path: &Path, why: &dyn std::fmt::Display) -> OpenError {
    OpenError::Unwritable { path: path.to_path_buf(), why: why.to_string() }
}

pub fn file_id(path: &Path) -> io::Result<FileId> {
    let metadata = path.metadata()?;
    Ok(FileId { device: metadata.dev(), inode: metadata.ino() })
}

/// Checks whether a store can be at this path.
pub fn check_path(path: &Path, role: Role) -> Result<(), OpenError> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(OpenError::Directory(path.to_path_buf())),
        Ok(metadata) if !metadata.is_file() => Err(OpenError::NotAFile(path.to_path_buf())),
        Ok(_) if !may_be_a_database(path) => Err(OpenError::NotAStore(path.to_path_buf())),
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound && role == Role::Server => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::Missing(path.to_path_buf()))
        }
        Err(e) => Err(unwritable(path, &e)),
    }
}

/// Checks whether this user may write the store and what SQLite keeps beside it, as far as can be
/// told without writing.
pub fn check_writable(path: &Path) -> Result<(), OpenError> {
    let access = |path: &Path, access| match rustix::fs::access(path, access) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    };
    let folder = path.parent().unwrap_or(path);
    let files = ["", ".lock", "-wal", "-shm"].map(|suffix| with_suffix(path, suffix));
    access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .and_then(|()| files.iter().try_for_each(|file| access(file, Access::WRITE_OK)))
        .map_err(|e| unwritable(path, &e))
}

/// Returns whether the file is empty or begins as a database does, perhaps a damaged one: with
/// some bytes changed, or with the zeros that a crash of the machine can leave. Anything else,
/// such as a configuration, is not ours to move away.
fn may_be_a_database(path: &Path) -> bool {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";

    let mut header = Vec::with_capacity(MAGIC.len());
    let read =
        File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut header));
    let same = header.iter().zip(MAGIC).filter(|(byte, expected)| byte == expected).count();
    // An error of reading is reported by what needs the file.
    read.is_err() || same >= MAGIC.len() / 2 || header.iter().all(|byte| *byte == 0)
}

/// Takes the lock under which the database at `path` is opened, or made if nobody has.
fn lock_to_open(path: &Path) -> Result<File, OpenError> {
    if write_version(path) == Some(WAL_VERSION) {
        return lock(path, FlockOperation::NonBlockingLockShared);
    }

    lock(path, FlockOperation::NonBlockingLockExclusive)
}

/// Takes a lock, which ends when the file is dropped or the process dies.
fn lock(path: &Path, how: FlockOperation) -> Result<File, OpenError> {
    let name = with_suffix(path, ".lock");
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&name).map_err(|e| {
            match Errno::from_io_error(&e) {
                Some(Errno::MFILE | Errno::NFILE) => OpenError::Descriptors(path.to_path_buf()),
                _ => unwritable(path, &e),
            }
        })?;

    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(&file, how) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(Errno::INTR) => (),
            Err(e) => return Err(unwritable(path, &e)),
        }
    }

    Err(OpenError::Busy(path.to_path_buf()))
}

fn open_locked(path: &Path, role: Role) -> Result<Database, OpenFailure> {
    let classify = |e| classify(path, &e);
    let create = match role {
        Role::Server => OpenFlags::SQLITE_OPEN_CREATE,
        Role::Tool => OpenFlags::empty(),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;

    let conn = Connection::open_with_flags(path, flags).map_err(classify)?;
    conn.busy_handler(Some(wait_while_busy)).map_err(classify)?;
    keep_log_on_close(&conn, true).map_err(classify)?;
    check_owner(&conn, path)?;

    if let Some(damage) = check(&conn, CHECK_MAX).map_err(classify)? {
        return Err(OpenFailure::Damaged(damage));
    }

    prepare_schema(&conn).map_err(classify)?;
    check_columns(&conn).map_err(classify)?;
    let id = file_id(path).map_err(|e| OpenFailure::Error(unwritable(path, &e)))?;

    Ok(Database { conn, id, damaged: false })
}

/// Returns the damage in the first pages, as many as it can read within the limit: a server
/// with a large store does not wait for all of them. The first request that meets damage in
/// the others finds it.
fn check(conn: &Connection, limit: Duration) -> rusqlite::Result<Option<String>> {
    let begun = quiche::clock::now();
    let is_over = move || quiche::clock::now().duration_since(begun) >= limit;
    conn.progress_handler(CHECK_STEPS, Some(is_over))?;
    let verdict = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    conn.progress_handler(0, None::<fn() -> bool>)?;

    match verdict {
        Ok(verdict) if verdict == "ok" => Ok(None),
        Ok(damage) => Ok(Some(damage.replace('\n', " "))),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

fn wait_while_busy(tries: i32) -> bool {
    std::thread::sleep(BUSY_PAUSE);
    tries < BUSY_TRIES
}

fn classify(path: &Path, error: &rusqlite::Error) -> OpenFailure {
    let path = path.to_path_buf();
    let why = error.to_string().replace('\n', " ");

    match error.sqlite_error_code() {
        _ if is_damage(error) => OpenFailure::Damaged(why),
        // SQLITE_ERROR: our statements are valid, so that the schema is damaged.
        Some(ErrorCode::Unknown) => OpenFailure::Damaged(why),
        Some(ErrorCode::ReadOnly) if is_marked_read_only(&path) => OpenFailure::Damaged(why),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            OpenFailure::Error(OpenError::Busy(path))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            OpenFailure::Error(OpenError::Unwritable { path, why })
        }
        Some(ErrorCode::DiskFull) => OpenFailure::Error(OpenError::DiskFull(path)),
        _ => OpenFailure::Error(OpenError::Failed { path, why }),
    }
}

/// Returns whether the file itself, not its folder or disk, forbids writing. Our files never
/// do.
fn is_marked_read_only(path: &Path) -> bool {
    write_version(path).is_some_and(|version| version > WAL_VERSION)
}

/// Returns the version of the file's format that a writer must know, from its header.
fn write_version(path: &Path) -> Option<u8> {
    const AT: usize = 18;

    let mut header = [0; AT + 1];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    Some(header[AT])
}

/// Checks in a transaction whether the schema is still ours. A newer version may have
/// changed it meanwhile, even if our statements would work.
///
/// # Errors
///
/// It is not.
pub fn check_schema(conn: &Connection) -> rusqlite::Result<()> {
    let sql = "PRAGMA user_version";
    let version: i64 = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    match version {
        row::SCHEMA_VERSION => Ok(()),
        _ => {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_SCHEMA);
            let why = format!("the store has schema {version} now");
            Err(rusqlite::Error::SqliteFailure(code, Some(why)))
        }
    }
}

/// Refuses the database of another program or of a newer version.
fn check_owner(conn: &Connection, path: &Path) -> Result<(), OpenFailure> {
    let number = |sql: &str| -> Result<i64, OpenFailure> {
        conn.query_row(sql, [], |row| row.get(0)).map_err(|e| classify(path, &e))
    };
    let application_id = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    let ours = number(
        "SELECT count(*) FROM sqlite_schema WHERE name IN ('path_state', 'claim', 'total')",
    )?;
    let path = path.to_path_buf();

    // If it has all of our tables, its number is damaged.
    if application_id != APPLICATION_ID && ours < TABLES {
        return match (application_id, version, objects) {
            (0, 0, 0) => Ok(()),
            _ => Err(OpenFailure::Error(OpenError::Foreign(path))),
        };
    }

    match version {
        0..=row::SCHEMA_VERSION => Ok(()),
        _ if version <= SCHEMA_VERSION_MAX && version > 0 => {
            Err(OpenFailure::Error(OpenError::NewerSchema {
                path,
                found: version,
                known: row::SCHEMA_VERSION,
            }))
        }
        _ => Err(OpenFailure::Damaged(format!("its schema has the number {version}"))),
    }
}

// The transaction also shows whether the file can be written.
fn prepare_schema(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "journal_size_limit", JOURNAL_BYTES_MAX)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB_MAX)?;

    let transaction = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    // Records of older versions are dropped: they would expire within hours.
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if (1..row::SCHEMA_VERSION).contains(&version) {
        conn.execute_batch("DROP TABLE IF EXISTS path_state; DROP TABLE IF EXISTS claim")?;
    }
    conn.execute_batch(row::SCHEMA)?;
    conn.execute_batch(claim::SCHEMA)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", row::SCHEMA_VERSION)?;
    transaction.commit()
}

// Damage can turn the stored text of the schema into another valid one.
fn check_columns(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare(row::SELECT_ONE)?;
    conn.prepare(claim::SELECT_ONE).map(drop)
}

fn replace_locked(path: &Path, why: &str) -> Result<(Database, Option<String>), OpenError> {
    let quarantined = quarantine(path).map_err(|e| unwritable(path, &e))?;

    match open_locked(path, Role::Server) {
        Ok(database) => {
            let warning = format!(
                "{}: the store was damaged ({why}); it is kept as {}, and an empty one is in its place",
                path.display(),
                quarantined.display()
            );
            Ok((database, Some(warning)))
        }
        Err(OpenFailure::Error(error)) => Err(error),
        Err(OpenFailure::Damaged(why)) => Err(OpenError::Failed {
            path: path.to_path_buf(),
            why: format!("damaged again: {why}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn check_of_large_database_ends_in_time() {
        let conn = Connection::open_in_memory().unwrap();
        let fill = "CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB); CREATE INDEX i ON t (b);
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
            INSERT INTO t SELECT n, zeroblob(100) FROM n;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'i';
            PRAGMA writable_schema = RESET;";
        conn.execute_batch(fill).unwrap();

        let damage = check(&conn, Duration::MAX).unwrap();
        assert!(damage.is_some_and(|damage| !damage.contains('\n')));
        assert_eq!(check(&conn, Duration::ZERO).unwrap(), None);
        let rows: i64 =
            conn.query_row("SELECT count(*) FROM t NOT INDEXED", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 5000);
    }

    #[test]
    fn error_of_full_disk_names_the_way_out() {
        let full = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
        let OpenFailure::Error(error) = classify(Path::new("paths.db"), &full) else {
            panic!("a full disk is no damage")
        };
        let line = error.to_string();
        assert!(line.contains("paths.db: the disk is full; make room"), "{line}");
    }
}
