//! What is kept of one remote endpoint: reading, checking and writing its row.
//! Who has claimed the set is in another table, see `claim`.
//!
//! The checksum covers the key and every column, so that a row never passes for
//! another's and no column can change alone.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use quiche::path_state::DecodeError;
use quiche::path_state::PathState;
use rusqlite::types::FromSql;
use rusqlite::types::FromSqlError;
use rusqlite::Connection;
use rusqlite::OptionalExtension;

use super::claim;
use super::claim::Holder;
use crate::boot_clock::BootId;

/// The version of the schema below.
pub const SCHEMA_VERSION: i64 = 2;

/// The table. Its comments are for whoever opens the file with sqlite3.
pub const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS path_state (
    endpoint TEXT PRIMARY KEY,      -- sender>prefix/length, #dscp if there is one
    state BLOB,                     -- the set, as PathState::to_bytes(); none during a hold-off
    observed_ms INTEGER NOT NULL,   -- last change, milliseconds since 1970
    expires_ms INTEGER NOT NULL,    -- when the row goes, milliseconds since 1970
    boot BLOB,                      -- the boot that the next belongs to
    hold_off_end_us INTEGER,        -- microseconds since that boot
    retreats INTEGER NOT NULL,      -- safe retreats in a row
    checksum INTEGER NOT NULL       -- CRC-32 of the other columns
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS path_state_by_expiry ON path_state (expires_ms);
CREATE TABLE IF NOT EXISTS total (      -- what all processes counted
    name TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Reads one row, all columns by name.
pub const SELECT_ONE: &str = "
SELECT endpoint, state, observed_ms, expires_ms, boot, hold_off_end_us, retreats, checksum
FROM path_state WHERE endpoint = ?1";

/// Reads one row and the claim on it, so that a claim takes one statement less.
const SELECT_WITH_CLAIM: &str = "
SELECT p.endpoint, p.state, p.observed_ms, p.expires_ms, p.boot, p.hold_off_end_us, p.retreats,
    p.checksum, c.endpoint, c.boot, c.token, c.end_us, c.checksum
FROM path_state p LEFT JOIN claim c ON c.endpoint = p.endpoint WHERE p.endpoint = ?1";

/// Where the columns of the claim begin.
const CLAIM_COLUMN: usize = 8;

const SELECT_ALL: &str = "
SELECT endpoint, state, observed_ms, expires_ms, boot, hold_off_end_us, retreats, checksum
FROM path_state ORDER BY endpoint";

// An update leaves the index alone while the expiry stays.
const UPSERT: &str = "
INSERT INTO path_state VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (endpoint) DO UPDATE SET
    state = ?2, observed_ms = ?3, expires_ms = ?4, boot = ?5, hold_off_end_us = ?6,
    retreats = ?7, checksum = ?8";

/// A checksum of columns. Lengths and presence are part of it: no two rows have
/// the same text.
#[derive(Default)]
pub struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// The next column; None for NULL.
    pub fn add(&mut self, column: Option<&[u8]>) {
        let length = column.map_or(u32::MAX, |c| u32::try_from(c.len()).unwrap_or(u32::MAX));
        self.0.update(&length.to_be_bytes());
        self.0.update(column.unwrap_or_default());
    }

    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// The clocks at the start of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: SystemTime,
    pub boot_id: BootId,
    pub since_boot: Duration,
}

/// A row as this version understands it: what has lapsed is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub state: Option<PathState>,

    pub retreats: u32,

    /// When since boot the hold-off ends.
    pub hold_off_end: Option<Duration>,

    pub observed_ms: i64,
    pub expires_ms: i64,
}

/// What a key led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Row(Row),

    /// A newer version's record, whose time has not passed: not ours to touch.
    Newer,
}

/// Why a row on disk has to be written anew or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    Expired,
    Damaged,
}

/// The result of [`load()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub found: Found,
    pub cleanup: Option<Cleanup>,
}

