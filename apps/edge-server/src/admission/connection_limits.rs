//! Connection limits that all workers share: connections in all and of each client subnet,
//! and handshakes that begin in a second.
//!
//! A client's address is validated by a token or by a complete handshake (RFC 9000, 8.1).
//! Until then it may be forged, so that connections are counted apart:
//!
//! - Validated ones count against their subnet. When that is full, further clients of it are
//!   refused. Only clients that own their addresses can fill it.
//! - Unvalidated ones do not. When they are an eighth of what a subnet, or the server, may
//!   have, further clients have to validate their addresses first: this costs a round trip,
//!   and they count as validated. An attacker that forges the addresses of a subnet
//!   makes its clients take that round trip and cannot lock them out.
//! - Of the handshakes that may begin in a second, unvalidated clients leave half to
//!   validated ones.
//!
//! A handshake that began unvalidated may be complete when its subnet is full; the client is
//! refused then, so that the limit holds.
//!
//! - A full server closes idle and stuck connections of the subnets that have most, for validated
//!   clients of others. Such a client takes a place beyond the limit until its handshake is
//!   complete, so that only those who complete theirs put others out. There is an eighth of all
//!   places beyond the limit, of which a subnet may have an eighth. When all are taken, one of the
//!   [`SurplusHandshakes`] gives way.
//!
//! The limiter is asked when a client without a connection sends its first packet, when its
//! handshake is complete, and at the connection's end; never for other packets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use ab_test::ClientUnit;
use ipnet::IpNet;
use quiche::clock;
use quiche::path_state::PrefixLengths;

use crate::admission::budgets::Payer;
use crate::admission::notices::Notices;
use crate::admission::ranking::Ranking;
use crate::admission::surplus_handshakes::SurplusHandshakes;
use crate::admission::token_bucket::TokenBucket;
use crate::config::limits::Limits;
use crate::quic::handle::ConnectionHandle;

/// Unvalidated connections may be one in so many of all, and of a subnet's. As many as they may be
/// of all, there may be beyond the limit.
const SHARE: u32 = 8;

/// Number of subnets in which room is looked for.
const FULLEST_MAX: usize = 16;

/// Part of a second's handshakes that is left to validated clients.
const VALIDATED_RESERVE: Duration = Duration::from_millis(500);

/// Handle of the limiter.
#[derive(Clone)]
pub struct ConnectionLimiter(Arc<SharedLimiter>);

struct SharedLimiter {
    lengths: PrefixLengths,

    /// Number of all connections, which a flood may read without the lock.
    open: AtomicU32,
    counts: Mutex<ConnectionCounts>,
}

/// Connections of all workers.
struct ConnectionCounts {
    all: Count,

    /// Subnets with at least one connection.
    subnets: HashMap<IpNet, Count>,

    /// The same, by their number of connections.
    by_count: Ranking<IpNet>,
    surplus_handshakes: SurplusHandshakes,
    handshakes: TokenBucket,
}

/// Number of connections within the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    validated: u32,
    unvalidated: u32,
}

/// How a connection counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unvalidated,
    Validated,

    /// Validated, in a place beyond the limit until the handshake, which has this number, is
    /// complete or gives way.
    Surplus(u64),
}

/// Permit of one connection, which counts it until it is dropped.
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    subnet: IpNet,
    client: ClientUnit,
    standing: Standing,
}

/// A limit that has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Connections,
    Subnet,
    Rate,
}

/// Outcome of asking for a permit.
pub enum Outcome {
    Allow(ConnectionPermit),

    /// The client has to validate its address first.
    Retry(Limit),
    Close(Limit),
}

impl Limit {
    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Subnet => "subnet",
            Self::Rate => "rate",
        }
    }
}

impl ConnectionLimiter {
    /// Returns a limiter without connections. `lengths` are those of subnets' prefixes.
    pub fn new(lengths: PrefixLengths) -> Self {
        let counts = ConnectionCounts {
            all: Count::default(),
            subnets: HashMap::new(),
            by_count: Ranking::default(),
            surplus_handshakes: SurplusHandshakes::default(),
            handshakes: TokenBucket::new(clock::now()),
        };
        Self(Arc::new(SharedLimiter {
            lengths,
            open: AtomicU32::new(0),
            counts: Mutex::new(counts),
        }))
    }

