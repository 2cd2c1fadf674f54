//! The gate that all workers share: how many connections there are, in all and of each
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
//! The gate is looked at when a client without a connection comes, when its handshake is
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

use crate::admission::token_bucket::Bucket;
use crate::config::limits::Limits;

/// The share of all connections, and of a subnet's, that may be unproven.
const UNPROVEN_SHARE: u32 = 8;

/// The share of a second's handshakes that is left to proven clients.
const PROVEN_RESERVE: Duration = Duration::from_millis(500);

/// The gate, for one worker.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    lengths: PrefixLengths,
    crowd: Mutex<Crowd>,
}

/// Who is there.
struct Crowd {
    all: Count,

    /// Subnets with connections, and with no others.
    subnets: HashMap<IpNet, Count>,
    handshakes: Bucket,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    proven: u32,
    unproven: u32,
}

/// A connection's place among those that are counted, which dropping gives back.
pub struct Place {
    gate: Gate,
    subnet: IpNet,
    proven: bool,
}

/// Which limit has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Connections,
    Subnet,
    Rate,
}

/// What becomes of a client that comes to the gate.
pub enum Entry {
    Admitted(Place),

    /// It has to prove its address first.
    Doubted(Bound),
    Refused(Bound),
}

impl Bound {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Subnet => "subnet",
            Self::Rate => "rate",
        }
    }
}

impl Gate {
    /// With nobody inside. Subnets are those of the leading bits of addresses.
    pub fn new(lengths: PrefixLengths) -> Self {
        let crowd = Crowd {
            all: Count::default(),
            subnets: HashMap::new(),
            handshakes: Bucket::new(clock::now()),
        };
        Self(Arc::new(Shared { lengths, crowd: Mutex::new(crowd) }))
    }

    /// A client comes, whose address is proven or not.
    pub fn enter(&self, client: IpAddr, proven: bool, limits: &Limits, now: Instant) -> Entry {
        let subnet = self.subnet(client);
        let mut crowd = self.crowd();
        let here = crowd.subnets.get(&subnet).copied().unwrap_or_default();
        if crowd.all.sum() >= limits.connections_max {
            return Entry::Refused(Bound::Connections);
        }
        if here.proven >= limits.connections_per_subnet {
            return Entry::Refused(Bound::Subnet);
        }
        if !proven && crowd.all.unproven >= share(limits.connections_max) {
            return Entry::Doubted(Bound::Connections);
        }
        if !proven && here.unproven >= share(limits.connections_per_subnet) {
            return Entry::Doubted(Bound::Subnet);
        }
        let reserve = if proven { Duration::ZERO } else { PROVEN_RESERVE };
        if !crowd.handshakes.take(limits.handshakes_per_second, reserve, now) {
            return match proven {
                true => Entry::Refused(Bound::Rate),
                false => Entry::Doubted(Bound::Rate),
            };
        }
        crowd.change(subnet, |count| *count.of(proven) += 1);
        Entry::Admitted(Place { gate: self.clone(), subnet, proven })
    }

    fn subnet(&self, client: IpAddr) -> IpNet {
        let client = client.to_canonical();
        let length = match client {
            IpAddr::V4(_) => self.0.lengths.v4,
            IpAddr::V6(_) => self.0.lengths.v6,
        };
        IpNet::new(client, length).unwrap_or_else(|_| client.into()).trunc()
    }

