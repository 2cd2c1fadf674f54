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
//! - In a full subnet, an idle or stuck connection of the client that has most gives way to a
//!   validated one that has fewer: one client alone keeps nobody out.
//! - Nor does it take all of a second's handshakes: those of a [client shard](ClientShards) are an
//!   eighth at most.
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
use crate::admission::ranking::change_in;
use crate::admission::ranking::Ranking;
use crate::admission::surplus_handshakes::SurplusHandshakes;
use crate::admission::token_bucket::TokenBucket;
use crate::config::limits::Limits;
use crate::quic::client_shards::ClientShards;
use crate::quic::handle::ConnectionHandle;

/// Unvalidated connections may be one in so many of all, and of a subnet's. As many as they may be
/// of all, there may be beyond the limit.
const SHARE: u32 = 8;

/// Number of subnets, or clients, among whose connections room is looked for.
pub const FULLEST_MAX: usize = 16;

/// Part of a second's handshakes that is left to validated clients.
const VALIDATED_RESERVE: Duration = Duration::from_millis(500);

/// Handle of the limiter.
#[derive(Clone)]
pub struct ConnectionLimiter(Arc<SharedLimiter>);

struct SharedLimiter {
    lengths: PrefixLengths,
    counts: Mutex<ConnectionCounts>,
}

/// Connections of all workers.
struct ConnectionCounts {
    all: Count,

    /// Subnets with at least one connection.
    subnets: HashMap<IpNet, Count>,

    /// The same, by their number of connections.
    by_count: Ranking<IpNet>,

    /// Validated connections of each client of a subnet.
    clients: HashMap<IpNet, Ranking<ClientUnit>>,
    surplus_handshakes: SurplusHandshakes,
    handshakes: HandshakeRate,
}

/// Handshakes that may begin.
struct HandshakeRate {
    all: TokenBucket,
    shards: ClientShards,

    /// Those of validated clients, by shard.
    of_shard: [TokenBucket; ClientShards::COUNT],
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

/// Connections of a subnet, or of one of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientGroup {
    Subnet(IpNet),
    Client(IpNet, ClientUnit),
}

/// Outcome of asking for a permit.
pub enum Outcome {
    Allow(ConnectionPermit),

