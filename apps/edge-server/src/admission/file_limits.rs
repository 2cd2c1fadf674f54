//! File limits that all workers share: files that responses have open, of each client subnet.
//!
//! A file counts for the client that had it opened, until it is closed; another response with the
//! same file opens none. A subnet may have half of all, so that no subnet keeps others from
//! theirs. While all subnets together have more than they may,
//! [`budgets`](crate::admission::budgets) closes the connection that has most.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use ipnet::IpNet;

/// A subnet may have one in so many of all files open.
const SUBNET_DIVISOR: u64 = 2;

/// Counts of all workers.
#[derive(Clone, Default)]
pub struct FileLimiter(Arc<Mutex<HashMap<IpNet, u64>>>);

/// Account of one connection.
#[derive(Clone)]
pub struct FileAccount {
    limiter: FileLimiter,
    subnet: IpNet,
    own: Arc<AtomicU64>,
}

/// Permit of an open file, which counts it until it is dropped.
pub struct FilePermit(FileAccount);

impl FileLimiter {
    /// Returns the account of a connection from a subnet.
    pub fn account(&self, subnet: IpNet) -> FileAccount {
        FileAccount { limiter: self.clone(), subnet, own: Arc::default() }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpNet, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileAccount {
    /// Returns a permit for one more file, unless the subnet has its part of `files_max`.
    pub fn try_open(&self, files_max: u64) -> Option<FilePermit> {
        let mut counts = self.limiter.counts();
        let here = counts.entry(self.subnet).or_default();
        if *here >= files_max.div_ceil(SUBNET_DIVISOR) {
            return None;
        }
        *here += 1;
        self.own.fetch_add(1, Ordering::Relaxed);
        Some(FilePermit(self.clone()))
    }

    /// Returns how many files are open that this connection had opened.
    pub fn open(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }
}

impl Drop for FilePermit {
    fn drop(&mut self) {
        let FileAccount { limiter, subnet, own } = &self.0;
        own.fetch_sub(1, Ordering::Relaxed);
        let mut counts = limiter.counts();
        if let Some(here) = counts.get_mut(subnet) {
            *here -= 1;
            if *here == 0 {
                counts.remove(subnet);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns an account without a connection.
    pub fn account() -> FileAccount {
        FileLimiter::default().account("192.0.2.0/24".parse().unwrap())
    }

    #[test]
    fn subnet_has_half_of_the_files_and_others_the_rest() {
        let limiter = FileLimiter::default();
        let account = |subnet: &str| limiter.account(subnet.parse().unwrap());
        let (one, neighbour) = (account("192.0.2.0/24"), account("192.0.2.0/24"));
        let other = account("198.51.100.0/24");
        let mut permits: Vec<_> = (0..6).map(|_| one.try_open(20).unwrap()).collect();
        permits.extend((0..4).map(|_| neighbour.try_open(20).unwrap()));
        assert!(one.try_open(20).is_none() && neighbour.try_open(20).is_none());
        assert_eq!((one.open(), neighbour.open()), (6, 4));
        permits.extend((0..10).map(|_| other.try_open(20).unwrap()));
        assert!(other.try_open(20).is_none());

        permits.remove(0);
        assert_eq!(one.open(), 5);
        assert!(neighbour.try_open(20).is_some());
        permits.clear();
        assert!(limiter.counts().is_empty());
    }
}
