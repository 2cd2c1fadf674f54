//! Counts of compressed files, of all hosts since the process began.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Number of results.
const RESULTS: usize = CompressionResult::NAMES.len();

static RESULT_COUNTS: [AtomicU64; RESULTS] = [const { AtomicU64::new(0) }; RESULTS];

/// Bytes of files whose variants were kept, and of those variants.
static INPUT_BYTES: AtomicU64 = AtomicU64::new(0);
static OUTPUT_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of variants in memory now.
static HELD_BYTES: AtomicU64 = AtomicU64::new(0);

/// What became of the wish to compress a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionResult {
    /// There is a variant, smaller than the file.
    Smaller,

    /// A variant would save too little.
    Useless,

    /// The file changed meanwhile, or a moment before.
    Changed,

    /// The file could not be read, or the encoder failed.
    Failed,

    /// Too many files waited.
    QueueFull,

    /// Responses still have variants that the cache has dropped, and take too much memory.
    MemoryFull,
}

impl CompressionResult {
    /// Names of the results in metrics, in their order.
    const NAMES: [&str; 6] =
        ["smaller", "useless", "changed", "failed", "queue_full", "memory_full"];

    fn index(self) -> usize {
        match self {
            Self::Smaller => 0,
            Self::Useless => 1,
            Self::Changed => 2,
            Self::Failed => 3,
            Self::QueueFull => 4,
            Self::MemoryFull => 5,
        }
    }

    /// Counts the result.
    pub fn count(self) {
        RESULT_COUNTS[self.index()].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts the bytes of a file and of its variant.
pub fn add_bytes(input: u64, output: usize) {
    INPUT_BYTES.fetch_add(input, Ordering::Relaxed);
    OUTPUT_BYTES.fetch_add(output as u64, Ordering::Relaxed);
}

/// Counts a variant in memory.
pub fn add_held(bytes: usize) {
    HELD_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts a variant that is in memory no more.
pub fn remove_held(bytes: usize) {
    HELD_BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Returns how often there was each result, by its name.
pub fn results() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = RESULT_COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
    CompressionResult::NAMES.into_iter().zip(counts)
}

/// Returns the bytes of files whose variants were kept, and of those variants.
pub fn bytes() -> (u64, u64) {
    (INPUT_BYTES.load(Ordering::Relaxed), OUTPUT_BYTES.load(Ordering::Relaxed))
}

/// Returns the bytes of variants in memory.
pub fn held_bytes() -> u64 {
    HELD_BYTES.load(Ordering::Relaxed)
}
