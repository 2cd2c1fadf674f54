//! The limiter that all workers share: how many connections there are, in all and of each
//! client subnet, and how many handshakes may begin.
//!
//! A client's address is proven by a token or by a handshake that is complete
//! (RFC 9000, 8.1). Until then anybody may have forged it, so that connections are
//! counted apart:
//!
//! - Proven ones are held against their subnet, and whoever comes when that is full is
//!   refused. Only clients that are really there can fill it.
//! - Unproven ones are not. When they are an eighth of what a subnet, or the server, may
//!   have, further clients have to prove their addresses first: a round trip more, and
//!   they are counted among the proven. So whoever forges the addresses of a subnet
//!   makes its clients take that round trip and cannot lock them out.
//! - Of the handshakes that may begin in a second, those of unproven clients leave half to
//!   proven ones.
//!
//! A handshake that began unproven may be complete when its subnet is full by now; it is
//! refused then, so that the limit holds.
//!
//! The limiter is looked at when a client without a connection comes, when its handshake is
//! complete, and at the connection's end; never for a packet of a connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use ipnet::IpNet;
use quiche::clock;
use quiche::path_state::PrefixLengths;

use crate::admission::token_bucket::TokenBucket;
use crate::config::limits::Limits;

/// The share of all connections, and of a subnet's, that may be unproven.
const UNPROVEN_SHARE: u32 = 8;

/// The share of a second's handshakes that is left to proven clients.
const PROVEN_RESERVE: Duration = Duration::from_millis(500);

/// The limiter, for one worker.
#[derive(Clone)]
pub struct ConnectionLimiter(Arc<SharedLimiter>);

struct SharedLimiter {
    lengths: PrefixLengths,
    counts: Mutex<ConnectionCounts>,
}

/// Who is there.
struct ConnectionCounts {
    all: Count,

    /// Subnets with connections, and with no others.
    subnets: HashMap<IpNet, Count>,
    handshakes: TokenBucket,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    proven: u32,
    unproven: u32,
}

/// A connection's permit among those that are counted, which dropping gives back.
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    subnet: IpNet,
    proven: bool,
}

/// Which limit has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Connections,
    Subnet,
    Rate,
}

/// What becomes of a client that comes to the limiter.
pub enum Outcome {
    Allow(ConnectionPermit),

    /// It has to prove its address first.
    Retry(Limit),
    Close(Limit),
}

impl Limit {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Subnet => "subnet",
            Self::Rate => "rate",
        }
    }
}

impl ConnectionLimiter {
    /// With nobody inside. Subnets are those of the leading bits of addresses.
    pub fn new(lengths: PrefixLengths) -> Self {
        let counts = ConnectionCounts {
            all: Count::default(),
            subnets: HashMap::new(),
            handshakes: TokenBucket::new(clock::now()),
        };
        Self(Arc::new(SharedLimiter { lengths, counts: Mutex::new(counts) }))
    }

    /// A client comes, whose address is proven or not.
    pub fn try_acquire(
        &self,
        client: IpAddr,
        proven: bool,
        limits: &Limits,
        now: Instant,
    ) -> Outcome {
        let subnet = self.subnet(client);
        let mut counts = self.counts();
        let here = counts.subnets.get(&subnet).copied().unwrap_or_default();
        if counts.all.sum() >= limits.connections_max {
            return Outcome::Close(Limit::Connections);
        }
        if here.proven >= limits.connections_per_subnet {
            return Outcome::Close(Limit::Subnet);
        }
        if !proven && counts.all.unproven >= share(limits.connections_max) {
            return Outcome::Retry(Limit::Connections);
        }
        if !proven && here.unproven >= share(limits.connections_per_subnet) {
            return Outcome::Retry(Limit::Subnet);
        }
        let reserve = if proven { Duration::ZERO } else { PROVEN_RESERVE };
        if !counts.handshakes.take(limits.handshakes_per_second, reserve, now) {
            return match proven {
                true => Outcome::Close(Limit::Rate),
                false => Outcome::Retry(Limit::Rate),
            };
        }
        counts.change(subnet, |count| *count.of(proven) += 1);
        Outcome::Allow(ConnectionPermit { limiter: self.clone(), subnet, proven })
    }

    fn subnet(&self, client: IpAddr) -> IpNet {
        let client = client.to_canonical();
        let length = match client {
            IpAddr::V4(_) => self.0.lengths.v4,
            IpAddr::V6(_) => self.0.lengths.v6,
        };
        IpNet::new(client, length).unwrap_or_else(|_| client.into()).trunc()
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
        change(here);
        if here.sum() == 0 {
            self.subnets.remove(&subnet);
        }
    }
}

impl Count {
    fn sum(self) -> u32 {
        self.proven + self.unproven
    }

    fn of(&mut self, proven: bool) -> &mut u32 {
        match proven {
            true => &mut self.proven,
            false => &mut self.unproven,
        }
    }
}

impl ConnectionPermit {
    /// The client's handshake is complete. Returns whether its subnet has room for it.
    pub fn mark_validated(&mut self, limits: &Limits) -> bool {
        if self.proven {
            return true;
        }
        let mut counts = self.limiter.counts();
        let here = counts.subnets.get(&self.subnet).copied().unwrap_or_default();
        if here.proven >= limits.connections_per_subnet {
            return false;
        }
        counts.change(self.subnet, |count| {
            count.unproven -= 1;
            count.proven += 1;
        });
        self.proven = true;
        true
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.counts().change(self.subnet, |count| *count.of(self.proven) -= 1);
    }
}

