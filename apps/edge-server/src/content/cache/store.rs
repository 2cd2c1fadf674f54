//! Store of cached responses in memory, bounded by bytes.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use foldhash::quality::RandomState;
use quick_cache::sync::Cache;
use quick_cache::Lifecycle;
use quick_cache::OptionsBuilder;
use quick_cache::Weighter;

use crate::content::cache::counts;
use crate::content::cache::disk::DiskStore;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::flight::FlightBoard;
use crate::content::cache::invalidation_log::InvalidationLog;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::purge::PurgeTarget;
use crate::content::cache::slices;
use crate::content::cache::vary::RequestFields;

/// Variants of a response that are kept, by its selecting fields.
const VARIANTS_MAX: usize = 16;

/// What a key takes on average, as far as the number of keys is guessed by it.
const KEY_BYTES_GUESSED: u64 = 16 << 10;

/// Least size of a part of the store that has its own lock, in bytes, and the most parts.
const SHARD_BYTES_MIN: u64 = 1 << 30;
const SHARDS_MAX: u64 = 16;

/// Part of a shard that one response may take.
const OBJECT_DIVISOR: u64 = 4;

/// Bytes in memory, of responses that are kept and of those that are still sent, may be so many times
/// those of the store.
const HELD_MULTIPLE: u64 = 2;

/// Keys of which it is remembered that their responses are not kept, and for how long.
const UNSHARED_MAX: usize = 10_000;
const UNSHARED_TIME: Duration = Duration::from_secs(10);

/// How long it is remembered that the response with a key cannot be kept in slices.
const UNSLICED_TIME: Duration = Duration::from_secs(3600);

/// Cache of the origins of all hosts.
pub struct ResponseCache {
    responses: Cache<Arc<str>, Variants, ByVariantBytes, RandomState, OutsideTheLock>,

    /// Absent if responses are kept in memory alone.
    disk: OnceLock<Arc<DiskStore>>,

    /// Held while variants are replaced by others.
    replacing: Mutex<()>,

    /// Keys whose last response was for one request alone, and until when that is remembered.
    unshared: Cache<Arc<str>, Instant>,

    /// Keys whose responses cannot be kept in slices, and until when that is remembered.
    unsliced: Cache<Arc<str>, Instant>,
    pub flights: Arc<FlightBoard>,

    /// What was forgotten: what was asked for before may have changed.
    pub invalidations: InvalidationLog,
    held: Arc<AtomicU64>,

    /// Bytes of bodies that are on their way.
    reserved: Arc<AtomicU64>,
    memory_max: u64,
    object_bytes_max: u64,
}

/// Returns the length of the longest body that a cache of so many bytes takes.
pub fn object_bytes_max(memory_max: u64) -> u64 {
    memory_max / shards(memory_max) / OBJECT_DIVISOR
}

