//! Claims: one row each, in a table of their own, which stays small whatever the
//! number of sets: a claim changes no page of theirs. A claim outlives its set,
//! when that expires or makes room, so that no second one begins.

use std::time::Duration;

use quiche::path_state::ClaimToken;
use rusqlite::types::FromSql;
use rusqlite::types::ValueRef;
use rusqlite::Connection;
use rusqlite::OptionalExtension;

use super::row::from_micros;
use super::row::micros;
use super::row::Checksum;
use super::row::Now;

/// The table. Its comments are for whoever opens the file with sqlite3.
pub const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS claim (
    endpoint TEXT PRIMARY KEY,      -- as in path_state
    boot BLOB NOT NULL,             -- the boot that the end belongs to
    token INTEGER NOT NULL,
    end_us INTEGER NOT NULL,        -- microseconds since that boot
    checksum INTEGER NOT NULL       -- CRC-32 of the other columns
) STRICT, WITHOUT ROWID;
";

/// Reads one claim, all columns by name.
pub const SELECT_ONE: &str =
    "SELECT endpoint, boot, token, end_us, checksum FROM claim WHERE endpoint = ?1";

const SELECT_ALL: &str =
    "SELECT endpoint, boot, token, end_us, checksum FROM claim ORDER BY endpoint";

const UPSERT: &str = "
INSERT INTO claim VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (endpoint) DO UPDATE SET boot = ?2, token = ?3, end_us = ?4, checksum = ?5";

/// Who has a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody, or the lease has ended.
    Nobody,

    /// Whoever has the token, until then, since boot.
    Held(ClaimToken, Duration),

    /// Unknown: the row is damaged.
    Damaged,
}

/// Who has the set of `endpoint`.
pub fn holder(conn: &Connection, endpoint: &str, now: &Now) -> rusqlite::Result<Holder> {
    let holder = conn
        .prepare_cached(SELECT_ONE)?
        .query_row([endpoint], |row| Ok(read(row, 0, now)))
        .optional()?;

    Ok(holder.unwrap_or(Holder::Nobody))
}

/// Every claim that is held, by endpoint.
pub fn held(
    conn: &Connection,
    now: &Now,
) -> rusqlite::Result<std::collections::HashMap<String, Duration>> {
    let mut statement = conn.prepare_cached(SELECT_ALL)?;
    let mut rows = statement.query([])?;
    let mut held = std::collections::HashMap::new();
    while let Some(row) = rows.next()? {
        if let (Holder::Held(_, end), Ok(endpoint)) = (read(row, 0, now), row.get_ref(0)?.as_str())
        {
            held.insert(endpoint.to_string(), end);
        }
    }

    Ok(held)
}

/// Gives the set to a holder until `end` since boot.
pub fn grant(
    conn: &Connection,
    endpoint: &str,
    token: ClaimToken,
    end: Duration,
    now: &Now,
) -> rusqlite::Result<()> {
    let (token, end_us) = (token.0.cast_signed(), micros(end));
    let sum = checksum(endpoint, &now.boot_id, token, end_us);
    conn.prepare_cached(UPSERT)?.execute((endpoint, &now.boot_id[..], token, end_us, sum))?;

    Ok(())
}

/// Ends a claim, whoever has it. False if there is none.
pub fn remove(conn: &Connection, endpoint: &str) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM claim WHERE endpoint = ?1";
    Ok(conn.prepare_cached(sql)?.execute([endpoint])? > 0)
}

/// Deletes claims whose leases have ended.
pub fn sweep(conn: &Connection, now: &Now) -> rusqlite::Result<()> {
    let sql = "DELETE FROM claim WHERE boot IS NOT ?1 OR end_us <= ?2";
    conn.prepare_cached(sql)?.execute((&now.boot_id[..], micros(now.since_boot)))?;

    Ok(())
}

fn checksum(endpoint: &str, boot: &[u8], token: i64, end_us: i64) -> u32 {
    let mut sum = Checksum::default();
    sum.add(Some(endpoint.as_bytes()));
    sum.add(Some(boot));
    sum.add(Some(&token.to_be_bytes()));
    sum.add(Some(&end_us.to_be_bytes()));

    sum.finish()
}

/// Reads the columns of a claim from `first` on; NULL, if there is none.
pub fn read(row: &rusqlite::Row, first: usize, now: &Now) -> Holder {
    fn get<T: FromSql>(row: &rusqlite::Row, i: usize) -> Option<T> {
        T::column_result(row.get_ref(i).ok()?).ok()
    }
    if row.get_ref(first).is_ok_and(|endpoint| endpoint == ValueRef::Null) {
        return Holder::Nobody;
    }
    let columns = || {
        let endpoint: String = get(row, first)?;
        let boot: Vec<u8> = get(row, first + 1)?;
        let (token, end_us): (i64, i64) = (get(row, first + 2)?, get(row, first + 3)?);
        let sound = get(row, first + 4) == Some(checksum(&endpoint, &boot, token, end_us));
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
