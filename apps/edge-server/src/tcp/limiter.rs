//! Limits of TCP connections: of all, and of each client subnet. Their clients own their addresses:
//! they have answered the server's SYN-ACK.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use ipnet::IpNet;
use quiche::path_state::PrefixLengths;

use crate::admission::connection_limits::subnet_of;
use crate::admission::connection_limits::Limit;
use crate::admission::token_bucket::TokenBucket;
use crate::config::limits::Limits;

/// TcpCounts of open connections.
#[derive(Clone)]
pub struct Limiter {
    lengths: PrefixLengths,
    counts: Arc<Mutex<TcpCounts>>,
}

struct TcpCounts {
    all: u32,
    subnets: HashMap<IpNet, u32>,
    handshakes: TokenBucket,
}

/// Permit of one connection, which counts it until it is dropped.
pub struct Permit {
    counts: Arc<Mutex<TcpCounts>>,
    pub subnet: IpNet,
}

impl Limiter {
    /// Returns a limiter without connections. Subnets have these prefix lengths.
    pub fn new(lengths: PrefixLengths, now: Instant) -> Self {
        let handshakes = TokenBucket::new(now);
        let counts = TcpCounts { all: 0, subnets: HashMap::default(), handshakes };
        Self { lengths, counts: Arc::new(counts.into()) }
    }

    /// Admits a client.
    ///
    /// # Errors
    ///
    /// The limit that has been reached.
    pub fn try_acquire(
        &self,
        client: IpAddr,
        limits: &Limits,
        now: Instant,
    ) -> Result<Permit, Limit> {
        let subnet = subnet_of(client, self.lengths);
        let mut counts = lock(&self.counts);
        if counts.all >= limits.tcp_connections() {
            return Err(Limit::Connections);
        }
        let of_subnet = counts.subnets.entry(subnet).or_default();
        if *of_subnet >= limits.connections_per_subnet {
            return Err(Limit::Subnet);
        }
        *of_subnet += 1;
        counts.all += 1;
        if !counts.handshakes.take(limits.handshakes_per_second, Duration::ZERO, now) {
            counts.release(subnet);
            return Err(Limit::Rate);
        }
        Ok(Permit { counts: Arc::clone(&self.counts), subnet })
    }
}

impl TcpCounts {
    fn release(&mut self, subnet: IpNet) {
        self.all -= 1;
        if let Some(of_subnet) = self.subnets.get_mut(&subnet) {
            *of_subnet -= 1;
            if *of_subnet == 0 {
                self.subnets.remove(&subnet);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.counts).release(self.subnet);
    }
}

fn lock(counts: &Mutex<TcpCounts>) -> MutexGuard<'_, TcpCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::tests::limits;

    #[test]
    fn connections_are_limited_in_all_and_by_subnet() {
        let now = quiche::clock::now();
        let limiter = Limiter::new(PrefixLengths { v4: 24, v6: 48 }, now);
        let limits = limits(&["--connections-max=3", "--connections-per-subnet=2"]);
        let acquire = |client: &str| limiter.try_acquire(client.parse().unwrap(), &limits, now);
        let one = acquire("192.0.2.1");
        let _two = acquire("::ffff:192.0.2.2").unwrap();
        assert_eq!(acquire("192.0.2.3").err(), Some(Limit::Subnet));
        let _three = acquire("2001:db8::1").unwrap();
        assert_eq!(acquire("198.51.100.1").err(), Some(Limit::Connections));
        drop(one);
        assert!(acquire("192.0.2.4").is_ok(), "a place is free again");
        assert_eq!(lock(&limiter.counts).subnets.len(), 2);
    }

    #[test]
    fn handshakes_are_limited_by_their_rate() {
        let now = quiche::clock::now();
        let limiter = Limiter::new(PrefixLengths { v4: 24, v6: 48 }, now);
        let limits = limits(&["--handshakes-per-second=2"]);
        let acquire = |ms| {
            let later = now + Duration::from_millis(ms);
            limiter.try_acquire([192, 0, 2, 1].into(), &limits, later).map(drop).err()
        };
        let found = [0, 0, 0, 499, 500].map(acquire);
        assert_eq!(found, [None, None, Some(Limit::Rate), Some(Limit::Rate), None]);
        assert!(lock(&limiter.counts).subnets.is_empty(), "a refused one does not count");
    }
}
