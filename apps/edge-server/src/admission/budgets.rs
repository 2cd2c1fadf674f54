//! Budgets that all workers share: of what clients make their connections keep.
//!
//! Each connection is charged with what it keeps. While all together keep more than a budget
//! allows, the subnet that keeps most gives, and within it the client that keeps most: its largest
//! connection is closed, whichever worker has it. The largest connection of all may be a regular
//! client's, beside many small ones of another; and the newest is as a rule not the one at fault.
//!
//! Clients whose addresses may be forged count as one subnet of their own until they have completed
//! their handshakes, so that nobody can charge the subnet of another.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use ab_test::ClientUnit;
use ipnet::IpNet;

use crate::admission::ranking::change_in;
use crate::admission::ranking::Ranking;
use crate::config::limits::Limits;

/// Number of resources.
const COUNT: usize = Resource::ALL.len();

/// Resource with a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of responses that clients have not acknowledged.
    Responses,

    /// Bytes of requests: with a gap before them, not read yet, or of an unfinished header.
    Requests,

    /// Files that responses have open.
    Files,
}

/// What one connection keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge([u64; COUNT]);

/// Client that connections are charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payer {
    /// Absent while the address may be forged.
    pub subnet: Option<IpNet>,
    pub client: ClientUnit,
}

/// Account of one connection: what it is charged with.
#[derive(Debug)]
pub struct BudgetAccount {
    payer: Payer,
    charge: Charge,
}

/// Handle of the budgets.
#[derive(Clone, Default)]
pub struct Budgets(Arc<SharedBudgets>);

#[derive(Default)]
struct SharedBudgets {
    /// As in the ledger: without an excess, nobody waits for that.
    used: [AtomicU64; COUNT],
    limits: [AtomicU64; COUNT],
    evictions: [AtomicU64; COUNT],
    replacements: AtomicU64,
    ledger: Mutex<Ledger>,
}

/// What connections of all workers keep.
#[derive(Default)]
struct Ledger {
    resources: [Totals; COUNT],
    wakers: BTreeMap<u64, Box<dyn Fn() + Send + Sync>>,
    workers_ever: u64,
}

/// What is kept of one resource.
#[derive(Default)]
struct Totals {
    subnets: Ranking<Option<IpNet>>,
    clients: HashMap<Option<IpNet>, Ranking<Payer>>,
    connections: HashMap<Payer, Ranking<Keeper>>,
}

/// A connection that keeps something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Keeper {
    worker: u64,
    slot: usize,
}

/// Budgets of one worker.
pub struct WorkerBudgets {
    budgets: Budgets,
    worker: u64,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 3] = [Self::Responses, Self::Requests, Self::Files];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Requests => "requests",
            Self::Files => "files",
        }
    }

    fn limit(self, limits: &Limits) -> u64 {
        match self {
            Self::Responses => limits.responses_memory_max,
            Self::Requests => limits.requests_memory_max,
            Self::Files => limits.open_files(),
        }
    }
}

impl Charge {
    /// Returns the charge of a connection that keeps so many bytes and files.
    pub fn new(responses: u64, requests: u64, files: u64) -> Self {
        Self([responses, requests, files])
    }
}

impl BudgetAccount {
    /// Returns the account of a connection of this client.
    pub fn new(payer: Payer) -> Self {
        Self { payer, charge: Charge::default() }
    }
}

impl Budgets {
    /// Returns the budgets of a worker, which `wake` wakes.
    pub fn of_worker(&self, wake: impl Fn() + Send + Sync + 'static) -> WorkerBudgets {
        let mut ledger = self.ledger();
        let worker = ledger.workers_ever;
        ledger.workers_ever += 1;
        ledger.wakers.insert(worker, Box::new(wake));
        WorkerBudgets { budgets: self.clone(), worker }
    }

    /// Returns how much all connections keep.
    pub fn used(&self, resource: Resource) -> u64 {
        self.0.used[resource as usize].load(Ordering::Relaxed)
    }

