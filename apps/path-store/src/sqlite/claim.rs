//! Claims, one row each, in a table of their own.
//!
//! The table stays small whatever the number of records: a claim changes no page of theirs.
//! A claim outlives its record, if that expires or is evicted, so that nobody claims a new
//! record of the same path.

use std::collections::HashMap;
use std::time::Duration;

use quiche::path_state::ClaimToken;
use rusqlite::types::ValueRef;
use rusqlite::Connection;
use rusqlite::OptionalExtension;

use super::checksum::Checksum;
use super::clocks::from_micros;
use super::clocks::micros;
use super::clocks::Now;

/// The table. Its comments are for those who open the file with sqlite3.
pub const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS claim (
    key INTEGER PRIMARY KEY,        -- as in path_state
    boot BLOB NOT NULL,             -- the boot that the end belongs to
    token INTEGER NOT NULL,
    end_us INTEGER NOT NULL,        -- microseconds since that boot
    checksum INTEGER NOT NULL       -- CRC-32 of the other columns
) STRICT;
";

/// Reads one claim, all columns by name.
pub const SELECT_ONE: &str = "SELECT key, boot, token, end_us, checksum FROM claim WHERE key = ?1";

const SELECT_ALL: &str = "SELECT key, boot, token, end_us, checksum FROM claim";

const REPLACE: &str = "REPLACE INTO claim VALUES (?1, ?2, ?3, ?4, ?5)";

/// Holder of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody, or the lease has ended.
    Nobody,

    /// The connection with this token, until this time since boot.
    Held(ClaimToken, Duration),

    /// Unknown: the row is damaged.
    Damaged,
}

/// Returns who holds the claim with this key.
pub fn holder(conn: &Connection, key: i64, now: &Now) -> rusqlite::Result<Holder> {
    let read = |row: &rusqlite::Row| Ok(read(row, 0, now));
    let holder = conn.prepare_cached(SELECT_ONE)?.query_row([key], read).optional()?;

    Ok(holder.unwrap_or(Holder::Nobody))
}

/// Returns the end of each claim that is held, by key.
pub fn held(conn: &Connection, now: &Now) -> rusqlite::Result<HashMap<i64, Duration>> {
    let mut statement = conn.prepare_cached(SELECT_ALL)?;
    let mut rows = statement.query([])?;
    let mut held = HashMap::new();
    while let Some(row) = rows.next()? {
        if let Holder::Held(_, end) = read(row, 0, now) {
            held.insert(row.get(0)?, end);
        }
    }

    Ok(held)
}

/// Grants the claim until `end` since boot.
pub fn grant(
    conn: &Connection,
    key: i64,
    token: ClaimToken,
    end: Duration,
    now: &Now,
) -> rusqlite::Result<()> {
    let (token, end_us) = (token.0.cast_signed(), micros(end));
    let sum = checksum(key, &now.boot_id, token, end_us);
    conn.prepare_cached(REPLACE)?.execute((key, &now.boot_id[..], token, end_us, sum))?;

    Ok(())
}

/// Deletes the claim of any holder. Returns false if there is none.
pub fn remove(conn: &Connection, key: i64) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM claim WHERE key = ?1";
    Ok(conn.prepare_cached(sql)?.execute([key])? > 0)
}

/// Deletes claims whose leases have ended.
pub fn sweep(conn: &Connection, now: &Now) -> rusqlite::Result<()> {
    let sql = "DELETE FROM claim WHERE boot IS NOT ?1 OR end_us <= ?2";
    conn.prepare_cached(sql)?.execute((&now.boot_id[..], micros(now.since_boot)))?;

    Ok(())
}

fn checksum(key: i64, boot: &[u8], token: i64, end_us: i64) -> u32 {
    let mut sum = Checksum::default();
    sum.add(Some(&key.to_be_bytes()));
    sum.add(Some(boot));
    sum.add(Some(&token.to_be_bytes()));
    sum.add(Some(&end_us.to_be_bytes()));

    sum.finish()
}

/// Reads the columns of a claim, of which `first` is the first; they are NULL if there is none.
pub fn read(row: &rusqlite::Row, first: usize, now: &Now) -> Holder {
    let value = |i: usize| row.get_ref(first + i).ok();
    let number = |i: usize| value(i)?.as_i64().ok();
    if value(0) == Some(ValueRef::Null) {
        return Holder::Nobody;
    }
    let columns = || {
        let (key, boot) = (number(0)?, value(1)?.as_blob().ok()?);
        let (token, end_us) = (number(2)?, number(3)?);
        let sound = number(4)? == i64::from(checksum(key, boot, token, end_us));
        sound.then_some((boot, token, end_us))
    };

    match columns() {
        None => Holder::Damaged,
        // A lease of another boot has no meaning in this one.
        Some((boot, _, end_us)) if boot != now.boot_id || from_micros(end_us) <= now.since_boot => {
            Holder::Nobody
        }
        Some((_, token, end_us)) => {
            Holder::Held(ClaimToken(token.cast_unsigned()), from_micros(end_us))
        }
    }
}