/// The columns, as they are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Columns {
    endpoint: String,
    state: Option<Vec<u8>>,
    observed_ms: i64,
    expires_ms: i64,
    boot: Option<Vec<u8>>,
    hold_off_end_us: Option<i64>,
    retreats: i64,
}

impl Row {
    /// The row of an endpoint that nothing is known of.
    pub fn new() -> Self {
        Row { state: None, retreats: 0, hold_off_end: None, observed_ms: 0, expires_ms: 0 }
    }

    /// Whether nothing is lost with the row.
    pub fn is_empty(&self) -> bool {
        self.state.is_none() && self.retreats == 0
    }
}

/// Milliseconds since 1970, as SQLite can hold them.
pub fn unix_ms(time: SystemTime) -> i64 {
    signed(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis())
}

/// Microseconds, as SQLite can hold them.
pub fn micros(time: Duration) -> i64 {
    signed(time.as_micros())
}

fn signed(v: u128) -> i64 {
    i64::try_from(v).unwrap_or(i64::MAX)
}

/// [`micros()`], read.
pub fn from_micros(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

/// Reads the row of `endpoint`, without changing it.
pub fn load(conn: &Connection, endpoint: &str, now: &Now) -> rusqlite::Result<Loaded> {
    let columns = conn
        .prepare_cached(SELECT_ONE)?
        .query_row([endpoint], |row| Ok(read_columns(row)))
        .optional()?;

    Ok(match columns {
        None => Loaded { found: Found::Nothing, cleanup: None },
        Some(columns) => interpret(columns.as_ref(), now),
    })
}

/// Reads the row of `endpoint` and who has claimed it, without changing anything.
pub fn load_with_claim(
    conn: &Connection,
    endpoint: &str,
    now: &Now,
) -> rusqlite::Result<(Loaded, Holder)> {
    let read = |row: &rusqlite::Row| Ok((read_columns(row), claim::read(row, CLAIM_COLUMN, now)));
    let found = conn.prepare_cached(SELECT_WITH_CLAIM)?.query_row([endpoint], read).optional()?;

    Ok(match found {
        None => (Loaded { found: Found::Nothing, cleanup: None }, Holder::Nobody),
        Some((columns, holder)) => (interpret(columns.as_ref(), now), holder),
    })
}

/// Visits every row in the order of keys. A row whose key cannot be read has
/// none.
pub fn visit_all(
    conn: &Connection,
    now: &Now,
    visit: &mut dyn FnMut(Option<&str>, Loaded),
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(SELECT_ALL)?;
    let mut rows = statement.query([])?;

    while let Some(row) = rows.next()? {
        let columns = read_columns(row);
        let endpoint = row.get_ref(0)?.as_str().ok();
        visit(endpoint, interpret(columns.as_ref(), now));
    }

    Ok(())
}

/// Writes the row, or deletes it when nothing would be lost.
pub fn save(conn: &Connection, endpoint: &str, row: &Row, now: &Now) -> rusqlite::Result<()> {
    if row.is_empty() {
        return delete(conn, endpoint).map(drop);
    }

    let columns = Columns::of(endpoint, row, now);
    conn.prepare_cached(UPSERT)?.execute(rusqlite::params![
        columns.endpoint,
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

/// Deletes a row. False if there was none.
pub fn delete(conn: &Connection, endpoint: &str) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM path_state WHERE endpoint = ?1";
    Ok(conn.prepare_cached(sql)?.execute([endpoint])? > 0)
}

impl Columns {
    fn of(endpoint: &str, row: &Row, now: &Now) -> Self {
        Columns {
            endpoint: endpoint.to_string(),
            state: row.state.map(|state| state.to_bytes().to_vec()),
            observed_ms: row.observed_ms,
            expires_ms: row.expires_ms,
            boot: row.hold_off_end.map(|_| now.boot_id.to_vec()),
            hold_off_end_us: row.hold_off_end.map(micros),
            retreats: row.retreats.into(),
        }
    }

    fn checksum(&self) -> u32 {
        let numbers = [
            Some(self.observed_ms),
            Some(self.expires_ms),
            self.hold_off_end_us,
            Some(self.retreats),
        ];
        let mut sum = Checksum::default();

        sum.add(Some(self.endpoint.as_bytes()));
        sum.add(self.state.as_deref());
        sum.add(self.boot.as_deref());
        for number in numbers {
            sum.add(number.map(i64::to_be_bytes).as_ref().map(|n| &n[..]));
        }

        sum.finish()
    }

    // A clock that was set back by more than the row's whole life shows
    // nothing: such a row would outlive every other.
    fn is_expired(&self, now: &Now) -> bool {
        let now_ms = unix_ms(now.wall);
        let life_ms = self.expires_ms.saturating_sub(self.observed_ms);

        now_ms >= self.expires_ms || now_ms.saturating_add(life_ms) < self.observed_ms
    }
}

/// The columns, if they have the right types and checksum.
fn read_columns(row: &rusqlite::Row) -> Option<Columns> {
    fn get<T: FromSql>(row: &rusqlite::Row, i: usize) -> Result<T, FromSqlError> {
        T::column_result(row.get_ref(i).map_err(|_| FromSqlError::InvalidType)?)
    }

    let read = || -> Result<(Columns, u32), FromSqlError> {
        let columns = Columns {
            endpoint: get(row, 0)?,
            state: get(row, 1)?,
            observed_ms: get(row, 2)?,
            expires_ms: get(row, 3)?,
            boot: get(row, 4)?,
            hold_off_end_us: get(row, 5)?,
            retreats: get(row, 6)?,
        };
        Ok((columns, get(row, 7)?))
    };

    read().ok().filter(|(columns, sum)| columns.checksum() == *sum).map(|(columns, _)| columns)
}

fn interpret(columns: Option<&Columns>, now: &Now) -> Loaded {
    let nothing = |cleanup| Loaded { found: Found::Nothing, cleanup: Some(cleanup) };
    let Some(columns) = columns else {
        return nothing(Cleanup::Damaged);
    };

    let state = match columns.state.as_deref().map(PathState::from_bytes) {
        None => None,
        Some(Ok(state)) => Some(state),
        Some(Err(DecodeError::UnknownVersion(_))) if !columns.is_expired(now) => {
            return Loaded { found: Found::Newer, cleanup: None };
        }
        Some(Err(DecodeError::UnknownVersion(_))) => return nothing(Cleanup::Expired),
        Some(Err(DecodeError::Malformed)) => return nothing(Cleanup::Damaged),
    };

    // RFC 9959, 3.2: delete the set when its Lifetime has passed.
    let live_state = state.filter(|state| !state.is_expired(now.wall));
    let row = live_part(columns, live_state, now);
    // A hold-off outlasts a wall clock that was set.
    let has_content = live_state.is_some() || (row.retreats > 0 && !columns.is_expired(now));

    if row.hold_off_end.is_none() && !has_content {
        return nothing(Cleanup::Expired);
    }

    Loaded {
        found: Found::Row(row),
        cleanup: (state.is_some() && live_state.is_none()).then_some(Cleanup::Expired),
    }
}

// A hold-off of another boot has no meaning in this one. The count of retreats has.
fn live_part(columns: &Columns, state: Option<PathState>, now: &Now) -> Row {
    let same_boot = columns.boot.as_deref() == Some(&now.boot_id[..]);
    let hold_off_end = columns.hold_off_end_us.map(from_micros);

    Row {
        state,
        retreats: u32::try_from(columns.retreats).unwrap_or(u32::MAX),
        hold_off_end: hold_off_end.filter(|&end| same_boot && now.since_boot < end),
        observed_ms: columns.observed_ms,
        expires_ms: columns.expires_ms,
    }
}