    /// Returns how much all connections may keep.
    pub fn limit(&self, resource: Resource) -> u64 {
        self.0.limits[resource as usize].load(Ordering::Relaxed)
    }

    /// Returns how many connections were closed because their subnet kept most.
    pub fn evictions(&self, resource: Resource) -> u64 {
        self.0.evictions[resource as usize].load(Ordering::Relaxed)
    }

    /// Returns how many connections were closed for new clients of a full server.
    pub fn replacements(&self) -> u64 {
        self.0.replacements.load(Ordering::Relaxed)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_exceeded(&self, resource: Resource) -> bool {
        self.used(resource) > self.limit(resource)
    }
}

impl Totals {
    /// Changes what a connection is charged with.
    fn change(&mut self, payer: Payer, keeper: Keeper, before: u64, now: u64) {
        self.subnets.change(payer.subnet, before, now);
        change_in(&mut self.clients, payer.subnet, payer, before, now);
        change_in(&mut self.connections, payer, keeper, before, now);
    }

    /// Returns the largest connection of the client that keeps most, of the subnet that does.
    fn largest(&self) -> Option<Keeper> {
        let subnet = self.subnets.largest()?;
        let payer = self.clients.get(&subnet)?.largest()?;
        self.connections.get(&payer)?.largest()
    }

    /// Removes the connections of a worker. Returns what they kept.
    fn remove_worker(&mut self, worker: u64) -> u64 {
        let of_client = |(payer, ranking): (&Payer, &Ranking<Keeper>)| {
            let own = ranking.totals().filter(|(keeper, _)| keeper.worker == worker);
            own.map(|(keeper, charge)| (*payer, keeper, charge)).collect::<Vec<_>>()
        };
        let own: Vec<_> = self.connections.iter().flat_map(of_client).collect();
        own.iter().for_each(|(payer, keeper, charge)| self.change(*payer, *keeper, *charge, 0));
        own.iter().map(|(_, _, charge)| charge).sum()
    }
}

impl WorkerBudgets {
    /// Applies the limits.
    pub fn set_limits(&self, limits: &Limits) {
        for resource in Resource::ALL {
            let limit = resource.limit(limits);
            self.budgets.0.limits[resource as usize].store(limit, Ordering::Relaxed);
        }
    }

    /// Changes what the connection in a slot is charged with.
    pub fn charge(&self, slot: usize, account: &mut BudgetAccount, next: Charge) {
        if account.charge == next {
            return;
        }
        let keeper = Keeper { worker: self.worker, slot };
        let mut ledger = self.budgets.ledger();
        for (resource, (before, now)) in account.charge.0.into_iter().zip(next.0).enumerate() {
            if before == now {
                continue;
            }
            ledger.resources[resource].change(account.payer, keeper, before, now);
            // Wraps around, and so subtracts.
            let change = now.wrapping_sub(before);
            self.budgets.0.used[resource].fetch_add(change, Ordering::Relaxed);
        }
        account.charge = next;
    }

    /// Charges another client with what the connection in a slot keeps.
    pub fn reassign(&self, slot: usize, account: &mut BudgetAccount, payer: Payer) {
        let charge = account.charge;
        self.charge(slot, account, Charge::default());
        account.payer = payer;
        self.charge(slot, account, charge);
    }

    /// Returns the slot of the connection that is to be closed: all keep more of a resource than
    /// they may, no subnet keeps more of it than this one's, no client of that more than this one,
    /// and no other connection of the client. Wakes the worker of another.
    pub fn largest_in_excess(&self) -> Option<(Resource, usize)> {
        Resource::ALL.into_iter().find_map(|resource| Some((resource, self.excess(resource)?)))
    }

