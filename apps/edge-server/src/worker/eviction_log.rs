//! Log of evictions: one line a minute at most for connections that all workers close because of a
//! budget, and one at the end of the process for those since.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use log::warn;

use crate::admission::budgets::Resource;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Log of the process.
static LOG: Mutex<EvictionLog> = Mutex::new(EvictionLog::new());

/// Evictions since the last line.
struct EvictionLog {
    last: Option<Instant>,
    unlogged: u64,

    /// Resource of the last one.
    resource: Resource,
}

/// Logs that a connection was closed because its subnet kept most of a resource. Returns when to
/// [log the rest](log_rest), if it is too early.
pub fn on_eviction(resource: Resource, now: Instant) -> Option<Instant> {
    let mut log = log();
    log.add(resource);
    log_line(log.take(Some(now)));
    log.due()
}

/// Logs the evictions that no line has told of, at the end of a minute or, without a time, of the
/// process.
pub fn log_rest(now: Option<Instant>) {
    log_line(log().take(now));
}

fn log() -> MutexGuard<'static, EvictionLog> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log_line(evictions: Option<(Resource, u64)>) {
    if let Some((resource, evictions)) = evictions {
        warn!(
            "all connections exceed {}: closed the largest of the subnet that keeps most; closed \
             since the last such line: {evictions} (edge_server_evictions_total counts all)",
            option(resource)
        );
    }
}

fn option(resource: Resource) -> &'static str {
    match resource {
        Resource::Responses => "--responses-memory-max",
        Resource::Requests => "--requests-memory-max",
        Resource::Files => "--open-files-max",
    }
}

impl EvictionLog {
    const fn new() -> Self {
        Self { last: None, unlogged: 0, resource: Resource::Responses }
    }

    fn add(&mut self, resource: Resource) {
        self.unlogged += 1;
        self.resource = resource;
    }

    /// Returns when the next line is due.
    fn due(&self) -> Option<Instant> {
        self.last.filter(|_| self.unlogged > 0).map(|last| last + INTERVAL)
    }

    /// Takes what is to be logged: at `now` if a line is due then, or all.
    fn take(&mut self, now: Option<Instant>) -> Option<(Resource, u64)> {
        let is_early = |now| self.due().is_some_and(|due| now < due);
        if self.unlogged == 0 || now.is_some_and(is_early) {
            return None;
        }
        self.last = now;
        Some((self.resource, std::mem::take(&mut self.unlogged)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resource::Files;
    use Resource::Requests;

    #[test]
    fn evictions_give_a_line_a_minute() {
        let start = quiche::clock::now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut log = EvictionLog::new();
        for (seconds, expected, due) in [
            (0, Some((Files, 1)), None),
            (1, None, at(60)),
            (59, None, at(60)),
            (60, Some((Files, 3)), None),
            (61, None, at(120)),
            (500, Some((Files, 2)), None),
        ] {
            log.add(Files);
            assert_eq!((log.take(at(seconds)), log.due()), (expected, due), "{seconds} s");
        }
    }

    #[test]
    fn rest_is_told_when_due_and_at_the_end() {
        let start = quiche::clock::now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut log = EvictionLog::new();
        log.add(Files);
        log.take(at(0));
        assert_eq!((log.take(at(60)), log.take(None)), (None, None), "nothing is left");
        log.add(Requests);
        assert_eq!((log.take(at(59)), log.take(at(60))), (None, Some((Requests, 1))));
        log.add(Files);
        assert_eq!((log.take(at(61)), log.take(None)), (None, Some((Files, 1))));
    }
}
