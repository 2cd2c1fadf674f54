//! Budgets that all workers share: of what clients make their connections keep.
//!
//! Each connection is charged with what it keeps. While all together keep more than a budget
//! allows, the connection that keeps most is closed, whichever worker has it: the newest is as a
//! rule not the one at fault.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

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

/// Handle of the budgets.
#[derive(Clone, Default)]
pub struct Budgets(Arc<SharedBudgets>);

#[derive(Default)]
struct SharedBudgets {
    used: [AtomicU64; COUNT],
    limits: [AtomicU64; COUNT],
    evictions: [AtomicU64; COUNT],
    replacements: AtomicU64,
    workers: Mutex<Vec<Arc<WorkerState>>>,
}

/// What other workers see of a worker.
struct WorkerState {
    /// The largest charge of its connections.
    largest: [AtomicU64; COUNT],
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Budgets of one worker.
pub struct WorkerBudgets {
    budgets: Budgets,
    state: Arc<WorkerState>,

    /// Charges and slots of connections that keep something.
    keepers: [BTreeSet<(u64, usize)>; COUNT],
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

impl Budgets {
    /// Returns the budgets of a worker, which `wake` wakes.
    pub fn of_worker(&self, wake: impl Fn() + Send + Sync + 'static) -> WorkerBudgets {
        let state = Arc::new(WorkerState { largest: Default::default(), wake: Box::new(wake) });
        self.workers().push(Arc::clone(&state));
        WorkerBudgets { budgets: self.clone(), state, keepers: Default::default() }
    }

    /// Returns how much all connections keep.
    pub fn used(&self, resource: Resource) -> u64 {
        self.0.used[resource as usize].load(Ordering::Relaxed)
    }

    /// Returns how much all connections may keep.
    pub fn limit(&self, resource: Resource) -> u64 {
        self.0.limits[resource as usize].load(Ordering::Relaxed)
    }

    /// Returns how many connections were closed because they kept most.
    pub fn evictions(&self, resource: Resource) -> u64 {
        self.0.evictions[resource as usize].load(Ordering::Relaxed)
    }

    /// Returns how many idle connections were closed for new clients of a full server.
    pub fn replacements(&self) -> u64 {
        self.0.replacements.load(Ordering::Relaxed)
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<WorkerState>>> {
        self.0.workers.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Changes the charge of the connection in a slot.
    pub fn charge(&mut self, slot: usize, charge: &mut Charge, next: Charge) {
        for (resource, (before, now)) in charge.0.into_iter().zip(next.0).enumerate() {
            if before == now {
                continue;
            }
            let keepers = &mut self.keepers[resource];
            keepers.remove(&(before, slot));
            if now > 0 {
                keepers.insert((now, slot));
            }
            // Wraps around, and so subtracts.
            let change = now.wrapping_sub(before);
            self.budgets.0.used[resource].fetch_add(change, Ordering::Relaxed);
            self.publish(resource);
        }
        *charge = next;
    }

    /// Returns the slot of the connection that is to be closed, as all keep more of a resource
    /// than they may, and none keeps more of it than this one. Wakes the worker of another.
    pub fn largest_in_excess(&self) -> Option<(Resource, usize)> {
        Resource::ALL.into_iter().find_map(|resource| Some((resource, self.excess(resource)?)))
    }

    /// Counts a connection that is closed because it kept most.
    pub fn count_eviction(&self, resource: Resource) {
        self.budgets.0.evictions[resource as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an idle connection that is closed for a new client.
    pub fn count_replacement(&self) {
        self.budgets.0.replacements.fetch_add(1, Ordering::Relaxed);
    }

    fn excess(&self, resource: Resource) -> Option<usize> {
        if self.budgets.used(resource) <= self.budgets.limit(resource) {
            return None;
        }
        let index = resource as usize;
        let (own, slot) = self.keepers[index].last().copied().unzip();
        let workers = self.budgets.workers();
        let largest_of = |worker: &Arc<WorkerState>| worker.largest[index].load(Ordering::Relaxed);
        let largest = workers.iter().max_by_key(|worker| largest_of(worker))?;
        if own.is_some_and(|own| own >= largest_of(largest)) {
            return slot;
        }
        (largest.wake)();
        None
    }

    fn publish(&self, resource: usize) {
        let largest = self.keepers[resource].last().map_or(0, |(charge, _)| *charge);
        self.state.largest[resource].store(largest, Ordering::Relaxed);
    }
}

impl Drop for WorkerBudgets {
    fn drop(&mut self) {
        for (keepers, used) in self.keepers.iter().zip(&self.budgets.0.used) {
            let kept: u64 = keepers.iter().map(|(charge, _)| charge).sum();
            used.fetch_sub(kept, Ordering::Relaxed);
        }
        self.budgets.workers().retain(|worker| !Arc::ptr_eq(worker, &self.state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::tests::limits;
    use std::sync::atomic::AtomicUsize;

    const LIMIT: &str = "1048576";
    const KIB: u64 = 1024;

    #[test]
    fn largest_keeper_of_all_workers_is_in_excess() {
        let budgets = Budgets::default();
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let mut one = budgets.of_worker(|| ());
        let mut other = budgets.of_worker(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        one.set_limits(&limits(&["--responses-memory-max", LIMIT]));
        let mut charges = [Charge::default(); 3];

        one.charge(7, &mut charges[0], Charge::new(400 * KIB, 0, 0));
        one.charge(8, &mut charges[1], Charge::new(100 * KIB, 0, 0));
        other.charge(3, &mut charges[2], Charge::new(524 * KIB, 0, 0));
        assert_eq!(budgets.used(Resource::Responses), budgets.limit(Resource::Responses));
        assert_eq!((one.largest_in_excess(), other.largest_in_excess()), (None, None));

        one.charge(8, &mut charges[1], Charge::new(101 * KIB, 0, 0));
        assert_eq!((one.largest_in_excess(), woken.load(Ordering::Relaxed)), (None, 1));
        assert_eq!(other.largest_in_excess(), Some((Resource::Responses, 3)));
        other.charge(3, &mut charges[2], Charge::default());
        other.count_eviction(Resource::Responses);
        assert_eq!((one.largest_in_excess(), other.largest_in_excess()), (None, None));
        assert_eq!(budgets.evictions(Resource::Responses), 1);

        one.charge(8, &mut charges[1], Charge::new(700 * KIB, 0, 0));
        assert_eq!(one.largest_in_excess(), Some((Resource::Responses, 8)));
        drop(one);
        assert_eq!(budgets.used(Resource::Responses), 0);
    }

    #[test]
    fn connection_with_most_files_is_in_excess() {
        let budgets = Budgets::default();
        let mut worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--open-files-max", "100"]));
        let mut charges = [Charge::default(); 2];
        worker.charge(1, &mut charges[0], Charge::new(0, 0, 60));
        worker.charge(2, &mut charges[1], Charge::new(0, 0, 41));
        assert_eq!(worker.largest_in_excess(), Some((Resource::Files, 1)));
    }

    #[test]
    fn each_resource_has_its_budget() {
        let budgets = Budgets::default();
        let mut worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--requests-memory-max", LIMIT]));
        let mut charge = Charge::default();
        worker.charge(1, &mut charge, Charge::new(2048 * KIB, 1024 * KIB, 0));
        assert_eq!(worker.largest_in_excess(), None);
        worker.charge(1, &mut charge, Charge::new(2048 * KIB, 1025 * KIB, 0));
        assert_eq!(worker.largest_in_excess(), Some((Resource::Requests, 1)));
        assert_eq!(budgets.used(Resource::Requests), 1025 * KIB);
    }
}
