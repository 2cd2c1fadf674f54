//! Limits of TCP connections: of all, and of each client subnet. Their clients own their addresses:
//! they have answered the server's SYN-ACK. Where a limit is reached, an idle or stuck connection of those
//! who have most makes room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use ab_test::ClientUnit;
use ipnet::IpNet;
use quiche::path_state::PrefixLengths;
use slab::Slab;

use crate::admission::connection_limits::subnet_of;
use crate::admission::connection_limits::ClientGroup;
use crate::admission::connection_limits::Limit;
use crate::admission::connection_limits::FULLEST_MAX;
use crate::admission::ranking::change_in;
use crate::admission::ranking::Ranking;
use crate::admission::replaceable_connections::ReplaceableConnections;
use crate::admission::token_bucket::TokenBucket;
use crate::config::limits::Limits;
use crate::tcp::activity::ConnectionActivity;

/// Limiter of open connections.
#[derive(Clone)]
pub struct Limiter {
    lengths: PrefixLengths,
    counts: Arc<Mutex<TcpCounts>>,
}

struct TcpCounts {
    subnets: Ranking<IpNet>,
    clients: HashMap<IpNet, Ranking<ClientUnit>>,
    open: Slab<Arc<ConnectionActivity>>,
    replaceable: ReplaceableConnections,
    handshakes: TokenBucket,
}

/// Permit of one connection, which counts until it is dropped or makes room for another.
pub struct Permit {
    counts: Arc<Mutex<TcpCounts>>,
    slot: usize,
    pub subnet: IpNet,
    pub activity: Arc<ConnectionActivity>,

    /// Whether another connection made room.
    pub replaces: bool,
}

impl Limiter {
    /// Returns a limiter without connections. Subnets have these prefix lengths.
    pub fn new(lengths: PrefixLengths, now: Instant) -> Self {
        let counts = TcpCounts {
            subnets: Ranking::default(),
            clients: HashMap::new(),
            open: Slab::new(),
            replaceable: ReplaceableConnections::default(),
            handshakes: TokenBucket::new(now),
        };
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
        let (subnet, client) = (subnet_of(client, self.lengths), ClientUnit::of(client));
        let mut counts = lock(&self.counts);
        let reached = counts.reached(subnet, limits);
        let replaced = match reached {
            Some(limit) => Some(counts.find_idle(limit, subnet, client, now).ok_or(limit)?),
            None => None,
        };
        if !counts.handshakes.take(limits.handshakes_per_second, Duration::ZERO, now) {
            return Err(Limit::Rate);
        }
        if let Some(slot) = replaced {
            counts.evict(slot);
        }
        let (slot, activity) = counts.insert(subnet, client, now);
        let counts = Arc::clone(&self.counts);
        Ok(Permit { counts, slot, subnet, activity, replaces: replaced.is_some() })
    }
}

impl TcpCounts {
    fn reached(&self, subnet: IpNet, limits: &Limits) -> Option<Limit> {
        if self.subnets.total_of(subnet) >= limits.tcp_connections_per_subnet().into() {
            return Some(Limit::Subnet);
        }
        (self.open.len() >= limits.tcp_connections() as usize).then_some(Limit::Connections)
    }

    /// Returns the slot of an idle connection that makes room for one of a client, who has at least two
    /// fewer than its own client or subnet.
    fn find_idle(
        &mut self,
        limit: Limit,
        subnet: IpNet,
        client: ClientUnit,
        now: Instant,
    ) -> Option<usize> {
        let fuller: Vec<_> = match limit {
            Limit::Subnet => {
                let clients = self.clients.get(&subnet)?;
                let fuller = clients.larger_than(clients.total_of(client) + 1).take(FULLEST_MAX);
                fuller.map(|client| ClientGroup::Client(subnet, client)).collect()
            }
            Limit::Connections => {
                let here = self.subnets.total_of(subnet);
                let fuller = self.subnets.larger_than(here + 1).take(FULLEST_MAX);
                fuller.map(ClientGroup::Subnet).collect()
            }
            Limit::Rate => return None,
        };
        let open = &self.open;
        self.replaceable.longest_of(&fuller, now, |slot| Some(open.get(slot)?.idle_from(now)))
    }

    fn insert(
        &mut self,
        subnet: IpNet,
        client: ClientUnit,
        now: Instant,
    ) -> (usize, Arc<ConnectionActivity>) {
        let groups = [ClientGroup::Subnet(subnet), ClientGroup::Client(subnet, client)];
        let activity = Arc::new(ConnectionActivity::new(groups, now));
        let slot = self.open.insert(Arc::clone(&activity));
        // Until it is looked at.
        self.replaceable.note(slot, groups, now);
        self.change(groups, 0, 1);
        (slot, activity)
    }

