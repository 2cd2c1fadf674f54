//! Administration of a store on disk.

use std::time::Duration;

use quiche::path_state::PathState;
use quiche::path_state::StoreError;

use super::claim;
use super::clocks::Now;
use super::file_names::with_suffix;
use super::row;
use super::row::Cleanup;
use super::row::Loaded;
use super::row::StoredRow;
use super::SqliteStore;
use crate::backend::Admin;
use crate::backend::Entry;
use crate::backend::RecordStatus;
use crate::backend::Size;
use crate::service_metrics::ServiceMetrics;

impl Admin for SqliteStore {
    fn entries(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        // After damage it runs again, on an empty database: earlier visits stand.
        self.run(|ops| {
            // One transaction, so that records and claims are of one moment.
            let transaction = ops.conn.unchecked_transaction()?;
            let held = claim::held(ops.conn, &ops.now)?;
            row::visit_all(ops.conn, &ops.now, &mut |key, endpoint, loaded| {
                let end = held.get(&key).copied();
                if let Some(entry) = entry(endpoint, &loaded, end, &ops.now) {
                    visit(entry);
                }
            })?;
            transaction.commit()
        })
    }

    fn read(&self, endpoint: &str) -> Result<Option<PathState>, StoreError> {
        SqliteStore::read(self, endpoint)
    }

    fn put(&self, endpoint: &str, state: &PathState) -> Result<(), StoreError> {
        self.write(|ops| ops.record(endpoint, state))
    }

    fn delete(&self, endpoint: &str) -> Result<bool, StoreError> {
        self.write(|ops| ops.delete(endpoint))
    }

    fn totals(&self) -> Result<ServiceMetrics, StoreError> {
        self.run(|ops| ops.totals())
    }

    fn size(&self) -> Result<Size, StoreError> {
        let length = |suffix| with_suffix(&self.path, suffix).metadata().map_or(0, |m| m.len());

        Ok(Size {
            bytes: ["", "-wal", "-shm"].into_iter().map(length).sum(),
            capacity: self.options.capacity,
        })
    }
}

fn entry(
    endpoint: Option<&str>,
    loaded: &Loaded,
    lease_end: Option<Duration>,
    now: &Now,
) -> Option<Entry> {
    let unusable = |status| Entry {
        endpoint: endpoint.unwrap_or("?").to_string(),
        state: None,
        lease: None,
        retreats: 0,
        hold_off: None,
        status,
    };

    match (&loaded.found, loaded.cleanup) {
        (StoredRow::Missing, Some(Cleanup::Damaged)) => Some(unusable(RecordStatus::Damaged)),
        (StoredRow::Missing, _) => None,
        (StoredRow::Newer, _) => Some(unusable(RecordStatus::Newer)),
        (StoredRow::Row(row), _) => Some(Entry {
            state: row.state,
            lease: lease_end.map(|end| end.saturating_sub(now.since_boot)),
            retreats: row.retreats,
            hold_off: row.hold_off_end.map(|end| end.saturating_sub(now.since_boot)),
            ..unusable(RecordStatus::Sound)
        }),
    }
}
