//! Row of a remote endpoint: reading, checking and writing it.
//!
//! The claim on it is in another table, see `claim`.
//!
//! A row's key is a number, the beginning of a hash of its endpoint: the inner pages
//! of the B-tree hold numbers instead of rows, and are few enough to stay in memory.
//! The checksum covers the key and every column, so that a row never passes for that of
//! another endpoint, and no column can change alone.

use std::time::Duration;

use quiche::path_state::DecodeError;
use quiche::path_state::PathState;
use rusqlite::Connection;
use rusqlite::OptionalExtension;

use super::checksum::Checksum;
use super::claim;
use super::claim::Holder;
use super::clocks::from_micros;
use super::clocks::micros;
use super::clocks::unix_ms;
use super::clocks::Now;

/// The version of the schema below.
pub const SCHEMA_VERSION: i64 = 3;

/// The tables. Their comments are for those who open the file with sqlite3.
pub const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS path_state (
    key INTEGER PRIMARY KEY,        -- the first 8 bytes of the SHA-256 of the endpoint
    endpoint TEXT NOT NULL,         -- sender>prefix/length, #dscp if there is one
    state BLOB,                     -- PathState::to_bytes(); none during a hold-off
    observed_ms INTEGER NOT NULL,   -- last change, milliseconds since 1970
    expires_ms INTEGER NOT NULL,    -- when the row goes, milliseconds since 1970
    boot BLOB,                      -- the boot that the next belongs to
    hold_off_end_us INTEGER,        -- microseconds since that boot
    retreats INTEGER NOT NULL,      -- safe retreats in a row
    checksum INTEGER NOT NULL       -- CRC-32 of the other columns
) STRICT;
CREATE INDEX IF NOT EXISTS path_state_by_expiry ON path_state (expires_ms);
CREATE TABLE IF NOT EXISTS total (      -- what all processes counted
    name TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Reads one row, all columns by name.
pub const SELECT_ONE: &str = "
SELECT key, endpoint, state, observed_ms, expires_ms, boot, hold_off_end_us, retreats, checksum
FROM path_state WHERE key = ?1";

/// Reads one row and the claim on it with one statement.
const SELECT_WITH_CLAIM: &str = "
SELECT p.key, p.endpoint, p.state, p.observed_ms, p.expires_ms, p.boot, p.hold_off_end_us,
    p.retreats, p.checksum, c.key, c.boot, c.token, c.end_us, c.checksum
FROM path_state p LEFT JOIN claim c ON c.key = p.key WHERE p.key = ?1";

/// The first column of the claim.
const CLAIM_COLUMN: usize = 9;

const SELECT_ALL: &str = "
SELECT key, endpoint, state, observed_ms, expires_ms, boot, hold_off_end_us, retreats, checksum
FROM path_state ORDER BY endpoint";

// An update with the same expiry does not change the index.
const UPSERT: &str = "
INSERT INTO path_state VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (key) DO UPDATE SET
    endpoint = ?2, state = ?3, observed_ms = ?4, expires_ms = ?5, boot = ?6,
    hold_off_end_us = ?7, retreats = ?8, checksum = ?9";

/// An endpoint and its key in the tables. If two endpoints have the same key, the row is that
/// of the last to be recorded, and a miss for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a> {
    pub key: i64,
    pub endpoint: &'a str,
}

impl<'a> Id<'a> {
    pub fn of(endpoint: &'a str) -> Self {
        let hash = ring::digest::digest(&ring::digest::SHA256, endpoint.as_bytes());
        let first = hash.as_ref().first_chunk().expect("32 bytes");
        Id { key: i64::from_be_bytes(*first), endpoint }
    }
}

/// Parsed row, without what has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub state: Option<PathState>,

    pub retreats: u32,

    /// End of the hold-off, since boot.
    pub hold_off_end: Option<Duration>,

    pub observed_ms: i64,
    pub expires_ms: i64,
}

