//! Handshakes under way in one worker: their number, and a guard of each that its
//! connection owns.

use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::admission::metrics::AdmissionMetrics;

/// Count of the handshakes under way.
pub struct Handshakes(Arc<HandshakeCount>);

struct HandshakeCount {
    under_way: AtomicUsize,
    metrics: AdmissionMetrics,
}

/// A handshake under way, which has failed when it is dropped.
pub struct HandshakeGuard {
    count: Arc<HandshakeCount>,
    client: IpAddr,
    is_complete: bool,
}

impl Handshakes {
    pub fn new(metrics: AdmissionMetrics) -> Self {
        Self(Arc::new(HandshakeCount { under_way: AtomicUsize::new(0), metrics }))
    }

    /// Begins a handshake with `client`.
    pub fn begin(&self, client: IpAddr) -> HandshakeGuard {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        HandshakeGuard { count: Arc::clone(&self.0), client, is_complete: false }
    }

    /// Returns how many are under way.
    pub fn under_way(&self) -> usize {
        self.0.under_way.load(Ordering::Relaxed)
    }
}

impl HandshakeGuard {
    /// Ends the handshake, which is complete. Returns the client.
    pub fn complete(mut self) -> IpAddr {
        self.is_complete = true;
        self.client
    }
}

impl Drop for HandshakeGuard {
    fn drop(&mut self) {
        self.count.under_way.fetch_sub(1, Ordering::Relaxed);
        self.count.metrics.count_handshake(self.is_complete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    #[test]
    fn handshakes_are_counted_under_way_and_by_outcome() {
        let mut registry = Registry::default();
        let handshakes = Handshakes::new(AdmissionMetrics::register(&mut registry));
        let client = "192.0.2.7".parse().unwrap();
        let guards = [(); 3].map(|()| handshakes.begin(client));
        assert_eq!(handshakes.under_way(), 3);
        let [one, two, three] = guards;
        assert_eq!(one.complete(), client);
        drop((two, three));
        assert_eq!(handshakes.under_way(), 0);

        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        assert!(page.contains("edge_server_handshakes_total{outcome=\"completed\"} 1\n"));
        assert!(page.contains("edge_server_handshakes_total{outcome=\"failed\"} 2\n"));
    }
}
