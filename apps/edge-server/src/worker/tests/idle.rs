//! Idle connections: when they, and the allocator, give memory back.

use std::time::Duration;

use super::harness::Server;

/// How long a connection is quiet before it is idle.
const QUIET: Duration = Duration::from_secs(1);

/// From then to the time when the allocator gives memory back.
const PURGE_DELAY: Duration = Duration::from_secs(2);

#[test]
fn idle_connection_gives_memory_back_after_each_use() {
    let server = Server::start(&["--speedtest"]);
    let is_purge_due = || {
        let mut due = false;
        server.with_worker(|worker| due = worker.allocator_purge.deadline().is_some());
        due
    };
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/bytes/3000000").body.len(), 3_000_000);
        server.lab().advance(QUIET - Duration::from_millis(100));
        assert!(!is_purge_due());
        server.lab().advance(Duration::from_millis(200));
        assert!(is_purge_due());
        server.lab().advance(PURGE_DELAY);
        assert!(!is_purge_due());
    }
}