/// State of a stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRow {
    Missing,
    Row(Row),

    /// A newer version's record that has not expired: it stays as it is.
    Newer,
}

/// Reason to rewrite or delete a row on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    Expired,
    Damaged,
}

/// Result for a key without a row.
const MISSING: Loaded = Loaded { found: StoredRow::Missing, cleanup: None };

/// Result of [`load()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub found: StoredRow,
    pub cleanup: Option<Cleanup>,
}

/// Columns as they are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Columns<'a> {
    id: Id<'a>,
    state: Option<&'a [u8]>,
    observed_ms: i64,
    expires_ms: i64,
    boot: Option<&'a [u8]>,
    hold_off_end_us: Option<i64>,
    retreats: i64,
}

impl Row {
    /// Returns the row of an unknown endpoint.
    pub fn new() -> Self {
        Row { state: None, retreats: 0, hold_off_end: None, observed_ms: 0, expires_ms: 0 }
    }

    /// Returns whether the row has no content.
    pub fn is_empty(&self) -> bool {
        self.state.is_none() && self.retreats == 0
    }
}

/// Reads a row, without changing it.
pub fn load(conn: &Connection, id: Id, now: &Now) -> rusqlite::Result<Loaded> {
    let read = |row: &rusqlite::Row| Ok(read(row, id, now));
    let loaded = conn.prepare_cached(SELECT_ONE)?.query_row([id.key], read).optional()?;

    Ok(loaded.unwrap_or(MISSING))
}

/// Reads a row and the holder of the claim on it, without changing anything.
pub fn load_with_claim(conn: &Connection, id: Id, now: &Now) -> rusqlite::Result<(Loaded, Holder)> {
    let read = |row: &rusqlite::Row| Ok((read(row, id, now), claim::read(row, CLAIM_COLUMN, now)));
    let found = conn.prepare_cached(SELECT_WITH_CLAIM)?.query_row([id.key], read).optional()?;

    Ok(found.unwrap_or((MISSING, Holder::Nobody)))
}

/// Parses the row of an endpoint; a row of another endpoint with the same key is missing.
fn read(row: &rusqlite::Row, id: Id, now: &Now) -> Loaded {
    match read_columns(row) {
        Some(columns) if columns.id != id => MISSING,
        columns => interpret(columns.as_ref(), now),
    }
}

/// Visits every row in the order of endpoints. The endpoint is None if it cannot be read.
pub fn visit_all(
    conn: &Connection,
    now: &Now,
    visit: &mut dyn FnMut(i64, Option<&str>, Loaded),
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(SELECT_ALL)?;
    let mut rows = statement.query([])?;

    while let Some(row) = rows.next()? {
        let columns = read_columns(row);
        let endpoint = row.get_ref(1)?.as_str().ok();
        visit(row.get(0)?, endpoint, interpret(columns.as_ref(), now));
    }

    Ok(())
}

/// Writes the row, or deletes it if it has no content.
pub fn save(conn: &Connection, id: Id, row: &Row, now: &Now) -> rusqlite::Result<()> {
    if row.is_empty() {
        return delete(conn, id).map(drop);
    }

    let state = row.state.map(|state| state.to_bytes());
    let columns = Columns {
        id,
        state: state.as_ref().map(|state| &state[..]),
        observed_ms: row.observed_ms,
        expires_ms: row.expires_ms,
        boot: row.hold_off_end.map(|_| &now.boot_id[..]),
        hold_off_end_us: row.hold_off_end.map(micros),
        retreats: row.retreats.into(),
    };
    conn.prepare_cached(UPSERT)?.execute(rusqlite::params![
        id.key,
        id.endpoint,
        columns.state,
        columns.observed_ms,
        columns.expires_ms,
        columns.boot,
        columns.hold_off_end_us,
        columns.retreats,
        columns.checksum(),
    ])?;

    Ok(())
}

