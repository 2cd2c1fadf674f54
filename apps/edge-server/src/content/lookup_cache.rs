//! Cache of lookups: small files with their content, and names that are not there. What it tells may be
//! as old as [`VALID_FOR`].

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use foldhash::quality::RandomState;
use quick_cache::sync::Cache;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::Equivalent;
use quick_cache::Weighter;

use crate::content::file_lookup::KeptLookup;
use crate::http::content_coding::Coding;

/// How long a lookup is valid.
pub const VALID_FOR: Duration = Duration::from_secs(1);

/// What an entry takes besides its path and content, in bytes.
const ENTRY_BYTES: u64 = 400;

/// What an entry takes on average, as far as the number of entries is guessed by it.
const ENTRY_BYTES_GUESSED: u64 = 4 << 10;

/// Cache of all hosts.
#[derive(Debug)]
pub struct LookupCache(Cache<Key, Entry, ByBytes, RandomState>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    host: u32,
    accepted: AcceptedCodings,
    path: Box<str>,
}

/// The same, of a request.
#[derive(Hash)]
struct KeyRef<'a> {
    host: u32,
    accepted: AcceptedCodings,
    path: &'a str,
}

/// Codings in the order of a client's preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AcceptedCodings([Option<Coding>; Coding::ALL.len()]);

#[derive(Clone, Debug)]
struct Entry {
    lookup: Arc<KeptLookup>,
    found: SystemTime,
}

#[derive(Clone, Debug)]
struct ByBytes;

impl LookupCache {
    /// Returns an empty cache of so many bytes at most.
    pub fn new(bytes_max: u64) -> Self {
        let entries = usize::try_from(bytes_max / ENTRY_BYTES_GUESSED).unwrap_or(usize::MAX);
        let hasher = RandomState::default();
        Self(Cache::with(entries.max(1), bytes_max, ByBytes, hasher, DefaultLifecycle::default()))
    }

    /// Returns what a path of a host was found to be, if that is valid.
    pub fn get(
        &self,
        host: u32,
        path: &str,
        accepted: &[Coding],
        wall_now: SystemTime,
    ) -> Option<Arc<KeptLookup>> {
        let key = KeyRef { host, accepted: AcceptedCodings::of(accepted), path };
        let Entry { lookup, found } = self.0.get(&key)?;
        // Never if the clock was set back.
        wall_now.duration_since(found).is_ok_and(|age| age < VALID_FOR).then_some(lookup)
    }

    /// Keeps what a path was found to be.
    pub fn insert(
        &self,
        host: u32,
        path: &str,
        accepted: &[Coding],
        lookup: KeptLookup,
        found: SystemTime,
    ) {
        let key = Key { host, accepted: AcceptedCodings::of(accepted), path: path.into() };
        self.0.insert(key, Entry { lookup: Arc::new(lookup), found });
    }
}

impl AcceptedCodings {
    fn of(accepted: &[Coding]) -> Self {
        let mut codings = [None; Coding::ALL.len()];
        for (slot, coding) in codings.iter_mut().zip(accepted) {
            *slot = Some(*coding);
        }
        Self(codings)
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        (self.host, self.accepted, self.path) == (key.host, key.accepted, &*key.path)
    }
}

impl Weighter<Key, Entry> for ByBytes {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        ENTRY_BYTES + key.path.len() as u64 + entry.lookup.kept_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    use rustix::io::Errno;

    const MS: Duration = Duration::from_millis(1);

    fn is_kept(cache: &LookupCache, host: u32, path: &str, accepted: &[Coding], ms: u32) -> bool {
        cache.get(host, path, accepted, UNIX_EPOCH + VALID_FOR + ms * MS).is_some()
    }

    #[test]
    fn lookup_is_that_of_host_path_and_codings_for_a_second() {
        let cache = LookupCache::new(1 << 20);
        let (br, gzip) = (Coding::Brotli, Coding::Gzip);
        let found = UNIX_EPOCH + VALID_FOR;
        cache.insert(1, "/a", &[br, gzip], KeptLookup::Missing(Errno::NOENT), found);
        for (host, path, accepted, ms, expected) in [
            (1, "/a", &[br, gzip][..], 0, true),
            (1, "/a", &[br, gzip], 999, true),
            (1, "/a", &[br, gzip], 1000, false),
            (2, "/a", &[br, gzip], 0, false),
            (1, "/b", &[br, gzip], 0, false),
            (1, "/a", &[gzip, br], 0, false),
            (1, "/a", &[br], 0, false),
            (1, "/a", &[], 0, false),
        ] {
            let case = format!("{host} {path} {accepted:?} {ms}");
            assert_eq!(is_kept(&cache, host, path, accepted, ms), expected, "{case}");
        }
        let before = found - MS;
        assert!(cache.get(1, "/a", &[br, gzip], before).is_none(), "the clock was set back");
    }

    #[test]
    fn cache_is_bounded_by_bytes() {
        let cache = LookupCache::new(100 << 10);
        for number in 0..10_000 {
            let path = format!("/{number}");
            cache.insert(1, &path, &[], KeptLookup::Folder, UNIX_EPOCH);
        }
        assert!(cache.0.weight() <= 100 << 10);
        assert!((100..300).contains(&cache.0.len()), "{}", cache.0.len());
    }
}
