//! Log of evictions: one line a minute at most for connections that all workers close because of a
//! budget.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use log::warn;

use crate::admission::budgets::Resource;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Log of the process.
static LOG: Mutex<EvictionLog> = Mutex::new(EvictionLog { last: None, unlogged: 0 });

/// Evictions since the last line.
struct EvictionLog {
    last: Option<Instant>,
    unlogged: u64,
}

/// Logs that a connection was closed because its subnet kept most of a resource.
pub fn on_eviction(resource: Resource, now: Instant) {
    let evictions = LOG.lock().unwrap_or_else(PoisonError::into_inner).add(now);
    if let Some(evictions) = evictions {
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
    /// Counts an eviction. Returns the number to log, if it is time.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        is_due.then(|| {
            self.last = Some(now);
            std::mem::take(&mut self.unlogged)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evictions_give_a_line_a_minute() {
        let start = quiche::clock::now();
        let mut log = EvictionLog { last: None, unlogged: 0 };
        for (seconds, expected) in
            [(0, Some(1)), (1, None), (59, None), (60, Some(3)), (61, None), (500, Some(2))]
        {
            assert_eq!(log.add(start + Duration::from_secs(seconds)), expected, "{seconds} s");
        }
    }
}