/// Deletes a row. Returns false if there was none.
pub fn delete(conn: &Connection, id: Id) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM path_state WHERE key = ?1";
    Ok(conn.prepare_cached(sql)?.execute([id.key])? > 0)
}

impl Columns<'_> {
    fn checksum(&self) -> u32 {
        let numbers = [
            Some(self.observed_ms),
            Some(self.expires_ms),
            self.hold_off_end_us,
            Some(self.retreats),
        ];
        let mut sum = Checksum::default();

        sum.add(Some(&self.id.key.to_be_bytes()));
        sum.add(Some(self.id.endpoint.as_bytes()));
        sum.add(self.state);
        sum.add(self.boot);
        for number in numbers {
            sum.add(number.map(i64::to_be_bytes).as_ref().map(|n| &n[..]));
        }

        sum.finish()
    }

    // If the clock was set back by more than the row's whole life, the row has expired: it
    // would outlive every other.
    fn is_expired(&self, now: &Now) -> bool {
        let now_ms = unix_ms(now.wall);
        let life_ms = self.expires_ms.saturating_sub(self.observed_ms);

        now_ms >= self.expires_ms || now_ms.saturating_add(life_ms) < self.observed_ms
    }
}

/// Reads the columns. Returns None if a type or the checksum is wrong.
fn read_columns<'a>(row: &'a rusqlite::Row) -> Option<Columns<'a>> {
    let value = |i: usize| row.get_ref(i).ok();
    let number = |i: usize| value(i)?.as_i64().ok();

    let columns = Columns {
        id: Id { key: number(0)?, endpoint: value(1)?.as_str().ok()? },
        state: value(2)?.as_blob_or_null().ok()?,
        observed_ms: number(3)?,
        expires_ms: number(4)?,
        boot: value(5)?.as_blob_or_null().ok()?,
        hold_off_end_us: value(6)?.as_i64_or_null().ok()?,
        retreats: number(7)?,
    };

    (number(8)? == i64::from(columns.checksum())).then_some(columns)
}

fn interpret(columns: Option<&Columns>, now: &Now) -> Loaded {
    let nothing = |cleanup| Loaded { found: StoredRow::Missing, cleanup: Some(cleanup) };
    let Some(columns) = columns else {
        return nothing(Cleanup::Damaged);
    };

    let state = match columns.state.map(PathState::from_bytes) {
        None => None,
        Some(Ok(state)) => Some(state),
        Some(Err(DecodeError::UnknownVersion(_))) if !columns.is_expired(now) => {
            return Loaded { found: StoredRow::Newer, cleanup: None };
        }
        Some(Err(DecodeError::UnknownVersion(_))) => return nothing(Cleanup::Expired),
        Some(Err(DecodeError::Malformed)) => return nothing(Cleanup::Damaged),
    };

    // RFC 9959, 3.2: delete saved parameters when their Lifetime has passed.
    let live_state = state.filter(|state| !state.is_expired(now.wall));
    let row = live_part(columns, live_state, now);
    // A hold-off does not depend on the wall clock.
    let has_content = live_state.is_some() || (row.retreats > 0 && !columns.is_expired(now));

    if row.hold_off_end.is_none() && !has_content {
        return nothing(Cleanup::Expired);
    }

    Loaded {
        found: StoredRow::Row(row),
        cleanup: (state.is_some() && live_state.is_none()).then_some(Cleanup::Expired),
    }
}

// A hold-off of another boot has no meaning in this one; the count of retreats does.
fn live_part(columns: &Columns, state: Option<PathState>, now: &Now) -> Row {
    let same_boot = columns.boot == Some(&now.boot_id[..]);
    let hold_off_end = columns.hold_off_end_us.map(from_micros);

    Row {
        state,
        retreats: u32::try_from(columns.retreats).unwrap_or(u32::MAX),
        hold_off_end: hold_off_end.filter(|&end| same_boot && now.since_boot < end),
        observed_ms: columns.observed_ms,
        expires_ms: columns.expires_ms,
    }
}
