//! Results of requests for cached paths, and how many there were.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::LazyLock;

/// Number of results.
const RESULTS: usize = CacheResult::NAMES.len();

/// Requests of all hosts, by result, since the process began.
static RESULT_COUNTS: [AtomicU64; RESULTS] = [const { AtomicU64::new(0) }; RESULTS];

/// Keys whose responses made room for others.
static EVICTIONS: AtomicU64 = AtomicU64::new(0);

/// Bytes of bodies in memory: of those that are kept, and of others that responses still send.
static HELD: LazyLock<Arc<AtomicU64>> = LazyLock::new(Arc::default);

/// Result of a request for a path whose responses are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    Hit,

    /// A stale response, as the origin fails, or is asked meanwhile.
    Stale,

    /// The origin has confirmed what was kept.
    Revalidated,

    /// The response came from the origin, and is kept.
    Miss,

    /// Another request got the response from the origin.
    Collapsed,

    /// The response came from the origin, and is not kept.
    Uncacheable,

    /// The cache was not asked.
    Bypass,

    /// There was no response, not even a stale one.
    Failed,
}

impl CacheResult {
    /// Names of the results in metrics, in their order.
    const NAMES: [&str; 8] =
        ["hit", "stale", "revalidated", "miss", "collapsed", "uncacheable", "bypass", "failed"];

    /// Counts a request.
    pub fn count(self) {
        RESULT_COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns how many requests there were, by the name of the result.
pub fn results() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = RESULT_COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
    CacheResult::NAMES.into_iter().zip(counts)
}

/// Counts a key whose responses have made room for others.
pub fn count_eviction() {
    EVICTIONS.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many keys have made room.
pub fn evictions() -> u64 {
    EVICTIONS.load(Ordering::Relaxed)
}

/// Returns the counter of bytes in memory.
pub fn held() -> &'static Arc<AtomicU64> {
    &HELD
}