    fn crowd(&self) -> MutexGuard<'_, Crowd> {
        self.0.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crowd {
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

impl Place {
    /// The client's handshake is complete. Returns whether its subnet has room for it.
    pub fn prove(&mut self, limits: &Limits) -> bool {
        if self.proven {
            return true;
        }
        let mut crowd = self.gate.crowd();
        let here = crowd.subnets.get(&self.subnet).copied().unwrap_or_default();
        if here.proven >= limits.connections_per_subnet {
            return false;
        }
        crowd.change(self.subnet, |count| {
            count.unproven -= 1;
            count.proven += 1;
        });
        self.proven = true;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.crowd().change(self.subnet, |count| *count.of(self.proven) -= 1);
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

    fn gate() -> Gate {
        Gate::new(PrefixLengths::default())
    }

    /// A gate, and who has come in.
    struct Scene {
        gate: Gate,
        limits: Limits,
        inside: Vec<Place>,
    }

    impl Scene {
        fn new(options: &[&str]) -> Self {
            Self { gate: gate(), limits: limits(options), inside: Vec::new() }
        }

        /// What becomes of a client.
        fn enter(&mut self, client: &str, proven: bool) -> Result<(), (&'static str, Bound)> {
            let now = quiche::clock::now();
            match self.gate.enter(client.parse().unwrap(), proven, &self.limits, now) {
                Entry::Admitted(place) => {
                    self.inside.push(place);
                    Ok(())
                }
                Entry::Doubted(bound) => Err(("doubted", bound)),
                Entry::Refused(bound) => Err(("refused", bound)),
            }
        }

        /// Lets the same come in until it is told otherwise. Returns how many came in, and
        /// what is said then.
        fn fill(&mut self, client: &str, proven: bool) -> (usize, (&'static str, Bound)) {
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
        let mut scene = Scene::new(&["--connections-max", "10", "--connections-per-subnet", "6"]);
        assert_eq!(scene.fill(HERE, true), (6, ("refused", Bound::Subnet)));
        assert_eq!(scene.enter(NEIGHBOUR, true), Err(("refused", Bound::Subnet)));
        assert_eq!(scene.enter("::ffff:192.0.2.7", true), Err(("refused", Bound::Subnet)));
        assert_eq!(scene.fill(ELSEWHERE, true), (4, ("refused", Bound::Connections)));
        // Six from here come first: one goes.
        scene.inside.remove(0);
        assert_eq!(scene.enter(NEIGHBOUR, true), Ok(()));
        scene.inside.clear();
        assert!(scene.gate.crowd().subnets.is_empty());
        assert_eq!(scene.gate.crowd().all, Count::default());
        assert_eq!(scene.fill(HERE, true).0, 6);
    }

    #[test]
    fn forged_clients_make_others_of_their_subnet_prove_themselves_and_lock_nobody_out() {
        let mut scene = Scene::new(&["--connections-max", "800", "--connections-per-subnet", "80"]);
        assert_eq!(scene.fill(HERE, false), (10, ("doubted", Bound::Subnet)));
        assert_eq!(scene.fill(NEIGHBOUR, true), (80, ("refused", Bound::Subnet)));
        assert_eq!(scene.enter(ELSEWHERE, false), Ok(()));
    }

    #[test]
    fn forged_clients_of_many_subnets_leave_most_of_the_server_to_others() {
        let mut scene = Scene::new(&["--connections-max", "80"]);
        let told = (0..=255).map(|n| scene.enter(&format!("10.0.{n}.1"), false));
        let told: Vec<_> = told.collect();
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 10);
        assert_eq!(told.last(), Some(&Err(("doubted", Bound::Connections))));
        assert_eq!(scene.enter("10.0.255.1", true), Ok(()));
    }

    #[test]
    fn handshakes_of_a_second_are_bounded_and_half_of_them_left_to_proven_clients() {
        let mut scene = Scene::new(&["--handshakes-per-second", "100"]);
        let now = quiche::clock::now();
        let mut enter = |proven| {
            let client = "192.0.2.1".parse().unwrap();
            match scene.gate.enter(client, proven, &scene.limits, now) {
                Entry::Admitted(place) => {
                    scene.inside.push(place);
                    "admitted"
                }
                Entry::Doubted(Bound::Rate) => "doubted",
                Entry::Refused(Bound::Rate) => "refused",
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
        let mut scene = Scene::new(&["--connections-per-subnet", "16"]);
        assert_eq!(scene.fill(HERE, false), (2, ("doubted", Bound::Subnet)));
        let mut late = scene.inside.pop().unwrap();
        let limits = scene.limits.clone();
        assert!(scene.inside[0].prove(&limits) && scene.inside[0].prove(&limits));
        assert_eq!(scene.fill(HERE, true), (15, ("refused", Bound::Subnet)));
        assert!(!late.prove(&limits));
        scene.inside.pop();
        assert!(late.prove(&limits));
        drop(late);
        assert_eq!(scene.gate.crowd().all, Count { proven: 15, unproven: 0 });
    }

    #[test]
    fn workers_share_a_gate() {
        let mut one = Scene::new(&["--connections-max", "3"]);
        let mut other = Scene { gate: one.gate.clone(), ..Scene::new(&["--connections-max", "3"]) };
        assert_eq!((one.enter(HERE, true), other.enter(HERE, true)), (Ok(()), Ok(())));
        assert_eq!(one.fill(ELSEWHERE, true), (1, ("refused", Bound::Connections)));
        assert_eq!(other.enter(HERE, true), Err(("refused", Bound::Connections)));
    }
}
