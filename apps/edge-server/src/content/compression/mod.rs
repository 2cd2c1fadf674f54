//! Compression of files, and of responses that are kept, in the background. The first request for one queues it, and gets it as it
//! is; threads of low priority compress it, and later requests get the variant from memory. No event
//! loop compresses, and a flood of requests for other files fills a queue, and no more.

pub mod counts;
mod encoder;
pub mod policy;
mod source;
mod variant_cache;

use std::collections::HashSet;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::io::Read;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;
use std::time::SystemTime;

use log::debug;

use crate::admission::thread_priority;
use crate::content::compression::counts::CompressionResult;
pub use crate::content::compression::source::CompressionSource;
use crate::content::compression::source::Encoded;
use crate::content::compression::source::WaitingContent;
use crate::content::compression::variant_cache::KeptVariant;
pub use crate::content::compression::variant_cache::Variant;
use crate::content::compression::variant_cache::VariantCache;
use crate::content::compression::variant_cache::VariantKey;
use crate::http::content_coding::Coding;

/// Files that may wait.
const WAITING_MAX: usize = 256;

/// There is one thread for so many processors, and at most so many threads: `config/worst_case` has
/// what they take.
const PROCESSORS_PER_THREAD: usize = 4;
const THREADS_MAX: usize = 2;

/// A variant is kept if it is at most so long, in percent of the file: what a client saves by less
/// does not make up for the memory.
const USEFUL_PERCENT_MAX: u64 = 95;

/// Compressor of all hosts. Its threads end when it is dropped.
pub struct Compressor(Arc<SharedCompressor>);

struct SharedCompressor {
    variants: VariantCache,
    queue: Mutex<CompressionQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct CompressionQueue {
    waiting: VecDeque<CompressionJob>,

    /// Variants whose files wait or are being compressed.
    under_way: HashSet<VariantKey>,
    is_closed: bool,
}

/// Content to compress.
struct CompressionJob {
    content: WaitingContent,
    key: VariantKey,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("variants", &self.0.variants).finish_non_exhaustive()
    }
}

impl Compressor {
    /// Returns a compressor that keeps variants of so many bytes at most. Files wait until there are
    /// [threads](Self::start_threads).
    pub fn new(bytes_max: u64) -> Self {
        Self(Arc::new(SharedCompressor {
            variants: VariantCache::new(bytes_max),
            queue: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn start_threads(&self) -> io::Result<()> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX) {
            let shared = Arc::clone(&self.0);
            thread::Builder::new().name("compressor".into()).spawn(move || run(&shared))?;
        }
        Ok(())
    }

    /// Returns the variant of a file in the first of the `accepted` codings that there is, with its
    /// coding. Queues the file if there is none in the first coding.
    pub fn find(
        &self,
        source: &CompressionSource<'_>,
        accepted: &[Coding],
    ) -> Option<(Coding, Variant)> {
        let variants = &self.0.variants;
        let mut wanted = None;
        let mut found = None;
        for coding in accepted {
            let key = VariantKey { content: source.identity(), coding: *coding };
            match variants.get(&key) {
                Some(KeptVariant::Smaller(variant)) => {
                    found = Some((*coding, variant));
                    break;
                }
                // Another coding would not save much more.
                Some(KeptVariant::Useless) => return None,
                None => wanted = wanted.or(Some(key)),
            }
        }
        if let Some(key) = wanted {
            self.0.request(source, key);
        }
        found
    }

    /// Compresses the file that has waited for longest. Returns whether there was one.
    #[cfg(test)]
    pub fn run_next(&self, wall_now: SystemTime) -> bool {
        let job = self.0.queue().waiting.pop_front();
        let is_there = job.is_some();
        job.into_iter().for_each(|job| self.0.complete(&job, wall_now));
        is_there
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_closed = true;
        queue.waiting.clear();
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl SharedCompressor {
    fn queue(&self) -> MutexGuard<'_, CompressionQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a file, unless it is there. An event loop does not wait for a thread of low priority:
    /// another request will come.
    fn request(&self, source: &CompressionSource<'_>, key: VariantKey) {
        let Ok(mut queue) = self.queue.try_lock() else { return };
        if queue.under_way.contains(&key) {
            return;
        }
        if queue.waiting.len() >= WAITING_MAX {
            return CompressionResult::QueueFull.count();
        }
        let job = CompressionJob { content: source.waiting(), key };
        queue.under_way.insert(key);
        queue.waiting.push_back(job);
        drop(queue);
        self.changed.notify_one();
    }

    /// Compresses a file, and keeps what came of it.
    fn complete(&self, job: &CompressionJob, wall_now: SystemTime) {
        let result = self.compress(job, wall_now);
        result.count();
        debug!("compressed {} by {}: {result:?}", job.content.name(), job.key.coding.name());
        self.queue().under_way.remove(&job.key);
    }

    fn compress(&self, job: &CompressionJob, wall_now: SystemTime) -> CompressionResult {
        let key = job.key;
        let length = key.content.length();
        let bytes_max = u128::from(length) * u128::from(USEFUL_PERCENT_MAX) / 100;
        let Some(bytes_max) = self.variants.room(bytes_max as u64) else {
            return CompressionResult::MemoryFull;
        };
        // A fault of an encoder ends neither the thread, nor is it met again and again.
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let encode =
            |content: &mut dyn Read| encoder::encode(content, length, key.coding, bytes_max);
        let encoded =
            panic::catch_unwind(AssertUnwindSafe(|| job.content.encode(wall_now, encode)));
        match encoded {
            Ok(Ok(Encoded::Whole(content))) => {
                counts::add_bytes(length, content.len());
                self.variants.insert(key, content);
                CompressionResult::Smaller
            }
            Ok(Ok(Encoded::TooLong)) => {
                self.variants.insert_useless(key);
                CompressionResult::Useless
            }
            Ok(Ok(Encoded::Changed)) => CompressionResult::Changed,
            Ok(Err(e)) => {
                debug!("cannot compress {}: {e}", job.content.name());
                CompressionResult::Failed
            }
            Err(_) => {
                self.variants.insert_useless(key);
                CompressionResult::Failed
            }
        }
    }
}

/// Compresses what waits until the compressor is dropped.
fn run(shared: &SharedCompressor) {
    thread_priority::lower(thread_priority::LOWEST);
    loop {
        let mut queue = shared.queue();
        let job = loop {
            match queue.waiting.pop_front() {
                Some(job) => break job,
                None if queue.is_closed => return,
                None => {
                    queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(queue);
        shared.complete(&job, quiche::clock::wall_now());
    }
}

#[cfg(test)]
pub use self::encoder::decode;

#[cfg(test)]
mod tests;
