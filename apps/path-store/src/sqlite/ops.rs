//! Operations of a store on disk: the rules of the store, within one transaction.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::hold_off;
use quiche::path_state::lease;
use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::LINGER;
use rusqlite::Connection;

use super::claim;
use super::claim::Holder;
use super::clocks::micros;
use super::clocks::unix_ms;
use super::clocks::Now;
use super::row;
use super::row::Cleanup;
use super::row::Id;
use super::row::Loaded;
use super::row::Row;
use super::row::StoredRow;
use super::void;
use crate::backend::RETREATS_KEPT;
use crate::backend::SWEEP_MAX;
use crate::backend_counters::AtomicBackendCounters;
use crate::service_metrics::ServiceMetrics;

/// The most rows that are evicted when one is added: enough to reach the capacity soon.
const EVICTED_MAX: u64 = 16;

/// Progress of eviction.
#[derive(Debug, Default)]
pub struct Eviction {
    /// Rows that may be added before all are counted again: none at first, so that many
    /// processes that add few rows each do not exceed the capacity together.
    uncounted: AtomicU64,

    /// Rows that are still to be evicted.
    excess: AtomicU64,
}

/// Operations on a connection, which is in a transaction for those that write.
pub struct Ops<'a> {
    pub conn: &'a Connection,
    pub now: Now,
    pub counters: &'a AtomicBackendCounters,
    pub eviction: &'a Eviction,
    pub capacity: usize,
}