    /// Counts a connection that is closed because its subnet kept most.
    pub fn count_eviction(&self, resource: Resource) {
        self.budgets.0.evictions[resource as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed for a new client.
    pub fn count_replacement(&self) {
        self.budgets.0.replacements.fetch_add(1, Ordering::Relaxed);
    }

    fn excess(&self, resource: Resource) -> Option<usize> {
        if !self.budgets.is_exceeded(resource) {
            return None;
        }
        let ledger = self.budgets.ledger();
        // Another worker may have closed one meanwhile.
        if !self.budgets.is_exceeded(resource) {
            return None;
        }
        let largest = ledger.resources[resource as usize].largest()?;
        if largest.worker == self.worker {
            return Some(largest.slot);
        }
        if let Some(wake) = ledger.wakers.get(&largest.worker) {
            wake();
        }
        None
    }
}

impl Drop for WorkerBudgets {
    fn drop(&mut self) {
        let mut ledger = self.budgets.ledger();
        for (totals, used) in ledger.resources.iter_mut().zip(&self.budgets.0.used) {
            used.fetch_sub(totals.remove_worker(self.worker), Ordering::Relaxed);
        }
        ledger.wakers.remove(&self.worker);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::config::limits::tests::limits;
    use std::sync::atomic::AtomicUsize;

    const LIMIT: &str = "1048576";
    const KIB: u64 = 1024;

    /// Returns accounts of a client, whose address is the first of its subnet.
    fn accounts<const N: usize>(subnet: &str) -> [BudgetAccount; N] {
        let subnet: IpNet = subnet.parse().unwrap();
        [(); N].map(|()| account(&subnet.addr().to_string(), true))
    }

    pub fn account(client: &str, validated: bool) -> BudgetAccount {
        BudgetAccount::new(payer(client, validated))
    }

    fn payer(client: &str, validated: bool) -> Payer {
        let client = client.parse().unwrap();
        let subnet = validated.then(|| IpNet::new(client, 24).unwrap().trunc());
        Payer { subnet, client: ClientUnit::of(client) }
    }

    // The numbers of an attack: the regular download keeps most of all connections.
    #[test]
    fn many_small_keepers_of_a_subnet_give_before_a_large_one() {
        let budgets = Budgets::default();
        let [one, other] = [(); 2].map(|()| budgets.of_worker(|| ()));
        one.set_limits(&limits(&["--responses-memory-max", "2000000"]));
        let [mut download] = accounts("198.51.100.0/24");
        one.charge(100, &mut download, Charge::new(770_000, 0, 0));
        let mut small = accounts::<22>("192.0.2.0/24");
        let mut closed = 0;
        for (slot, account) in small.iter_mut().enumerate() {
            let worker = if slot % 2 == 0 { &one } else { &other };
            worker.charge(slot, account, Charge::new(80_000 + slot as u64, 0, 0));
            let in_excess: Vec<_> =
                [&one, &other].into_iter().filter_map(WorkerBudgets::largest_in_excess).collect();
            if budgets.used(Resource::Responses) <= 2_000_000 {
                assert_eq!(in_excess, []);
                continue;
            }
            // The largest of the subnet, in whichever worker.
            assert_eq!(in_excess, [(Resource::Responses, slot)]);
            worker.charge(slot, account, Charge::default());
            closed += 1;
        }
        assert_eq!(closed, 22 - 15);
        assert_eq!(budgets.used(Resource::Responses), 770_000 + 15 * 80_000 + (0..15).sum::<u64>());
    }

    #[test]
    fn many_small_keepers_of_a_client_give_before_a_neighbour() {
        let budgets = Budgets::default();
        let worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--responses-memory-max", "2000000"]));
        let mut download = account("192.0.2.1", true);
        worker.charge(100, &mut download, Charge::new(770_000, 0, 0));
        let mut small = [(); 20].map(|()| account("192.0.2.9", true));
        for (slot, account) in small.iter_mut().enumerate() {
            worker.charge(slot, account, Charge::new(80_000, 0, 0));
            if let Some((_, in_excess)) = worker.largest_in_excess() {
                assert_ne!(in_excess, 100);
                worker.charge(in_excess, account, Charge::default());
            }
        }
        assert!(budgets.used(Resource::Responses) > 770_000 + 1_000_000);
    }

    #[test]
    fn forged_clients_give_before_the_subnet_that_they_forge() {
        let budgets = Budgets::default();
        let worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--requests-memory-max", LIMIT]));
        let mut honest = account("192.0.2.1", true);
        worker.charge(100, &mut honest, Charge::new(0, 100 * KIB, 0));
        let mut forged: Vec<_> =
            (2..100).map(|host| account(&format!("192.0.2.{host}"), false)).collect();
        for (slot, account) in forged.iter_mut().enumerate() {
            worker.charge(slot, account, Charge::new(0, 13 * KIB, 0));
        }
        let (_, in_excess) = worker.largest_in_excess().unwrap();
        assert_ne!(in_excess, 100);

        // One completes its handshake, and keeps most of its subnet.
        worker.charge(5, &mut forged[5], Charge::new(0, 300 * KIB, 0));
        worker.reassign(5, &mut forged[5], payer("192.0.2.7", true));
        for (slot, account) in forged.iter_mut().enumerate().filter(|(slot, _)| *slot != 5) {
            worker.charge(slot, account, Charge::default());
        }
        assert_eq!(budgets.used(Resource::Requests), 400 * KIB);
        worker.charge(5, &mut forged[5], Charge::new(0, 1000 * KIB, 0));
        assert_eq!(worker.largest_in_excess(), Some((Resource::Requests, 5)));
    }

    #[test]
    fn largest_keeper_of_a_subnet_is_in_excess_in_any_worker() {
        let budgets = Budgets::default();
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let one = budgets.of_worker(|| ());
        let other = budgets.of_worker(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        one.set_limits(&limits(&["--responses-memory-max", LIMIT]));
        let mut accounts = accounts::<3>("192.0.2.0/24");

        one.charge(7, &mut accounts[0], Charge::new(400 * KIB, 0, 0));
        one.charge(8, &mut accounts[1], Charge::new(100 * KIB, 0, 0));
        other.charge(3, &mut accounts[2], Charge::new(524 * KIB, 0, 0));
        assert_eq!(budgets.used(Resource::Responses), budgets.limit(Resource::Responses));
        assert_eq!((one.largest_in_excess(), other.largest_in_excess()), (None, None));

        one.charge(8, &mut accounts[1], Charge::new(101 * KIB, 0, 0));
        assert_eq!((one.largest_in_excess(), woken.load(Ordering::Relaxed)), (None, 1));
        assert_eq!(other.largest_in_excess(), Some((Resource::Responses, 3)));
        other.charge(3, &mut accounts[2], Charge::default());
        other.count_eviction(Resource::Responses);
        assert_eq!((one.largest_in_excess(), other.largest_in_excess()), (None, None));
        assert_eq!(budgets.evictions(Resource::Responses), 1);

        one.charge(8, &mut accounts[1], Charge::new(700 * KIB, 0, 0));
        assert_eq!(one.largest_in_excess(), Some((Resource::Responses, 8)));
        drop(one);
        assert_eq!(budgets.used(Resource::Responses), 0);
    }

    #[test]
    fn connection_with_most_files_is_in_excess() {
        let budgets = Budgets::default();
        let worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--open-files-max", "100"]));
        let mut accounts = accounts::<2>("192.0.2.0/24");
        worker.charge(1, &mut accounts[0], Charge::new(0, 0, 60));
        worker.charge(2, &mut accounts[1], Charge::new(0, 0, 41));
        assert_eq!(worker.largest_in_excess(), Some((Resource::Files, 1)));
    }

    #[test]
    fn each_resource_has_its_budget() {
        let budgets = Budgets::default();
        let worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--requests-memory-max", LIMIT]));
        let [mut account] = accounts("192.0.2.0/24");
        worker.charge(1, &mut account, Charge::new(2048 * KIB, 1024 * KIB, 0));
        assert_eq!(worker.largest_in_excess(), None);
        worker.charge(1, &mut account, Charge::new(2048 * KIB, 1025 * KIB, 0));
        assert_eq!(worker.largest_in_excess(), Some((Resource::Requests, 1)));
        assert_eq!(budgets.used(Resource::Requests), 1025 * KIB);
    }
}
