//! File limits that all workers share: files that responses have open, of each client subnet.
//!
//! A file counts for one of its present readers: the one that had it opened, and when that is done,
//! the one that has had it longest. Another response with the same file opens none. A subnet may
//! have half of all, so that no subnet keeps others from theirs. Beyond that count files that others
//! leave to it, and those of its clients that have fewer than another of them.
//!
//! While all subnets together have more than they may, [`budgets`](crate::admission::budgets) closes
//! a connection of the subnet that has most. Until then others open the fewer the more there are, so
//! that the process does not run out of descriptors.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use ab_test::ClientUnit;
use ipnet::IpNet;

use crate::admission::notices::Notices;
use crate::admission::ranking::change_in;
use crate::admission::ranking::Ranking;
use crate::quic::handle::ConnectionHandle;

/// A subnet may have one in so many of all files open.
const SUBNET_DIVISOR: u64 = 2;

/// Counts of all workers.
#[derive(Clone, Debug, Default)]
pub struct FileLimiter(Arc<Mutex<FileCounts>>);

#[derive(Debug, Default)]
struct FileCounts {
    all: u64,
    subnets: Ranking<IpNet>,
    clients: HashMap<IpNet, Ranking<ClientUnit>>,
}

/// Account of one connection.
#[derive(Clone, Debug)]
pub struct FileAccount {
    limiter: FileLimiter,
    subnet: IpNet,
    client: ClientUnit,
    own: Arc<AtomicU64>,
    owner: Option<(ConnectionHandle, Notices)>,
}

/// Accounts of the present readers of an open file.
#[derive(Clone, Debug, Default)]
pub struct FileReaders(Arc<Mutex<ReaderQueue>>);

/// Readers in the order of their coming; the file counts for the first.
#[derive(Debug, Default)]
struct ReaderQueue {
    readers: BTreeMap<u64, FileAccount>,
    readers_ever: u64,
}

/// Permit of one reader of an open file, who is present until it is dropped.
pub struct FilePermit {
    readers: FileReaders,
    number: u64,
}

/// Error: the client's subnet has its part of all files.
#[derive(Debug)]
pub struct SubnetLimitReached;

impl fmt::Display for SubnetLimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a subnet has half of --open-files-max open")
    }
}

impl std::error::Error for SubnetLimitReached {}

impl FileLimiter {
    /// Returns the account of a connection of a client from a subnet.
    pub fn account(&self, subnet: IpNet, client: ClientUnit) -> FileAccount {
        FileAccount { limiter: self.clone(), subnet, client, own: Arc::default(), owner: None }
    }

    fn counts(&self) -> MutexGuard<'_, FileCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileCounts {
    /// Returns whether a client of a subnet may have one more of `files_max`.
    fn has_room(&self, subnet: IpNet, client: ClientUnit, files_max: u64) -> bool {
        let of_subnet = self.subnets.total_of(subnet);
        let subnet_max = files_max.div_ceil(SUBNET_DIVISOR);
        let neighbours = || self.clients.get(&subnet);
        (self.all < files_max || has_few(&self.subnets, subnet, self.all - files_max))
            && (of_subnet < subnet_max
                || neighbours().is_some_and(|own| has_few(own, client, of_subnet - subnet_max)))
    }

    fn change(&mut self, subnet: IpNet, client: ClientUnit, before: u64, now: u64) {
        self.subnets.change(subnet, before, now);
        change_in(&mut self.clients, subnet, client, before, now);
        self.all = self.all - before + now;
    }
}

/// Returns whether one may have more than there are: it has less than the one that has most, by more
/// than twice the excess. So the excess remains below half of what that one has.
fn has_few<K: Copy + Ord + Hash>(ranking: &Ranking<K>, one: K, excess: u64) -> bool {
    let most = ranking.largest().map_or(0, |largest| ranking.total_of(largest));
    ranking.total_of(one) + 2 * excess + 1 < most
}

impl FileAccount {
    /// Returns the account of this connection, of whose files left to it `notices` are given.
    pub fn of_connection(self, handle: ConnectionHandle, notices: &Notices) -> Self {
        Self { owner: Some((handle, notices.clone())), ..self }
    }

    /// Returns a permit to read a file, unless that has no reader yet, and the subnet has its part
    /// of `files_max`.
    pub fn try_read(&self, readers: &FileReaders, files_max: u64) -> Option<FilePermit> {
        let mut queue = readers.queue();
        if queue.readers.is_empty() && !self.try_charge(files_max) {
            return None;
        }
        let number = queue.readers_ever;
        queue.readers_ever += 1;
        queue.readers.insert(number, self.clone());
        Some(FilePermit { readers: readers.clone(), number })
    }

