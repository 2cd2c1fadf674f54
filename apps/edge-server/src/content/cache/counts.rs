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

/// Slices, by result.
static SLICE_COUNTS: [AtomicU64; SliceResult::NAMES.len()] =
    [const { AtomicU64::new(0) }; SliceResult::NAMES.len()];

/// Files of the folder, their bytes, and how many were read into memory for requests.
static DISK_FILES: AtomicU64 = AtomicU64::new(0);
static DISK_BYTES: AtomicU64 = AtomicU64::new(0);
static DISK_HITS: AtomicU64 = AtomicU64::new(0);

/// Responses that were to be written, and were not, by reason.
static WRITE_FAILURES: [AtomicU64; WriteFailure::NAMES.len()] =
    [const { AtomicU64::new(0) }; WriteFailure::NAMES.len()];

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

/// Result of a look for a slice of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceResult {
    /// A response needed it, and it was there or on its way.
    Hit,

    /// A response needed it, and it came from the origin.
    Miss,

    /// It came from the origin before a response needed it.
    Ahead,
}

impl SliceResult {
    /// Names of the results in metrics, in their order.
    const NAMES: [&str; 3] = ["hit", "miss", "ahead"];

    /// Returns the result of a look for a slice that a response needs.
    pub fn of_needed(is_there: bool) -> Self {
        match is_there {
            true => Self::Hit,
            false => Self::Miss,
        }
    }

    /// Counts a slice.
    pub fn count(self) {
        SLICE_COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Reason why a response is not written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The system has not taken it.
    Refused,

    /// Too many wait to be written.
    QueueFull,
}

impl WriteFailure {
    /// Names of the reasons in metrics, in their order.
    const NAMES: [&str; 2] = ["refused", "queue_full"];

    /// Counts a response.
    pub fn count(self) {
        WRITE_FAILURES[self as usize].fetch_add(1, Ordering::Relaxed);
    }
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

/// Returns how many slices there were, by the name of the result.
pub fn slices() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = SLICE_COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
    SliceResult::NAMES.into_iter().zip(counts)
}

/// Returns how many responses were not written, by the name of the reason.
pub fn write_failures() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = WRITE_FAILURES.iter().map(|count| count.load(Ordering::Relaxed));
    WriteFailure::NAMES.into_iter().zip(counts)
}

/// Notes how many files the folder has, and their bytes.
pub fn set_disk(files: usize, bytes: u64) {
    DISK_FILES.store(files as u64, Ordering::Relaxed);
    DISK_BYTES.store(bytes, Ordering::Relaxed);
}

/// Returns how many files the folder has, and their bytes.
pub fn disk() -> (u64, u64) {
    (DISK_FILES.load(Ordering::Relaxed), DISK_BYTES.load(Ordering::Relaxed))
}

/// Counts a response that was read from disk.
pub fn count_disk_hit() {
    DISK_HITS.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many responses were read from disk.
pub fn disk_hits() -> u64 {
    DISK_HITS.load(Ordering::Relaxed)
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