    /// Asks for a permit for a client, whose address is `validated` or not. If the server is full,
    /// a validated client that can take the place of another gets one beyond the limit.
    pub fn try_acquire(
        &self,
        client: IpAddr,
        validated: bool,
        can_replace: bool,
        limits: &Limits,
        now: Instant,
    ) -> Outcome {
        let subnet = self.subnet(client);
        let mut counts = self.counts();
        let here = counts.subnets.get(&subnet).copied().unwrap_or_default();
        let is_full = counts.all.sum() >= limits.connections_max;
        if is_full && !can_replace {
            return Outcome::Close(Limit::Connections);
        }
        if is_full && !validated {
            return Outcome::Retry(Limit::Connections);
        }
        let surplus_max = share(limits.connections_max);
        let surplus_here = counts.surplus_handshakes.count(subnet);
        if is_full && surplus_here >= share(surplus_max).into() {
            return Outcome::Close(Limit::Connections);
        }
        let lacks_place = is_full && counts.surplus_handshakes.len() >= surplus_max.into();
        let replaced =
            lacks_place.then(|| counts.surplus_handshakes.replaceable(subnet, now)).flatten();
        if lacks_place && replaced.is_none() {
            return Outcome::Close(Limit::Connections);
        }
        if u64::from(here.validated) + surplus_here >= limits.connections_per_subnet.into() {
            return Outcome::Close(Limit::Subnet);
        }
        if !validated && counts.all.unvalidated >= share(limits.connections_max) {
            return Outcome::Retry(Limit::Connections);
        }
        if !validated && here.unvalidated >= share(limits.connections_per_subnet) {
            return Outcome::Retry(Limit::Subnet);
        }
        let reserve = if validated { Duration::ZERO } else { VALIDATED_RESERVE };
        if !counts.handshakes.take(limits.handshakes_per_second, reserve, now) {
            return match validated {
                true => Outcome::Close(Limit::Rate),
                false => Outcome::Retry(Limit::Rate),
            };
        }
        if let Some((subnet, number)) = replaced {
            counts.surplus_handshakes.revoke(subnet, number);
        }
        let standing = match (validated, is_full) {
            (false, _) => Standing::Unvalidated,
            (true, false) => Standing::Validated,
            (true, true) => Standing::Surplus(counts.surplus_handshakes.begin(subnet, now)),
        };
        counts.change(subnet, |count| count.add(standing, 1));
        self.0.open.store(counts.all.sum(), Ordering::Relaxed);
        let client = ClientUnit::of(client);
        Outcome::Allow(ConnectionPermit { limiter: self.clone(), subnet, client, standing })
    }

    /// Returns the fullest subnets, if the server is full: those with at least two connections more
    /// than the client's.
    pub fn fuller_subnets(&self, client: IpAddr, limits: &Limits) -> Vec<IpNet> {
        if self.0.open.load(Ordering::Relaxed) < limits.connections_max {
            return Vec::new();
        }
        let counts = self.counts();
        let here = counts.by_count.total_of(self.subnet(client));
        counts.by_count.larger_than(here + 1).take(FULLEST_MAX).collect()
    }

    fn subnet(&self, client: IpAddr) -> IpNet {
        subnet_of(client, self.0.lengths)
    }