    fn evict(&mut self, slot: usize) {
        self.remove(slot).evict();
    }

    fn remove(&mut self, slot: usize) -> Arc<ConnectionActivity> {
        let activity = self.open.remove(slot);
        self.replaceable.remove(slot);
        self.change(activity.groups(), 1, 0);
        activity
    }

    fn change(&mut self, groups: [ClientGroup; 2], before: u64, now: u64) {
        for group in groups {
            match group {
                ClientGroup::Subnet(subnet) => self.subnets.change(subnet, before, now),
                ClientGroup::Client(subnet, client) => {
                    change_in(&mut self.clients, subnet, client, before, now);
                }
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        // Another connection may have its slot.
        if counts.open.get(self.slot).is_some_and(|open| Arc::ptr_eq(open, &self.activity)) {
            counts.remove(self.slot);
        }
    }
}

fn lock(counts: &Mutex<TcpCounts>) -> MutexGuard<'_, TcpCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::tests::limits;

    fn limiter(now: Instant) -> Limiter {
        Limiter::new(PrefixLengths { v4: 24, v6: 48 }, now)
    }

    #[test]
    fn connections_are_limited_in_all_and_by_subnet() {
        let now = quiche::clock::now();
        let limiter = limiter(now);
        let limits = limits(&["--connections-max=3", "--connections-per-subnet=9"]);
        let acquire = |client: &str| limiter.try_acquire(client.parse().unwrap(), &limits, now);
        let one = acquire("192.0.2.1");
        let _two = acquire("::ffff:192.0.2.2").unwrap();
        assert_eq!(acquire("192.0.2.3").err(), Some(Limit::Subnet));
        let _three = acquire("2001:db8::1").unwrap();
        assert_eq!(acquire("198.51.100.1").err(), Some(Limit::Connections));
        drop(one);
        let four = acquire("192.0.2.4");
        assert!(four.is_ok(), "a place is free again");
        drop((four, _two, _three));
        let counts = lock(&limiter.counts);
        assert!(counts.clients.is_empty() && counts.subnets.totals().count() == 0);
    }

    #[test]
    fn handshakes_are_limited_by_their_rate() {
        let now = quiche::clock::now();
        let limiter = limiter(now);
        let limits = limits(&["--handshakes-per-second=2"]);
        let acquire = |ms| {
            let later = now + Duration::from_millis(ms);
            limiter.try_acquire([192, 0, 2, 1].into(), &limits, later).map(drop).err()
        };
        let found = [0, 0, 0, 499, 500].map(acquire);
        assert_eq!(found, [None, None, Some(Limit::Rate), Some(Limit::Rate), None]);
        assert!(lock(&limiter.counts).open.is_empty(), "a refused one does not count");
    }

    #[test]
    fn idle_connection_of_those_who_have_most_makes_room() {
        let start = quiche::clock::now();
        let limiter = limiter(start);
        let limits = limits(&["--connections-max=6", "--connections-per-subnet=9"]);
        let acquire = |client: [u8; 4], seconds| {
            let now = start + Duration::from_secs(seconds);
            limiter.try_acquire(client.into(), &limits, now)
        };
        let [one, two, three] = [0; 3].map(|_| acquire([192, 0, 2, 1], 0).unwrap());
        one.activity.on_begin(start);
        two.activity.on_begin(start);
        two.activity.on_end(start + Duration::from_secs(1));
        assert_eq!(acquire([192, 0, 2, 1], 10).err(), Some(Limit::Subnet), "its own");
        assert_eq!(acquire([192, 0, 2, 9], 1).err(), Some(Limit::Subnet), "none is idle for long");
        let neighbour = acquire([192, 0, 2, 9], 2).unwrap();
        assert!(neighbour.replaces && two.activity.is_evicted());
        let others = [[198, 51, 100, 1], [198, 51, 100, 2], [198, 18, 0, 1]];
        let others = others.map(|client| acquire(client, 2).unwrap());
        assert!(others.iter().all(|other| !other.replaces));
        let another = acquire([203, 0, 113, 1], 3).unwrap();
        assert!(another.replaces && three.activity.is_evicted() && !one.activity.is_evicted());
        drop((two, three));
        assert_eq!(lock(&limiter.counts).open.len(), 6, "they do not count any more");
        assert_eq!(acquire([203, 0, 113, 2], 3).err(), Some(Limit::Connections));
    }
}