/// How many of so many may be unproven.
fn share(count: u32) -> u32 {
    count.div_ceil(UNPROVEN_SHARE)
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

    /// A limiter, and who has come in.
    struct Fixture {
        limiter: ConnectionLimiter,
        limits: Limits,
        inside: Vec<ConnectionPermit>,
    }

    impl Fixture {
        fn new(options: &[&str]) -> Self {
            Self { limiter: limiter(), limits: limits(options), inside: Vec::new() }
        }

        /// What becomes of a client.
        fn enter(&mut self, client: &str, proven: bool) -> Result<(), (&'static str, Limit)> {
            let now = quiche::clock::now();
            match self.limiter.try_acquire(client.parse().unwrap(), proven, &self.limits, now) {
                Outcome::Allow(permit) => {
                    self.inside.push(permit);
                    Ok(())
                }
                Outcome::Retry(bound) => Err(("doubted", bound)),
                Outcome::Close(bound) => Err(("refused", bound)),
            }
        }

        /// Lets the same come in until it is told otherwise. Returns how many came in, and
        /// what is said then.
        fn fill(&mut self, client: &str, proven: bool) -> (usize, (&'static str, Limit)) {
            for came in 0.. {
                if let Err(told) = self.enter(client, proven) {
                    return (came, told);
                }
            }
            unreachable!()
        }
    }

    #[test]
    fn the_server_and_each_subnet_have_room_for_so_many() {
        let mut fixture =
            Fixture::new(&["--connections-max", "10", "--connections-per-subnet", "6"]);
        assert_eq!(fixture.fill(HERE, true), (6, ("refused", Limit::Subnet)));
        assert_eq!(fixture.enter(NEIGHBOUR, true), Err(("refused", Limit::Subnet)));
        assert_eq!(fixture.enter("::ffff:192.0.2.7", true), Err(("refused", Limit::Subnet)));
        assert_eq!(fixture.fill(ELSEWHERE, true), (4, ("refused", Limit::Connections)));
        // Six from here come first: one goes.
        fixture.inside.remove(0);
        assert_eq!(fixture.enter(NEIGHBOUR, true), Ok(()));
        fixture.inside.clear();
        assert!(fixture.limiter.counts().subnets.is_empty());
        assert_eq!(fixture.limiter.counts().all, Count::default());
        assert_eq!(fixture.fill(HERE, true).0, 6);
    }

    #[test]
    fn forged_clients_make_others_of_their_subnet_prove_themselves_and_lock_nobody_out() {
        let mut fixture =
            Fixture::new(&["--connections-max", "800", "--connections-per-subnet", "80"]);
        assert_eq!(fixture.fill(HERE, false), (10, ("doubted", Limit::Subnet)));
        assert_eq!(fixture.fill(NEIGHBOUR, true), (80, ("refused", Limit::Subnet)));
        assert_eq!(fixture.enter(ELSEWHERE, false), Ok(()));
    }

    #[test]
    fn forged_clients_of_many_subnets_leave_most_of_the_server_to_others() {
        let mut fixture = Fixture::new(&["--connections-max", "80"]);
        let told = (0..=255).map(|n| fixture.enter(&format!("10.0.{n}.1"), false));
        let told: Vec<_> = told.collect();
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 10);
        assert_eq!(told.last(), Some(&Err(("doubted", Limit::Connections))));
        assert_eq!(fixture.enter("10.0.255.1", true), Ok(()));
    }

    #[test]
    fn handshakes_of_a_second_are_bounded_and_half_of_them_left_to_proven_clients() {
        let mut fixture = Fixture::new(&["--handshakes-per-second", "100"]);
        let now = quiche::clock::now();
        let mut enter = |proven| {
            let client = "192.0.2.1".parse().unwrap();
            match fixture.limiter.try_acquire(client, proven, &fixture.limits, now) {
                Outcome::Allow(permit) => {
                    fixture.inside.push(permit);
                    "admitted"
                }
                Outcome::Retry(Limit::Rate) => "doubted",
                Outcome::Close(Limit::Rate) => "refused",
                _ => "other",
            }
        };
        let unproven: Vec<_> = (0..100).map(|_| enter(false)).collect();
        let proven: Vec<_> = (0..100).map(|_| enter(true)).collect();
        let count = |told: &[&str], what| told.iter().filter(|said| **said == what).count();
        assert_eq!((count(&unproven, "admitted"), count(&unproven, "doubted")), (50, 50));
        assert_eq!((count(&proven, "admitted"), count(&proven, "refused")), (50, 50));
    }

    #[test]
    fn a_handshake_that_is_complete_counts_unless_its_subnet_is_full_by_then() {
        let mut fixture = Fixture::new(&["--connections-per-subnet", "16"]);
        assert_eq!(fixture.fill(HERE, false), (2, ("doubted", Limit::Subnet)));
        let mut late = fixture.inside.pop().unwrap();
        let limits = fixture.limits.clone();
        assert!(
            fixture.inside[0].mark_validated(&limits) && fixture.inside[0].mark_validated(&limits)
        );
        assert_eq!(fixture.fill(HERE, true), (15, ("refused", Limit::Subnet)));
        assert!(!late.mark_validated(&limits));
        fixture.inside.pop();
        assert!(late.mark_validated(&limits));
        drop(late);
        assert_eq!(fixture.limiter.counts().all, Count { proven: 15, unproven: 0 });
    }

    #[test]
    fn workers_share_a_gate() {
        let mut one = Fixture::new(&["--connections-max", "3"]);
        let mut other =
            Fixture { limiter: one.limiter.clone(), ..Fixture::new(&["--connections-max", "3"]) };
        assert_eq!((one.enter(HERE, true), other.enter(HERE, true)), (Ok(()), Ok(())));
        assert_eq!(one.fill(ELSEWHERE, true), (1, ("refused", Limit::Connections)));
        assert_eq!(other.enter(HERE, true), Err(("refused", Limit::Connections)));
    }
}
