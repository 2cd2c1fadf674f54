//! Time before which saved parameters that clients keep are void: that of an endpoint's last
//! retreat, of the deletion of its entry, or of all entries.
//!
//! It is a row of the table of claims, under a key of its own: it ends by the same clock, is
//! swept with the claims, and older versions leave it alone.

use quiche::path_state::ClaimToken;
use quiche::path_state::RETREAT_KNOWN;
use rusqlite::Connection;

use super::claim;
use super::claim::Holder;
use super::clocks::unix_ms;
use super::clocks::Now;
use super::row::Id;

/// Stands for all endpoints.
pub const ALL: &str = "";

/// Makes what was observed of `endpoint` until now void.
pub fn note(conn: &Connection, endpoint: &str, now: &Now) -> rusqlite::Result<()> {
    let before_ms = noted(conn, endpoint, now)?.filter(|at_ms| *at_ms != i64::MAX);
    let at_ms = unix_ms(now.wall).max(before_ms.unwrap_or(0));
    let end = now.since_boot.saturating_add(RETREAT_KNOWN);
    claim::grant(conn, key(endpoint), ClaimToken(at_ms.cast_unsigned()), end, now)
}

/// Returns whether parameters of `endpoint` are void that were observed at `observed_ms`, in
/// milliseconds since 1970.
pub fn is_void(
    conn: &Connection,
    endpoint: &str,
    observed_ms: i64,
    now: &Now,
) -> rusqlite::Result<bool> {
    let last_ms = noted(conn, endpoint, now)?.max(noted(conn, ALL, now)?);
    Ok(last_ms.is_some_and(|at_ms| observed_ms <= at_ms))
}

/// Returns the time that is noted, and the largest number if it is damaged.
fn noted(conn: &Connection, endpoint: &str, now: &Now) -> rusqlite::Result<Option<i64>> {
    Ok(match claim::holder(conn, key(endpoint), now)? {
        Holder::Nobody => None,
        Holder::Held(at_ms, _) => Some(at_ms.0.cast_signed()),
        Holder::Damaged => Some(i64::MAX),
    })
}

/// No endpoint contains a line break.
fn key(endpoint: &str) -> i64 {
    Id::of(&format!("void\n{endpoint}")).key
}
