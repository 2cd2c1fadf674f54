//! Counters of events inside a backend.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Events inside a backend, counted since it was opened by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BackendCounters {
    /// Records that failed their checksum, and were removed.
    pub records_damaged: u64,

    /// Reads of records that a newer version wrote.
    pub records_newer: u64,

    /// Entries deleted because their time had passed.
    pub entries_expired: u64,

    /// Entries deleted to make room.
    pub entries_evicted: u64,

    /// Damaged databases that this process quarantined.
    pub databases_quarantined: u64,

    /// Connections to a server, the first one not counted.
    pub reconnects: u64,
}

/// [`BackendCounters`] that several threads add to.
#[derive(Debug, Default)]
pub(crate) struct AtomicBackendCounters {
    pub records_damaged: AtomicU64,
    pub records_newer: AtomicU64,
    pub entries_expired: AtomicU64,
    pub entries_evicted: AtomicU64,
    pub databases_quarantined: AtomicU64,
    pub reconnects: AtomicU64,
}

impl AtomicBackendCounters {
    pub fn snapshot(&self) -> BackendCounters {
        BackendCounters {
            records_damaged: self.records_damaged.load(Relaxed),
            records_newer: self.records_newer.load(Relaxed),
            entries_expired: self.entries_expired.load(Relaxed),
            entries_evicted: self.entries_evicted.load(Relaxed),
            databases_quarantined: self.databases_quarantined.load(Relaxed),
            reconnects: self.reconnects.load(Relaxed),
        }
    }
}