/// Returns how many parts it has, a power of two.
fn shards(memory_max: u64) -> u64 {
    let shards = (memory_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
    1 << shards.ilog2()
}

/// Memory of a body that is on its way.
pub struct MemoryReservation {
    bytes: u64,
    reserved: Arc<AtomicU64>,
}

impl MemoryReservation {
    /// Returns how much it is, 0 if the length is unknown.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Responses with the same key, the newest first.
#[derive(Clone)]
struct Variants {
    responses: Arc<[Arc<CachedResponse>]>,
    bytes: u64,
}

#[derive(Clone)]
struct ByVariantBytes;

#[derive(Clone)]
struct OutsideTheLock;

impl Variants {
    fn new(responses: Vec<Arc<CachedResponse>>) -> Self {
        let bytes = responses.iter().map(|response| response.bytes()).sum();
        Self { responses: responses.into(), bytes }
    }
}

impl Weighter<Arc<str>, Variants> for ByVariantBytes {
    fn weight(&self, key: &Arc<str>, variants: &Variants) -> u64 {
        key.len() as u64 + variants.bytes
    }
}

impl Lifecycle<Arc<str>, Variants> for OutsideTheLock {
    /// What was evicted or replaced, which is freed without the lock.
    type RequestState = Vec<(Arc<str>, Variants)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: Arc<str>, variants: Variants) {
        evicted.push((key, variants));
    }
}

impl ResponseCache {
    /// Returns an empty cache of so many bytes at most.
    pub fn new(memory_max: u64) -> Self {
        let shards = shards(memory_max);
        let keys = usize::try_from(memory_max / KEY_BYTES_GUESSED).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(keys.max(1))
            .weight_capacity(memory_max)
            .shards(shards as usize)
            .build()
            .expect("all that is needed is there");
        let hasher = RandomState::default();
        Self {
            responses: Cache::with_options(options, ByVariantBytes, hasher, OutsideTheLock),
            replacing: Mutex::default(),
            disk: OnceLock::new(),
            unshared: Cache::new(UNSHARED_MAX),
            unsliced: Cache::new(UNSHARED_MAX),
            flights: Arc::default(),
            invalidations: InvalidationLog::default(),
            held: Arc::clone(counts::held()),
            reserved: Arc::default(),
            memory_max,
            object_bytes_max: object_bytes_max(memory_max),
        }
    }

    /// Returns how many bytes it keeps at most.
    pub fn memory_max(&self) -> u64 {
        self.memory_max
    }

    /// Returns the length of the longest body that it takes, in bytes.
    pub fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max
    }

    /// Returns the counter of bytes in memory.
    pub fn held(&self) -> &Arc<AtomicU64> {
        &self.held
    }

    /// Returns whether there is memory for so many bytes more.
    pub fn has_room(&self, bytes: u64) -> bool {
        let held_max = self.memory_max.saturating_mul(HELD_MULTIPLE);
        let taken = self.held.load(Ordering::Relaxed) + self.reserved.load(Ordering::Relaxed);
        taken.saturating_add(bytes) <= held_max
    }

    /// Reserves memory for a body, if there is enough.
    pub fn reserve(&self, bytes: u64) -> Option<MemoryReservation> {
        if !self.has_room(bytes) {
            return None;
        }
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        Some(MemoryReservation { bytes, reserved: Arc::clone(&self.reserved) })
    }

    /// Returns a reservation for a body that is not kept.
    pub fn reserve_nothing(&self) -> MemoryReservation {
        MemoryReservation { bytes: 0, reserved: Arc::clone(&self.reserved) }
    }

    /// Returns the response to a request, and whether there are others with its key.
    pub fn get(
        &self,
        key: &Arc<str>,
        request: &impl RequestFields,
    ) -> (Option<Arc<CachedResponse>>, bool) {
        let Some(variants) = self.responses.get(key) else { return (None, false) };
        let mut responses = variants.responses.iter();
        let found = responses.find(|response| {
            response.body.is_usable() && response.selecting.match_request(request)
        });
        (found.cloned(), true)
    }

    /// Keeps a response, in place of those that the same requests would get, unless it was forgotten since it
    /// was asked for. Returns whether it is kept.
    pub fn insert_if_current(
        &self,
        key: &Arc<str>,
        response: &Arc<CachedResponse>,
        mark: InvalidationMark,
    ) -> bool {
        let is_current = || self.invalidations.is_current(mark, key, response.tags());
        if !is_current() {
            return false;
        }
        self.insert(key, response);
        // A purge that did not find it is in the log.
        let is_kept = is_current();
        if !is_kept {
            self.remove(key, response);
        }
        is_kept
    }

    fn insert(&self, key: &Arc<str>, response: &Arc<CachedResponse>) {
        self.replace(key, |responses| {
            responses.retain(|own| own.selecting != response.selecting && own.body.is_usable());
            responses.insert(0, Arc::clone(response));
            responses.truncate(VARIANTS_MAX);
        });
    }

    /// Keeps a response again whose successor has broken off, unless there is another by now, or it was forgotten
    /// since the mark.
    pub fn put_back(&self, key: &Arc<str>, older: &Arc<CachedResponse>, mark: InvalidationMark) {
        let is_current = || self.invalidations.is_current(mark, key, older.tags());
        if !is_current() {
            return;
        }
        self.replace(key, |responses| {
            if responses.iter().all(|own| own.selecting != older.selecting) {
                responses.push(Arc::clone(older));
            }
        });
        if !is_current() {
            self.remove(key, older);
        }
    }

    /// Notes that the body of a response is whole, if it is still kept.
    pub fn on_complete(&self, key: &Arc<str>) {
        self.replace(key, |_| ());
    }

    /// Forgets a response in memory.
    pub fn remove(&self, key: &Arc<str>, response: &CachedResponse) {
        self.replace(key, |responses| {
            responses.retain(|own| !Arc::ptr_eq(&own.body, &response.body));
        });
    }

    /// Forgets a response, also on disk.
    pub fn forget(&self, key: &Arc<str>, response: &CachedResponse) {
        self.remove(key, response);
        if let Some(disk) = self.disk() {
            disk.forget(&PurgeTarget::Url(key.to_string()));
        }
    }

    /// Forgets all responses with a key, and has none kept that is on its way.
    pub fn invalidate(&self, key: &str) {
        let target = PurgeTarget::Url(key.to_owned());
        self.invalidations.add(&target);
        self.responses.remove(&Arc::from(key));
        if let Some(disk) = self.disk() {
            disk.forget(&target);
        }
    }

    /// Forgets what is meant, and has none kept that is on its way. Returns how many responses there were,
    /// in memory or on disk.
    pub fn purge(&self, target: &PurgeTarget) -> usize {
        self.invalidations.add(target);
        let on_disk = self.disk().map_or(0, |disk| disk.forget(target));
        let is_meant = |key: &str, own: &Arc<CachedResponse>| target.means(key, own.tags());
        let _replacing = self.replacing();
        let mut in_memory = 0;
        let keys = self.responses.iter().filter(|(key, _)| target.may_mean(key));
        for (key, variants) in keys.collect::<Vec<_>>() {
            let responses = variants.responses.iter();
            let rest: Vec<_> = responses.filter(|own| !is_meant(&key, own)).cloned().collect();
            if !slices::is_slice(&key) {
                in_memory += variants.responses.len() - rest.len();
            }
            match rest.is_empty() {
                true => drop(self.responses.remove(&key)),
                false => self.put(&key, rest),
            }
        }
        in_memory.max(on_disk)
    }

    /// Returns the folder where responses are kept, if there is one.
    pub fn disk(&self) -> Option<&Arc<DiskStore>> {
        self.disk.get()
    }

    /// Keeps responses in a folder, too. Called once.
    pub fn set_disk(&self, disk: Arc<DiskStore>) {
        // There is none before.
        let _ = self.disk.set(disk);
    }

    /// Remembers for a while that the response to a request was for it alone.
    pub fn note_unshared(&self, key: &Arc<str>, now: Instant) {
        self.unshared.insert(Arc::clone(key), now + UNSHARED_TIME);
    }

    /// Forgets that a response was for one request alone.
    pub fn note_shared(&self, key: &Arc<str>) {
        self.unshared.remove(key);
    }

    /// Returns whether responses with a key were for one request alone a moment ago.
    pub fn is_unshared(&self, key: &Arc<str>, now: Instant) -> bool {
        self.unshared.get(key).is_some_and(|until| now < until)
    }

    /// Remembers for a while that a response cannot be kept in slices.
    pub fn note_unsliced(&self, key: &Arc<str>, now: Instant) {
        self.unsliced.insert(Arc::clone(key), now + UNSLICED_TIME);
    }

    /// Returns whether a response could not be kept in slices a while ago.
    pub fn is_unsliced(&self, key: &Arc<str>, now: Instant) -> bool {
        self.unsliced.get(key).is_some_and(|until| now < until)
    }

    fn replace(&self, key: &Arc<str>, change: impl FnOnce(&mut Vec<Arc<CachedResponse>>)) {
        let _replacing = self.replacing();
        let own = self.responses.get(key);
        let mut responses = own.map(|own| own.responses.to_vec()).unwrap_or_default();
        change(&mut responses);
        match responses.is_empty() {
            true => drop(self.responses.remove(key)),
            false => self.put(key, responses),
        }
    }

    /// Puts responses in the place of those with the same key, and counts what makes room for them.
    fn put(&self, key: &Arc<str>, responses: Vec<Arc<CachedResponse>>) {
        let mut evicted = Vec::new();
        let variants = Variants::new(responses);
        self.responses.insert_with_lifecycle(Arc::clone(key), variants, &mut evicted);
        let others = evicted.iter().filter(|(own, _)| own != key);
        others.for_each(|_| counts::count_eviction());
    }

    fn replacing(&self) -> MutexGuard<'_, ()> {
        self.replacing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ResponseCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseCache")
            .field("memory_max", &self.memory_max)
            .finish_non_exhaustive()
    }
}
