//! Log of invalidations and purges: whether what was asked for before one of them may have changed.
//!
//! Clients can have any number of URLs forgotten, and so each counts at a place that its hash has, which
//! others may share. Purges by prefix and tag are the operator's: they are few, and are remembered as they are.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::content::cache::purge::PurgeTarget;

/// Counters of URLs.
const COUNTERS: usize = 1 << 14;

/// The most purges that are remembered. What was asked for before counts as changed.
const PURGES_MAX: usize = 1000;

/// Log of what was forgotten.
#[derive(Debug)]
pub struct InvalidationLog {
    hasher: RandomState,

    /// Numbers of invalidations, by the hash of the URL.
    urls: Box<[AtomicU64]>,
    purges: Mutex<RecentPurges>,
}

/// Purges of more than one URL.
#[derive(Debug, Default)]
struct RecentPurges {
    /// Number of the first that is remembered.
    first: u64,
    targets: VecDeque<PurgeTarget>,
}

/// Place in the log at which a response was asked for.
#[derive(Clone, Copy, Debug)]
pub struct InvalidationMark {
    url: u64,
    purge: u64,
}

impl Default for InvalidationLog {
    fn default() -> Self {
        let urls = (0..COUNTERS).map(|_| AtomicU64::default()).collect();
        Self { hasher: RandomState::new(), urls, purges: Mutex::default() }
    }
}

impl InvalidationLog {
    /// Returns the mark of a request that is sent now.
    pub fn mark(&self, key: &str) -> InvalidationMark {
        let purges = self.purges();
        let purge = purges.first + purges.targets.len() as u64;
        InvalidationMark { url: self.counter(key).load(Ordering::SeqCst), purge }
    }

    /// Adds what is forgotten, before it is.
    pub fn add(&self, target: &PurgeTarget) {
        if let PurgeTarget::Url(key) = target {
            self.counter(key).fetch_add(1, Ordering::SeqCst);
            return;
        }
        let mut purges = self.purges();
        if purges.targets.len() == PURGES_MAX {
            purges.targets.pop_front();
            purges.first += 1;
        }
        purges.targets.push_back(target.clone());
    }

    /// Returns whether nothing since the mark means a response with this key and these tags.
    pub fn is_current<'a>(
        &self,
        mark: InvalidationMark,
        key: &str,
        tags: impl Iterator<Item = &'a str> + Clone,
    ) -> bool {
        self.is_unchanged(mark, key, |target| target.means(key, tags.clone()))
    }

    /// Returns whether nothing since the mark may mean a response with this key.
    pub fn is_surely_current(&self, mark: InvalidationMark, key: &str) -> bool {
        self.is_unchanged(mark, key, |target| target.may_mean(key))
    }

    fn is_unchanged(
        &self,
        mark: InvalidationMark,
        key: &str,
        is_meant: impl Fn(&PurgeTarget) -> bool,
    ) -> bool {
        if self.counter(key).load(Ordering::SeqCst) != mark.url {
            return false;
        }
        let purges = self.purges();
        let known = mark.purge.checked_sub(purges.first).and_then(|at| usize::try_from(at).ok());
        known.is_some_and(|at| !purges.targets.iter().skip(at).any(is_meant))
    }

    fn counter(&self, key: &str) -> &AtomicU64 {
        &self.urls[self.hasher.hash_one(key) as usize % COUNTERS]
    }

    fn purges(&self) -> MutexGuard<'_, RecentPurges> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_current_unless_it_is_meant() {
        let url = |url: &str| PurgeTarget::Url(url.to_owned());
        let prefix = |prefix: &str| PurgeTarget::Prefix(prefix.to_owned());
        let tag = |tag: &str| PurgeTarget::Tag(tag.to_owned());
        for (targets, is_current, is_surely) in [
            (vec![], true, true),
            (vec![url("a/y")], true, true),
            (vec![url("a/x")], false, false),
            (vec![prefix("a/y")], true, true),
            (vec![prefix("a/")], false, false),
            (vec![tag("v")], true, false),
            (vec![tag("u")], false, false),
            (vec![PurgeTarget::All], false, false),
            (vec![prefix("b/"); PURGES_MAX], true, true),
            (vec![prefix("b/"); PURGES_MAX + 1], false, false),
        ] {
            let log = InvalidationLog::default();
            // What precedes the mark does not count.
            [url("a/x"), tag("u"), PurgeTarget::All].iter().for_each(|target| log.add(target));
            let is_shared = std::ptr::eq(log.counter("a/x"), log.counter("a/y"));
            let mark = log.mark("a/x");
            let mut targets =
                targets.iter().rev().filter(|target| !is_shared || **target != url("a/y"));
            targets.clone().for_each(|target| log.add(target));
            let tags = ["t", "u"].into_iter();
            let got = (log.is_current(mark, "a/x", tags), log.is_surely_current(mark, "a/x"));
            assert_eq!(got, (is_current, is_surely), "{:?}", targets.next());
        }
    }

    // A client that has many URLs forgotten is in nobody's way.
    #[test]
    fn flood_of_other_urls_leaves_most_current() {
        let log = InvalidationLog::default();
        let keys: Vec<_> = (0..1000).map(|number| format!("a/{number}")).collect();
        let marks: Vec<_> = keys.iter().map(|key| log.mark(key)).collect();
        (0..1000).for_each(|number| log.add(&PurgeTarget::Url(format!("b/{number}"))));
        let current = keys.iter().zip(&marks);
        let current = current.filter(|(key, mark)| log.is_surely_current(**mark, key)).count();
        assert!(current > 800, "{current}");
    }
}