    /// The same, and a connection of the client's subnet, which is full, has to end.
    Replace(ConnectionPermit),

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
            clients: HashMap::new(),
            surplus_handshakes: SurplusHandshakes::default(),
            handshakes: HandshakeRate::new(clock::now()),
        };
        Self(Arc::new(SharedLimiter { lengths, counts: Mutex::new(counts) }))
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
        let unit = ClientUnit::of(client);
        let mut counts = self.counts();
        let place = match counts.find_place(subnet, validated, can_replace, limits, now) {
            Ok(place) => place,
            Err(refusal) => return refusal,
        };
        let proven = validated.then_some(unit);
        if !counts.handshakes.take(limits.handshakes_per_second, proven, now) {
            return match validated {
                true => Outcome::Close(Limit::Rate),
                false => Outcome::Retry(Limit::Rate),
            };
        }
        let standing = match place {
            _ if !validated => Standing::Unvalidated,
            Vacancy::Within | Vacancy::OfNeighbour => Standing::Validated,
            Vacancy::Surplus { replaced } => {
                if let Some((subnet, number)) = replaced {
                    counts.surplus_handshakes.revoke(subnet, number);
                }
                Standing::Surplus(counts.surplus_handshakes.begin(subnet, now))
            }
        };
        let permit = ConnectionPermit { limiter: self.clone(), subnet, client: unit, standing };
        counts.add(&permit, 1);
        match place {
            Vacancy::OfNeighbour => Outcome::Replace(permit),
            Vacancy::Within | Vacancy::Surplus { .. } => Outcome::Allow(permit),
        }
    }

    /// Returns the limit that keeps a validated client out, unless another connection ends.
    pub fn reached(&self, client: IpAddr, limits: &Limits) -> Option<Limit> {
        self.counts().reached(self.subnet(client), limits)
    }

    /// Returns the groups that have most where a limit is reached: clients of the client's subnet, or
    /// the server's subnets, with at least two connections more than the client's.
    pub fn fuller_groups(&self, client: IpAddr, limit: Limit) -> Vec<ClientGroup> {
        let subnet = self.subnet(client);
        let counts = self.counts();
        match limit {
            Limit::Subnet => {
                let Some(clients) = counts.clients.get(&subnet) else { return Vec::new() };
                let own = clients.total_of(ClientUnit::of(client));
                let fuller = clients.larger_than(own + 1).take(FULLEST_MAX);
                fuller.map(|client| ClientGroup::Client(subnet, client)).collect()
            }
            Limit::Connections => {
                let here = counts.by_count.total_of(subnet);
                let fuller = counts.by_count.larger_than(here + 1).take(FULLEST_MAX);
                fuller.map(ClientGroup::Subnet).collect()
            }
            Limit::Rate => Vec::new(),
        }
    }

    fn subnet(&self, client: IpAddr) -> IpNet {
        subnet_of(client, self.0.lengths)
    }

    fn counts(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Place for a new connection.
#[derive(Clone, Copy)]
enum Vacancy {
    Within,

    /// That of another connection of the subnet, which is full.
    OfNeighbour,

    /// Beyond the limit, for a handshake in a full server. Another's may be `replaced`.
    Surplus {
        replaced: Option<(IpNet, u64)>,
    },
}

impl ConnectionCounts {
    fn is_full(&self, limits: &Limits) -> bool {
        self.all.sum() >= limits.connections_max
    }

    /// Returns whether a subnet has no room for a validated client.
    fn is_subnet_full(&self, subnet: IpNet, limits: &Limits) -> bool {
        let here = self.subnets.get(&subnet).map_or(0, |count| count.validated);
        let all_here = u64::from(here) + self.surplus_handshakes.count(subnet);
        all_here >= limits.connections_per_subnet.into()
    }

    fn reached(&self, subnet: IpNet, limits: &Limits) -> Option<Limit> {
        match (self.is_subnet_full(subnet, limits), self.is_full(limits)) {
            (true, _) => Some(Limit::Subnet),
            (false, true) => Some(Limit::Connections),
            (false, false) => None,
        }
    }

    fn find_place(
        &self,
        subnet: IpNet,
        validated: bool,
        can_replace: bool,
        limits: &Limits,
        now: Instant,
    ) -> Result<Vacancy, Outcome> {
        let limit = match self.reached(subnet, limits) {
            Some(limit) => limit,
            None if validated => return Ok(Vacancy::Within),
            None => return self.find_unvalidated_place(subnet, limits),
        };
        match (can_replace, validated) {
            (false, _) => Err(Outcome::Close(limit)),
            (true, false) => Err(Outcome::Retry(limit)),
            (true, true) if limit == Limit::Subnet => Ok(Vacancy::OfNeighbour),
            (true, true) => self.find_surplus_place(subnet, limits, now),
        }
    }

    fn find_unvalidated_place(&self, subnet: IpNet, limits: &Limits) -> Result<Vacancy, Outcome> {
        let here = self.subnets.get(&subnet).map_or(0, |count| count.unvalidated);
        if self.all.unvalidated >= share(limits.connections_max) {
            return Err(Outcome::Retry(Limit::Connections));
        }
        if here >= share(limits.connections_per_subnet) {
            return Err(Outcome::Retry(Limit::Subnet));
        }
        Ok(Vacancy::Within)
    }

    fn find_surplus_place(
        &self,
        subnet: IpNet,
        limits: &Limits,
        now: Instant,
    ) -> Result<Vacancy, Outcome> {
        let full = || Outcome::Close(Limit::Connections);
        let surplus_max = share(limits.connections_max);
        if self.surplus_handshakes.count(subnet) >= share(surplus_max).into() {
            return Err(full());
        }
        if self.surplus_handshakes.len() < surplus_max.into() {
            return Ok(Vacancy::Surplus { replaced: None });
        }
        let replaced = self.surplus_handshakes.replaceable(subnet, now).ok_or_else(full)?;
        Ok(Vacancy::Surplus { replaced: Some(replaced) })
    }

    /// Counts the connection of a permit as one more, or one less. Places beyond the limit are
    /// counted with their handshakes.
    fn add(&mut self, permit: &ConnectionPermit, change: i32) {
        let validated = match permit.standing {
            Standing::Unvalidated => false,
            Standing::Validated => true,
            Standing::Surplus(_) => return,
        };
        let (subnet, client) = (permit.subnet, permit.client);
        self.all.add(validated, change);
        let here = self.subnets.entry(subnet).or_default();
        let before = here.sum();
        here.add(validated, change);
        let now = here.sum();
        if now == 0 {
            self.subnets.remove(&subnet);
        }
        self.by_count.change(subnet, before.into(), now.into());
        if validated {
            let (before, now) = if change > 0 { (0, 1) } else { (1, 0) };
            change_in(&mut self.clients, subnet, client, before, now);
        }
    }
}

impl HandshakeRate {
    fn new(now: Instant) -> Self {
        Self {
            all: TokenBucket::new(now),
            shards: ClientShards::default(),
            of_shard: std::array::from_fn(|_| TokenBucket::new(now)),
        }
    }

    /// Takes one of so many a second, for a client if its address is proven. Returns whether it did.
    fn take(&mut self, per_second: u32, proven: Option<ClientUnit>, now: Instant) -> bool {
        let Some(client) = proven else {
            return self.all.take(per_second, VALIDATED_RESERVE, now);
        };
        let of_shard = &mut self.of_shard[self.shards.of(client)];
        of_shard.take(share(per_second), Duration::ZERO, now)
            && self.all.take(per_second, Duration::ZERO, now)
    }
}

impl Count {
    /// Returns how many have a place within the limit.
    fn sum(self) -> u32 {
        self.validated + self.unvalidated
    }

    /// Counts one more or less.
    fn add(&mut self, validated: bool, change: i32) {
        let count = if validated { &mut self.validated } else { &mut self.unvalidated };
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

    /// Returns the groups that it is one of.
    pub fn groups(&self) -> [ClientGroup; 2] {
        [ClientGroup::Subnet(self.subnet), ClientGroup::Client(self.subnet, self.client)]
    }

    /// Returns whether the client's address is its own, as far as that is known.
    pub fn is_validated(&self) -> bool {
        self.standing != Standing::Unvalidated
    }

    /// Returns the client to charge with what the connection keeps.
    pub fn payer(&self) -> Payer {
        Payer { subnet: self.is_validated().then_some(self.subnet), client: self.client }
    }

    /// Returns the limit by which another connection has to make room for it, when its handshake is
    /// complete.
    pub fn needs_room(&self, limits: &Limits) -> Option<Limit> {
        self.lacks_room(&self.limiter.counts(), limits)
    }

    fn lacks_room(&self, counts: &ConnectionCounts, limits: &Limits) -> Option<Limit> {
        match self.standing {
            Standing::Validated => None,
            Standing::Unvalidated => {
                counts.is_subnet_full(self.subnet, limits).then_some(Limit::Subnet)
            }
            Standing::Surplus(_) => counts.is_full(limits).then_some(Limit::Connections),
        }
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
    /// replace another if the subnet or the server is full.
    ///
    /// # Errors
    ///
    /// The limit that leaves no room for it.
    pub fn admit(&mut self, replaces: bool, limits: &Limits) -> Result<(), Limit> {
        let limiter = self.limiter.clone();
        let mut counts = limiter.counts();
        if let Some(limit) = self.lacks_room(&counts, limits).filter(|_| !replaces) {
            return Err(limit);
        }
        match self.standing {
            Standing::Validated => return Ok(()),
            // Another has taken its place.
            Standing::Surplus(number) if !counts.surplus_handshakes.end(self.subnet, number) => {
                return Err(Limit::Connections);
            }
            Standing::Unvalidated | Standing::Surplus(_) => (),
        }
        counts.add(self, -1);
        self.standing = Standing::Validated;
        counts.add(self, 1);
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.counts();
        match self.standing {
            Standing::Surplus(number) => {
                counts.surplus_handshakes.end(self.subnet, number);
            }
            Standing::Unvalidated | Standing::Validated => counts.add(self, -1),
        }
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
                Outcome::Allow(permit) | Outcome::Replace(permit) => {
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
        let mut client = 0_u8;
        let mut acquire = |validated| {
            client = client.wrapping_add(1);
            let from = [192, 0, 2, client].into();
            match fixture.limiter.try_acquire(from, validated, false, &fixture.limits, now) {
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
        assert_eq!(late.admit(false, &limits), Err(Limit::Subnet));
        fixture.permits.pop();
        assert_eq!(late.admit(false, &limits), Ok(()));
        drop(late);
        assert_eq!(fixture.limiter.counts().all, Count { validated: 15, ..Count::default() });
    }

    #[test]
    fn full_server_or_subnet_names_the_fuller_groups() {
        let mut fixture = Fixture::new(&["--connections-max", "8"]);
        for (client, count) in [(HERE, 2), (ELSEWHERE, 3), ("203.0.113.1", 2)] {
            (0..count).for_each(|_| fixture.acquire(client, true).unwrap());
        }
        let fuller = |fixture: &Fixture, client: &str| {
            let client = client.parse().unwrap();
            let limit = fixture.limiter.reached(client, &fixture.limits);
            let groups = limit.map(|limit| fixture.limiter.fuller_groups(client, limit));
            let groups = groups.unwrap_or_default();
            let name = |group: &ClientGroup| match group {
                ClientGroup::Subnet(subnet) => subnet.to_string(),
                ClientGroup::Client(_, client) => {
                    client.with_bytes(|bytes| format!("client {bytes:?}"))
                }
            };
            groups.iter().map(name).collect::<Vec<_>>()
        };
        assert!(fuller(&fixture, "10.0.0.1").is_empty(), "there is room");
        fixture.acquire(ELSEWHERE, true).unwrap();
        let all = ["198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/24"];
        assert_eq!(fuller(&fixture, "10.0.0.1"), all);
        assert_eq!(fuller(&fixture, HERE), all[..1]);
        assert!(fuller(&fixture, ELSEWHERE).is_empty());

        let mut fixture = Fixture::new(&["--connections-per-subnet", "4"]);
        for (client, count) in [(HERE, 3), (NEIGHBOUR, 1)] {
            assert!(fuller(&fixture, "192.0.2.9").is_empty(), "there is room");
            (0..count).for_each(|_| fixture.acquire(client, true).unwrap());
        }
        for (client, expected) in
            [("192.0.2.9", &["client [192, 0, 2, 1]"][..]), (NEIGHBOUR, &["client [192, 0, 2, 1]"])]
        {
            assert_eq!(fuller(&fixture, client), expected);
        }
        assert!(fuller(&fixture, HERE).is_empty() && fuller(&fixture, ELSEWHERE).is_empty());
    }

    #[test]
    fn full_subnet_replaces_a_connection_for_a_validated_client() {
        let mut fixture = Fixture::new(&["--connections-per-subnet", "8"]);
        let (limiter, limits) = (fixture.limiter.clone(), fixture.limits.clone());
        let acquire = |validated, can_replace| {
            let (client, now) = (NEIGHBOUR.parse().unwrap(), quiche::clock::now());
            limiter.try_acquire(client, validated, can_replace, &limits, now)
        };
        let Outcome::Allow(mut unvalidated) = acquire(false, false) else { panic!() };
        assert_eq!(unvalidated.needs_room(&limits), None);
        assert_eq!(fixture.fill(HERE, true), (8, ("close", Limit::Subnet)));
        assert!(matches!(acquire(true, false), Outcome::Close(Limit::Subnet)));
        assert!(matches!(acquire(false, true), Outcome::Retry(Limit::Subnet)));
        let Outcome::Replace(permit) = acquire(true, true) else { panic!() };
        assert!(permit.is_validated() && permit.needs_room(&limits).is_none());
        assert_eq!(unvalidated.needs_room(&limits), Some(Limit::Subnet));
        assert_eq!(unvalidated.admit(false, &limits), Err(Limit::Subnet));
        assert_eq!(unvalidated.admit(true, &limits), Ok(()));
        let clients = |fixture: &Fixture| {
            let counts = fixture.limiter.counts();
            counts.clients.values().flat_map(Ranking::totals).map(|(_, n)| n).sum::<u64>()
        };
        assert_eq!(clients(&fixture), 10);
        drop((permit, unvalidated));
        fixture.permits.clear();
        assert_eq!((clients(&fixture), limiter.counts().clients.len()), (0, 0));
    }

    #[test]
    fn one_client_takes_an_eighth_of_a_seconds_handshakes() {
        let mut fixture = Fixture::new(&["--handshakes-per-second", "80"]);
        assert_eq!(fixture.fill(HERE, true), (10, ("close", Limit::Rate)));
        let others = |n: u8| format!("10.0.{n}.1");
        let allowed = (0..80).filter(|n| fixture.acquire(&others(*n), true).is_ok()).count();
        assert!(allowed >= 60, "{allowed}");
        // Forged addresses use up nobody's share.
        let mut fixture = Fixture::new(&["--handshakes-per-second", "80"]);
        fixture.fill(HERE, false);
        assert_eq!(fixture.acquire(HERE, true), Ok(()));
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
            Outcome::Retry(_) | Outcome::Replace(_) => None,
            Outcome::Close(limit) => {
                assert_eq!(limit, Limit::Connections);
                None
            }
        };
        assert!(matches!(acquire(0, false), Outcome::Retry(Limit::Connections)));
        // An eighth of 80, and an eighth of that from a subnet.
        let mut surplus: Vec<_> =
            (0..5).flat_map(|subnet| [subnet; 3].into_iter().filter_map(acquire_surplus)).collect();
        assert!(
            surplus.len() == 10
                && surplus.iter().all(|permit| permit.needs_room(&limits).is_some())
        );
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
        assert_eq!(one.needs_room(&limits), None);
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
