//! Threads of all origins, of a lower priority than the event loops. A reload keeps them.

use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use tokio::runtime::Builder;
use tokio::runtime::Runtime;

use crate::admission::thread_priority;

/// The process has one thread for so many processors, and at most so many threads.
const PROCESSORS_PER_THREAD: usize = 2;
const THREADS_MAX: usize = 8;

static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// Returns the threads of all origins.
///
/// # Errors
///
/// They cannot be started.
pub fn runtime() -> io::Result<&'static Runtime> {
    let mut shared = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *shared {
        return Ok(runtime);
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread()
        .worker_threads((processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX))
        .thread_name("origin")
        .on_thread_start(|| thread_priority::lower(thread_priority::BELOW_EVENT_LOOPS))
        .enable_all()
        .build()?;
    Ok(*shared.insert(Box::leak(Box::new(runtime))))
}