    /// Charges the account with a file, if the subnet may have one more of `files_max`.
    fn try_charge(&self, files_max: u64) -> bool {
        let mut counts = self.limiter.counts();
        let has_room = counts.has_room(self.subnet, self.client, files_max);
        if has_room {
            counts.change(self.subnet, self.client, 0, 1);
            self.own.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Charges the account with a file that another reader has left to it.
    fn inherit(&self) {
        self.limiter.counts().change(self.subnet, self.client, 0, 1);
        self.own.fetch_add(1, Ordering::Relaxed);
        if let Some((handle, notices)) = &self.owner {
            notices.push(*handle);
        }
    }

    fn release(&self) {
        self.own.fetch_sub(1, Ordering::Relaxed);
        self.limiter.counts().change(self.subnet, self.client, 1, 0);
    }

    /// Returns how many open files count for this connection.
    pub fn open(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }
}

impl FileReaders {
    fn queue(&self) -> MutexGuard<'_, ReaderQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FilePermit {
    fn drop(&mut self) {
        let mut queue = self.readers.queue();
        let is_charged = queue.readers.keys().next() == Some(&self.number);
        let Some(account) = queue.readers.remove(&self.number) else { return };
        if !is_charged {
            return;
        }
        account.release();
        if let Some(next) = queue.readers.values().next() {
            // It has the file already: there is nothing to refuse.
            next.inherit();
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::net::IpAddr;

    /// Returns an account without a connection.
    pub fn account() -> FileAccount {
        account_of(&FileLimiter::default(), "192.0.2.0/24")
    }

    /// Returns the account of a client, whose address is the first of its subnet.
    fn account_of(limiter: &FileLimiter, subnet: &str) -> FileAccount {
        let subnet: IpNet = subnet.parse().unwrap();
        limiter.account(subnet, ClientUnit::of(subnet.addr()))
    }

    /// Has an account open a file that nobody else reads.
    fn open_another(account: &FileAccount, files_max: u64) -> Option<FilePermit> {
        account.try_read(&FileReaders::default(), files_max)
    }

    /// Has two subnets read the same ten files, of twenty, one after the other. Returns the accounts
    /// and their permits.
    fn readers_of_ten_files() -> (FileLimiter, [(FileAccount, Vec<FilePermit>); 2]) {
        let limiter = FileLimiter::default();
        let files: Vec<_> = (0..10).map(|_| FileReaders::default()).collect();
        let readers = ["192.0.2.0/24", "198.51.100.0/24"].map(|subnet| {
            let account = account_of(&limiter, subnet);
            let permits = files.iter().map(|file| account.try_read(file, 20).unwrap()).collect();
            (account, permits)
        });
        (limiter, readers)
    }

    // Otherwise whoever asks for the files of another keeps that one's subnet at its limit.
    #[test]
    fn subnet_that_left_its_files_to_others_opens_as_many_again() {
        let (limiter, [(left, permits), (stays, others)]) = readers_of_ten_files();
        assert_eq!((left.open(), stays.open()), (10, 0));
        assert!(open_another(&left, 20).is_none());
        drop(permits);
        assert_eq!((left.open(), stays.open()), (0, 10));
        let again: Vec<_> = (0..10).map(|_| open_another(&left, 20).unwrap()).collect();
        assert!(open_another(&left, 20).is_none());
        drop((again, others));
        assert_eq!(limiter.counts().all, 0);
    }

    // Otherwise files that others had opened for it count for nobody that is there.
    #[test]
    fn files_that_others_left_count_for_their_reader() {
        let (limiter, [(left, permits), (stays, mut others)]) = readers_of_ten_files();
        others.extend(open_another(&stays, 20));
        drop((left, permits));
        assert_eq!(stays.open(), 11);
        assert!(open_another(&stays, 20).is_none());
        others.truncate(9);
        assert_eq!(stays.open(), 9);
        assert!(open_another(&stays, 20).is_some());
        drop(others);
        assert_eq!(limiter.counts().all, 0);
    }

    #[test]
    fn reader_that_is_not_charged_leaves_without_a_change() {
        let (_, [(first, permits), (second, others)]) = readers_of_ten_files();
        drop(others);
        assert_eq!((first.open(), second.open()), (10, 0));
        drop(permits);
        assert_eq!((first.open(), second.open()), (0, 0));
    }

    // Of the three subnets, two have all files that there may be.
    #[test]
    fn subnet_with_few_files_opens_more_when_others_have_all() {
        let limiter = FileLimiter::default();
        let account = |subnet: &str| account_of(&limiter, subnet);
        let (one, other) = (account("192.0.2.0/24"), account("198.51.100.0/24"));
        let mut permits = Vec::new();
        for account in [&one, &other] {
            permits.extend(std::iter::from_fn(|| open_another(account, 20)));
        }
        assert_eq!((one.open(), other.open()), (10, 10));
        let third = account("203.0.113.0/24");
        permits.extend(std::iter::from_fn(|| open_another(&third, 20)));
        assert_eq!(third.open(), 3);
        // One of the first leaves a file.
        permits.remove(0);
        assert!(open_another(&one, 20).is_none());
        permits.extend(std::iter::from_fn(|| open_another(&third, 20)));
        assert_eq!(third.open(), 4);
    }

    // Otherwise the process runs out of descriptors before a connection is closed.
    #[test]
    fn any_number_of_subnets_and_clients_open_at_most_half_as_many_again() {
        for clients in [1, 2, 20] {
            let limiter = FileLimiter::default();
            let mut permits = Vec::new();
            for (subnet, host) in (0..50).flat_map(|net| (0..clients).map(move |host| (net, host)))
            {
                let client = IpAddr::from([10, 0, subnet, host]);
                let subnet = IpNet::new(client, 24).unwrap().trunc();
                let account = limiter.account(subnet, ClientUnit::of(client));
                permits.extend(std::iter::from_fn(|| open_another(&account, 120)));
            }
            let all = limiter.counts().all;
            assert!((120..=180).contains(&all), "{all} by {clients} clients of a subnet");
        }
    }

    // One client has all files that the subnet may have.
    #[test]
    fn neighbour_with_few_files_opens_more_when_its_subnet_has_half() {
        let limiter = FileLimiter::default();
        let client = |host: u8| {
            let address = IpAddr::from([192, 0, 2, host]);
            limiter.account("192.0.2.0/24".parse().unwrap(), ClientUnit::of(address))
        };
        let (first, neighbour) = (client(1), client(2));
        let mut permits: Vec<_> = std::iter::from_fn(|| open_another(&first, 20)).collect();
        permits.extend(std::iter::from_fn(|| open_another(&neighbour, 20)));
        assert_eq!((first.open(), neighbour.open()), (10, 3));
        drop(permits);
        assert!(limiter.counts().clients.is_empty());
    }

    #[test]
    fn connection_has_a_notice_of_files_left_to_it() {
        let notices = Notices::new(|| ());
        let (limiter, [(_, permits), _]) = readers_of_ten_files();
        let handle = ConnectionHandle::new(3, 4);
        let heir = account_of(&limiter, "203.0.113.0/24");
        let heir = heir.of_connection(handle, &notices);
        let file = FileReaders::default();
        let first = account().try_read(&file, 20).unwrap();
        let second = heir.try_read(&file, 20).unwrap();
        assert!(notices.is_empty());
        drop(first);
        assert_eq!((notices.take(), heir.open()), (vec![handle], 1));
        drop((second, permits));
        assert!(notices.is_empty());
    }

    #[test]
    fn subnet_has_half_of_the_files_and_others_the_rest() {
        let limiter = FileLimiter::default();
        let account = |subnet: &str| account_of(&limiter, subnet);
        let (one, neighbour) = (account("192.0.2.0/24"), account("192.0.2.0/24"));
        let other = account("198.51.100.0/24");
        let mut permits: Vec<_> = (0..6).map(|_| open_another(&one, 20).unwrap()).collect();
        permits.extend((0..4).map(|_| open_another(&neighbour, 20).unwrap()));
        assert!(open_another(&one, 20).is_none() && open_another(&neighbour, 20).is_none());
        assert_eq!((one.open(), neighbour.open()), (6, 4));
        permits.extend((0..10).map(|_| open_another(&other, 20).unwrap()));
        assert!(open_another(&other, 20).is_none());

        permits.remove(0);
        assert_eq!(one.open(), 5);
        assert!(open_another(&neighbour, 20).is_some());
        permits.clear();
        assert_eq!(limiter.counts().all, 0);
    }
}