    fn counts(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionCounts {
    /// Changes the count of all, and that of a subnet.
    fn change(&mut self, subnet: IpNet, change: impl Fn(&mut Count)) {
        change(&mut self.all);
        let here = self.subnets.entry(subnet).or_default();
        let before = here.sum();
        change(here);
        let now = here.sum();
        if now == 0 {
            self.subnets.remove(&subnet);
        }
        self.by_count.change(subnet, before.into(), now.into());
    }
}

impl Count {
    /// Returns how many have a place within the limit.
    fn sum(self) -> u32 {
        self.validated + self.unvalidated
    }

    /// Counts one more or less. Places beyond the limit are counted with their handshakes.
    fn add(&mut self, standing: Standing, change: i32) {
        let count = match standing {
            Standing::Unvalidated => &mut self.unvalidated,
            Standing::Validated => &mut self.validated,
            Standing::Surplus(_) => return,
        };
        *count = count.saturating_add_signed(change);
    }
}

impl ConnectionPermit {
    /// Returns the client's subnet.
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// Returns the client.
    pub fn client(&self) -> ClientUnit {
        self.client
    }

    /// Returns whether the client's address is its own, as far as that is known.
    pub fn is_validated(&self) -> bool {
        self.standing != Standing::Unvalidated
    }

    /// Returns the client to charge with what the connection keeps.
    pub fn payer(&self) -> Payer {
        Payer { subnet: self.is_validated().then_some(self.subnet), client: self.client }
    }

    /// Returns whether its place is beyond the limit.
    pub fn is_surplus(&self) -> bool {
        matches!(self.standing, Standing::Surplus(_))
    }

    /// Returns whether a newcomer has taken its place beyond the limit.
    pub fn is_revoked(&self) -> bool {
        let Standing::Surplus(number) = self.standing else { return false };
        !self.limiter.counts().surplus_handshakes.contains(self.subnet, number)
    }

    /// Says whose permit it is: if a place beyond the limit is taken from it, its worker is told.
    pub fn set_owner(&self, handle: ConnectionHandle, notices: &Notices) {
        if let Standing::Surplus(number) = self.standing {
            let handshakes = &mut self.limiter.counts().surplus_handshakes;
            handshakes.set_owner(self.subnet, number, handle, notices);
        }
    }

    /// Counts the client as validated and within the limit, as its handshake is complete. It may
    /// `replace` another if the server is full.
    ///
    /// # Errors
    ///
    /// The limit that leaves no room for it.
    pub fn admit(&mut self, replaces: bool, limits: &Limits) -> Result<(), Limit> {
        let mut counts = self.limiter.counts();
        let here = counts.subnets.get(&self.subnet).copied().unwrap_or_default();
        match self.standing {
            Standing::Validated => return Ok(()),
            Standing::Unvalidated if here.validated >= limits.connections_per_subnet => {
                return Err(Limit::Subnet);
            }
            Standing::Surplus(_) if counts.all.sum() >= limits.connections_max && !replaces => {
                return Err(Limit::Connections);
            }
            // Another has taken its place.
            Standing::Surplus(number) if !counts.surplus_handshakes.end(self.subnet, number) => {
                return Err(Limit::Connections);
            }
            Standing::Unvalidated | Standing::Surplus(_) => (),
        }
        counts.change(self.subnet, |count| {
            count.add(self.standing, -1);
            count.add(Standing::Validated, 1);
        });
        self.standing = Standing::Validated;
        self.limiter.0.open.store(counts.all.sum(), Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.counts();
        if let Standing::Surplus(number) = self.standing {
            counts.surplus_handshakes.end(self.subnet, number);
            return;
        }
        counts.change(self.subnet, |count| count.add(self.standing, -1));
        self.limiter.0.open.store(counts.all.sum(), Ordering::Relaxed);
    }
}

/// Returns the subnet of a client, where prefixes have these lengths.
pub fn subnet_of(client: IpAddr, lengths: PrefixLengths) -> IpNet {
    let client = client.to_canonical();
    let length = match client {
        IpAddr::V4(_) => lengths.v4,
        IpAddr::V6(_) => lengths.v6,
    };
    IpNet::new(client, length).unwrap_or_else(|_| client.into()).trunc()
}

/// Returns how many of so many may be unvalidated or, beside them, beyond the limit.
fn share(count: u32) -> u32 {
    count.div_ceil(SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::tests::limits;

    const HERE: &str = "192.0.2.1";
    const NEIGHBOUR: &str = "192.0.2.200";
    const ELSEWHERE: &str = "198.51.100.1";

    fn limiter() -> ConnectionLimiter {
        ConnectionLimiter::new(PrefixLengths::default())
    }

    /// A limiter, and the permits that it gave.
    struct Fixture {
        limiter: ConnectionLimiter,
        limits: Limits,
        permits: Vec<ConnectionPermit>,
    }

    impl Fixture {
        fn new(options: &[&str]) -> Self {
            Self { limiter: limiter(), limits: limits(options), permits: Vec::new() }
        }

        /// Asks for a permit for a client, and keeps it.
        fn acquire(&mut self, client: &str, validated: bool) -> Result<(), (&'static str, Limit)> {
            let now = quiche::clock::now();
            match self.limiter.try_acquire(
                client.parse().unwrap(),
                validated,
                false,
                &self.limits,
                now,
            ) {
                Outcome::Allow(permit) => {
                    self.permits.push(permit);
                    Ok(())
                }
                Outcome::Retry(limit) => Err(("retry", limit)),
                Outcome::Close(limit) => Err(("close", limit)),
            }
        }

        /// Asks for permits for the same client until there is none. Returns how many there
        /// were, and the outcome then.
        fn fill(&mut self, client: &str, validated: bool) -> (usize, (&'static str, Limit)) {
            for count in 0.. {
                if let Err(outcome) = self.acquire(client, validated) {
                    return (count, outcome);
                }
            }
            unreachable!()
        }
    }

    #[test]
    fn server_and_subnet_are_closed_when_full() {
        let mut fixture =
            Fixture::new(&["--connections-max", "10", "--connections-per-subnet", "6"]);
        assert_eq!(fixture.fill(HERE, true), (6, ("close", Limit::Subnet)));
        assert_eq!(fixture.acquire(NEIGHBOUR, true), Err(("close", Limit::Subnet)));
        assert_eq!(fixture.acquire("::ffff:192.0.2.7", true), Err(("close", Limit::Subnet)));
        assert_eq!(fixture.fill(ELSEWHERE, true), (4, ("close", Limit::Connections)));
        // One of the first six, which are from here.
        fixture.permits.remove(0);
        assert_eq!(fixture.acquire(NEIGHBOUR, true), Ok(()));
        fixture.permits.clear();
        assert!(fixture.limiter.counts().subnets.is_empty());
        assert_eq!(fixture.limiter.counts().all, Count::default());
        assert_eq!(fixture.fill(HERE, true).0, 6);
    }

    #[test]
    fn forged_clients_of_a_subnet_lock_nobody_out() {
        let mut fixture =
            Fixture::new(&["--connections-max", "800", "--connections-per-subnet", "80"]);
        assert_eq!(fixture.fill(HERE, false), (10, ("retry", Limit::Subnet)));
        assert_eq!(fixture.fill(NEIGHBOUR, true), (80, ("close", Limit::Subnet)));
        assert_eq!(fixture.acquire(ELSEWHERE, false), Ok(()));
    }

    #[test]
    fn forged_clients_leave_most_of_the_server_to_others() {
        let mut fixture = Fixture::new(&["--connections-max", "80"]);
        let outcomes = (0..=255).map(|n| fixture.acquire(&format!("10.0.{n}.1"), false));
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 10);
        assert_eq!(outcomes.last(), Some(&Err(("retry", Limit::Connections))));
        assert_eq!(fixture.acquire("10.0.255.1", true), Ok(()));
    }

    #[test]
    fn half_of_a_seconds_handshakes_is_left_to_validated() {
        let mut fixture = Fixture::new(&["--handshakes-per-second", "100"]);
        let now = quiche::clock::now();
        let mut acquire = |validated| {
            let client = "192.0.2.1".parse().unwrap();
            match fixture.limiter.try_acquire(client, validated, false, &fixture.limits, now) {
                Outcome::Allow(permit) => {
                    fixture.permits.push(permit);
                    "allow"
                }
                Outcome::Retry(Limit::Rate) => "retry",
                Outcome::Close(Limit::Rate) => "close",
                _ => "other",
            }
        };
        let unvalidated: Vec<_> = (0..100).map(|_| acquire(false)).collect();
        let validated: Vec<_> = (0..100).map(|_| acquire(true)).collect();
        let count = |all: &[&str], outcome| all.iter().filter(|one| **one == outcome).count();
        assert_eq!((count(&unvalidated, "allow"), count(&unvalidated, "retry")), (50, 50));
        assert_eq!((count(&validated, "allow"), count(&validated, "close")), (50, 50));
    }

    #[test]
    fn complete_handshake_counts_unless_its_subnet_is_full() {
        let mut fixture = Fixture::new(&["--connections-per-subnet", "16"]);
        assert_eq!(fixture.fill(HERE, false), (2, ("retry", Limit::Subnet)));
        let mut late = fixture.permits.pop().unwrap();
        let limits = fixture.limits.clone();
        (0..2).for_each(|_| fixture.permits[0].admit(false, &limits).unwrap());
        assert_eq!(fixture.fill(HERE, true), (15, ("close", Limit::Subnet)));
        assert_eq!(late.admit(true, &limits), Err(Limit::Subnet));
        fixture.permits.pop();
        assert_eq!(late.admit(false, &limits), Ok(()));
        drop(late);
        assert_eq!(fixture.limiter.counts().all, Count { validated: 15, ..Count::default() });
    }

    #[test]
    fn full_server_names_the_fuller_subnets() {
        let mut fixture = Fixture::new(&["--connections-max", "8"]);
        for (client, count) in [(HERE, 2), (ELSEWHERE, 3), ("203.0.113.1", 2)] {
            (0..count).for_each(|_| fixture.acquire(client, true).unwrap());
        }
        let fuller = |fixture: &Fixture, client: &str| {
            let subnets = fixture.limiter.fuller_subnets(client.parse().unwrap(), &fixture.limits);
            subnets.iter().map(IpNet::to_string).collect::<Vec<_>>()
        };
        assert!(fuller(&fixture, "10.0.0.1").is_empty(), "there is room");
        fixture.acquire(ELSEWHERE, true).unwrap();
        let all = ["198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/24"];
        assert_eq!(fuller(&fixture, "10.0.0.1"), all);
        assert_eq!(fuller(&fixture, HERE), all[..1]);
        assert!(fuller(&fixture, ELSEWHERE).is_empty());
    }

    #[test]
    fn full_server_has_places_for_handshakes_of_those_that_may_replace() {
        let mut fixture = Fixture::new(&["--connections-max", "80"]);
        fixture.fill(HERE, true);
        let (limiter, limits) = (fixture.limiter.clone(), fixture.limits.clone());
        let now = quiche::clock::now();
        let acquire = |subnet: u8, validated| {
            limiter.try_acquire([10, 0, subnet, 1].into(), validated, true, &limits, now)
        };
        let acquire_surplus = |subnet| match acquire(subnet, true) {
            Outcome::Allow(permit) => Some(permit),
            Outcome::Retry(_) => None,
            Outcome::Close(limit) => {
                assert_eq!(limit, Limit::Connections);
                None
            }
        };
        assert!(matches!(acquire(0, false), Outcome::Retry(Limit::Connections)));
        // An eighth of 80, and an eighth of that from a subnet.
        let mut surplus: Vec<_> =
            (0..5).flat_map(|subnet| [subnet; 3].into_iter().filter_map(acquire_surplus)).collect();
        assert!(surplus.len() == 10 && surplus.iter().all(ConnectionPermit::is_surplus));
        assert!(acquire_surplus(9).is_none());
        let counted = || {
            let counts = limiter.counts();
            (counts.all.validated, counts.surplus_handshakes.len())
        };
        assert_eq!(counted(), (80, 10));

        let mut permits = surplus.drain(..2);
        let (mut one, mut other) = (permits.next().unwrap(), permits.next().unwrap());
        assert_eq!(one.admit(false, &limits), Err(Limit::Connections));
        assert_eq!(one.admit(true, &limits), Ok(()));
        assert!(!one.is_surplus());
        // One that is replaced, and one that leaves by itself.
        fixture.permits.truncate(78);
        assert_eq!(other.admit(false, &limits), Ok(()));
        drop(permits);
        assert_eq!(counted(), (80, 8));
        drop((one, other, surplus));
        fixture.permits.clear();
        assert_eq!((counted(), limiter.counts().all.unvalidated), ((0, 0), 0));
        assert!(
            limiter.counts().subnets.is_empty() && limiter.counts().by_count.largest().is_none()
        );
    }

    #[test]
    fn limiter_is_shared_by_its_clones() {
        let mut one = Fixture::new(&["--connections-max", "3"]);
        let mut other =
            Fixture { limiter: one.limiter.clone(), ..Fixture::new(&["--connections-max", "3"]) };
        assert_eq!((one.acquire(HERE, true), other.acquire(HERE, true)), (Ok(()), Ok(())));
        assert_eq!(one.fill(ELSEWHERE, true), (1, ("close", Limit::Connections)));
        assert_eq!(other.acquire(HERE, true), Err(("close", Limit::Connections)));
    }
}
