//! Log of a shutdown: how many connections, over QUIC and over TCP, end by themselves, and how many are
//! closed.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::telemetry::process_log::notice;

/// Counts of the process.
#[derive(Clone, Default)]
pub struct ShutdownLog(Arc<Counts>);

#[derive(Default)]
struct Counts {
    open: AtomicU64,
    ended: AtomicU64,
    closed: AtomicU64,
    is_closing: AtomicBool,
}

/// Reason for which connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingReason {
    Commanded,
    DrainTimeout,
}

impl ShutdownLog {
    /// Counts a connection that begins.
    pub fn on_connection(&self) {
        self.0.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that has ended, perhaps by itself during a drain.
    pub fn on_connection_end(&self, in_drain: bool) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.ended.fetch_add(in_drain.into(), Ordering::Relaxed);
    }

    /// Logs that connections are about to be closed, once for all workers and the TCP side.
    pub fn on_closing(&self, reason: ClosingReason) {
        if self.0.is_closing.swap(true, Ordering::Relaxed) {
            return;
        }
        let open = self.0.open.load(Ordering::Relaxed);
        match reason {
            ClosingReason::Commanded => notice!("stopping; closing connections: {open}"),
            ClosingReason::DrainTimeout => {
                notice!("the drain has timed out; closing connections: {open}");
            }
        }
    }

    /// Counts connections that are closed.
    pub fn on_closed(&self, connections: u64) {
        self.0.closed.fetch_add(connections, Ordering::Relaxed);
    }

    /// Counts anew: the drain is taken back.
    pub fn on_serving_again(&self) {
        self.0.ended.store(0, Ordering::Relaxed);
    }

    /// Logs that all have ended.
    pub fn on_end(&self) {
        let [ended, closed] = [&self.0.ended, &self.0.closed].map(|n| n.load(Ordering::Relaxed));
        notice!("stopped; connections that ended by themselves: {ended}, closed: {closed}");
    }
}