impl Ops<'_> {
    /// Reads without writing. The second value is true if [`Ops::load()`] has to clean up.
    pub fn peek(&self, endpoint: &str) -> rusqlite::Result<(Option<PathState>, bool)> {
        let loaded = row::load(self.conn, Id::of(endpoint), &self.now)?;
        let state = match loaded.found {
            StoredRow::Row(row) => row.state,
            StoredRow::Newer => {
                self.counters.records_newer.fetch_add(1, Relaxed);
                None
            }
            StoredRow::Missing => None,
        };

        Ok((state, loaded.cleanup.is_some()))
    }

    /// Reads a row, and removes it if it is damaged or expired.
    pub fn load(&self, id: Id) -> rusqlite::Result<StoredRow> {
        let loaded = row::load(self.conn, id, &self.now)?;
        self.take(id, &loaded)
    }

    fn take(&self, id: Id, loaded: &Loaded) -> rusqlite::Result<StoredRow> {
        self.clean_up(id, loaded)?;

        if loaded.found == StoredRow::Newer {
            self.counters.records_newer.fetch_add(1, Relaxed);
        }

        Ok(loaded.found)
    }

    fn clean_up(&self, id: Id, loaded: &Loaded) -> rusqlite::Result<()> {
        match loaded.cleanup {
            None => return Ok(()),
            Some(Cleanup::Expired) => {
                self.counters.entries_expired.fetch_add(1, Relaxed);
            }
            Some(Cleanup::Damaged) => {
                self.counters.records_damaged.fetch_add(1, Relaxed);
                log::warn!("removed the damaged record of {}", id.endpoint);
            }
        }

        match &loaded.found {
            StoredRow::Row(row) => row::save(self.conn, id, row, &self.now),
            _ => row::delete(self.conn, id).map(drop),
        }
    }

    pub fn get(&self, endpoint: &str) -> rusqlite::Result<Option<PathState>> {
        Ok(match self.load(Id::of(endpoint))? {
            StoredRow::Row(row) => row.state,
            _ => None,
        })
    }

    pub fn claim(&self, endpoint: &str, rtt: Duration) -> rusqlite::Result<Option<Claim>> {
        let id = Id::of(endpoint);
        let (loaded, holder) = row::load_with_claim(self.conn, id, &self.now)?;
        let found = self.take(id, &loaded)?;
        self.remove_damaged(id, holder)?;
        let (StoredRow::Row(Row { state: Some(state), hold_off_end: None, .. }), Holder::Nobody) =
            (found, holder)
        else {
            return Ok(None);
        };

        self.grant(id, state, rtt).map(Some)
    }

    fn grant(&self, id: Id, state: PathState, rtt: Duration) -> rusqlite::Result<Claim> {
        let token = ClaimToken::random();
        let lease = lease(state.saved_rtt, rtt);
        let end = self.now.since_boot.saturating_add(lease + LINGER);
        claim::grant(self.conn, id.key, token, end, &self.now)?;

        Ok(Claim { state, token, lease })
    }

    pub fn claim_own(
        &self,
        endpoint: &str,
        own: &PathState,
        rtt: Duration,
    ) -> rusqlite::Result<Option<Claim>> {
        let id = Id::of(endpoint);
        let (loaded, holder) = row::load_with_claim(self.conn, id, &self.now)?;
        let is_held_off = match self.take(id, &loaded)? {
            StoredRow::Newer => true,
            StoredRow::Row(row) => row.hold_off_end.is_some(),
            StoredRow::Missing => false,
        };
        self.remove_damaged(id, holder)?;
        let is_free = !is_held_off && holder == Holder::Nobody;
        let is_void = void::is_void(self.conn, endpoint, unix_ms(own.observed), &self.now)?;
        if !is_free || is_void || own.is_expired(self.now.wall) {
            return Ok(None);
        }

        self.grant(id, *own, rtt).map(Some)
    }

    pub fn record(&self, endpoint: &str, observed: &PathState) -> rusqlite::Result<()> {
        let id = Id::of(endpoint);
        let (mut row, is_new) = match self.load(id)? {
            StoredRow::Newer => return Ok(()),
            StoredRow::Row(row) => (row, false),
            StoredRow::Missing => (Row::new(), true),
        };

        if row.hold_off_end.is_some() {
            return Ok(());
        }

        // A validated jump ends the consecutive retreats.
        if observed.validated {
            row.retreats = 0;
        }

        let state = PathState::merged(row.state, *observed, self.now.wall);
        let retreats_end_ms = if row.retreats > 0 { row.expires_ms } else { 0 };
        row.state = Some(state);
        row.observed_ms = unix_ms(state.observed);
        row.expires_ms = unix_ms(state.expires).max(retreats_end_ms);
        row::save(self.conn, id, &row, &self.now)?;

        if is_new {
            self.evict_excess()
        } else {
            Ok(())
        }
    }

    /// Removes a damaged claim. It may have a holder: removes the record too, so that nobody
    /// else claims it.
    fn remove_damaged(&self, id: Id, holder: Holder) -> rusqlite::Result<()> {
        if holder == Holder::Damaged {
            self.counters.records_damaged.fetch_add(1, Relaxed);
            log::warn!("removed the damaged claim on {}, and the record", id.endpoint);
            claim::remove(self.conn, id.key)?;
            row::delete(self.conn, id)?;
        }

        Ok(())
    }

    fn is_held_by(&self, id: Id, token: ClaimToken) -> rusqlite::Result<bool> {
        let holder = claim::holder(self.conn, id.key, &self.now)?;
        self.remove_damaged(id, holder)?;
        Ok(matches!(holder, Holder::Held(held, _) if held == token))
    }

    pub fn release(&self, endpoint: &str, token: ClaimToken) -> rusqlite::Result<()> {
        let id = Id::of(endpoint);
        if self.is_held_by(id, token)? {
            claim::remove(self.conn, id.key)?;
        }

        Ok(())
    }

    pub fn forget(
        &self,
        endpoint: &str,
        token: ClaimToken,
        used: SystemTime,
    ) -> rusqlite::Result<()> {
        let id = Id::of(endpoint);
        if self.is_held_by(id, token)? {
            claim::remove(self.conn, id.key)?;
        }
        let (row, is_new) = match self.load(id)? {
            StoredRow::Newer => return Ok(()),
            StoredRow::Row(row) => (row, false),
            StoredRow::Missing => (Row::new(), true),
        };
        row::save(self.conn, id, &self.after_retreat(row, used), &self.now)?;
        void::note(self.conn, endpoint, &self.now)?;

        if is_new {
            self.evict_excess()
        } else {
            Ok(())
        }
    }

    /// Returns the row after the retreat of a connection that used what was observed at `used`.
    /// A retreat during a hold-off is part of the last one.
    fn after_retreat(&self, row: Row, used: SystemTime) -> Row {
        let state = row.state.filter(|held| held.observed > used);
        if row.hold_off_end.is_some() {
            return Row { state, ..row };
        }

        let retreats = row.retreats.saturating_add(1);
        let hold_off = hold_off(retreats);
        let retreats_end = self.now.wall + hold_off + RETREATS_KEPT;
        Row {
            state,
            retreats,
            hold_off_end: Some(self.now.since_boot.saturating_add(hold_off)),
            observed_ms: unix_ms(self.now.wall),
            expires_ms: unix_ms(
                state.map_or(retreats_end, |state| state.expires.max(retreats_end)),
            ),
        }
    }

    /// Deletes an entry with its claim. Returns false if there is none.
    pub fn delete(&self, endpoint: &str) -> rusqlite::Result<bool> {
        let id = Id::of(endpoint);
        let claims = claim::remove(self.conn, id.key)?;
        void::note(self.conn, endpoint, &self.now)?;
        Ok(row::delete(self.conn, id)? || claims)
    }

    pub fn flush(&self) -> rusqlite::Result<usize> {
        let records = count(self.conn, "SELECT count(*) FROM path_state WHERE state IS NOT NULL")?;
        self.conn.execute("DELETE FROM path_state", [])?;
        self.conn.execute("DELETE FROM claim", [])?;
        void::note(self.conn, void::ALL, &self.now)?;

        Ok(records)
    }

    // Counting reads the whole index: each process counts once per hundredth of the capacity
    // that it adds, and exceeds the capacity by at most that. It evicts a few rows at a time,
    // so that no transaction makes others wait.
    fn evict_excess(&self) -> rusqlite::Result<()> {
        let slack = self.capacity / 100;
        let one_less = |left: u64| left.checked_sub(1);
        if self.eviction.uncounted.fetch_update(Relaxed, Relaxed, one_less).is_err() {
            let rows = count(self.conn, "SELECT count(*) FROM path_state")?;
            let excess = if rows > self.capacity { rows - self.capacity + slack } else { 0 };
            self.eviction.uncounted.store(slack as u64, Relaxed);
            self.eviction.excess.store(excess as u64, Relaxed);
        }

        let excess = self.eviction.excess.load(Relaxed).min(EVICTED_MAX);
        if excess == 0 {
            return Ok(());
        }
        let sql = "DELETE FROM path_state WHERE key IN
                   (SELECT key FROM path_state ORDER BY expires_ms LIMIT ?1)";
        let evicted = self.conn.prepare_cached(sql)?.execute([excess])?;
        self.eviction.excess.fetch_sub(excess, Relaxed);
        self.counters.entries_evicted.fetch_add(evicted as u64, Relaxed);

        Ok(())
    }

    /// Deletes expired rows, and rows that a wrong clock dated into the future, which are at
    /// the other end of the index: at most [`SWEEP_MAX`] of each. A row stays until its
    /// hold-off has ended.
    pub fn sweep(&self) -> rusqlite::Result<usize> {
        claim::sweep(self.conn, &self.now)?;
        let mut swept = 0;

        for (order, condition) in
            [("ASC", "expires_ms <= ?1"), ("DESC", "observed_ms - ?1 > expires_ms - observed_ms")]
        {
            let sql = format!(
                "DELETE FROM path_state WHERE key IN (
                     SELECT key FROM path_state ORDER BY expires_ms {order} LIMIT ?4)
                 AND {condition}
                 AND (boot IS NOT ?3 OR ifnull(hold_off_end_us, 0) <= ?2)"
            );
            swept += self.conn.prepare_cached(&sql)?.execute(rusqlite::params![
                unix_ms(self.now.wall),
                micros(self.now.since_boot),
                self.now.boot_id,
                SWEEP_MAX,
            ])?;
        }

        self.counters.entries_expired.fetch_add(swept as u64, Relaxed);
        Ok(swept)
    }
}

impl Ops<'_> {
    pub fn add_to_totals(&self, since: &ServiceMetrics) -> rusqlite::Result<()> {
        let sql = "INSERT INTO total VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET count = count + ?2";
        for (name, count) in since.counts().into_iter().filter(|(_, count)| *count > 0) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.conn.prepare_cached(sql)?.execute((name, count))?;
        }

        Ok(())
    }

    pub fn totals(&self) -> rusqlite::Result<ServiceMetrics> {
        let mut totals = ServiceMetrics::default();
        let mut statement = self.conn.prepare_cached("SELECT name, count FROM total")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            totals.add(row.get_ref(0)?.as_str()?, row.get(1)?);
        }

        Ok(totals)
    }
}

/// Returns the single number that `sql` selects.
pub fn count(conn: &Connection, sql: &str) -> rusqlite::Result<usize> {
    conn.prepare_cached(sql)?.query_row([], |row| row.get(0))
}
