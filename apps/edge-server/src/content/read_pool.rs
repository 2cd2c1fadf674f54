//! Read pool: threads that read files from disk, so that event loops never block.

use std::io;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use bytes::Bytes;
use log::debug;
use mio::Waker;

use crate::http::body::FileRange;
use crate::quic::handle::ConnectionHandle;

/// Number of threads, and so of concurrent reads.
const THREADS: usize = 4;

/// Reading threads, shared by all workers.
pub struct ReadThreads {
    jobs: Sender<Job>,
}

/// Client of the reading threads of one worker.
pub struct ReadPool {
    jobs: Sender<Job>,
    waker: Arc<Waker>,
    results_sender: Sender<ReadResult>,
    results: Receiver<ReadResult>,
}

/// Result of a read for a response.
pub struct ReadResult {
    pub connection: ConnectionHandle,
    pub stream: u64,
    pub bytes: io::Result<Bytes>,
}

struct Job {
    connection: ConnectionHandle,
    stream: u64,
    range: FileRange,
    results_sender: Sender<ReadResult>,
    waker: Arc<Waker>,
}

impl ReadThreads {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn start() -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name("disk".into()).spawn(move || run(&queue))?;
        }
        Ok(Self { jobs })
    }

    /// Returns a worker's client; `waker` wakes its event loop when there are results.
    pub fn handle(&self, waker: Arc<Waker>) -> ReadPool {
        let (results_sender, results) = channel();
        ReadPool { jobs: self.jobs.clone(), waker, results_sender, results }
    }
}

impl ReadPool {
    /// Queues the read of a response's next chunk.
    pub fn fetch(&self, connection: ConnectionHandle, stream: u64, range: FileRange) {
        let (results_sender, waker) = (self.results_sender.clone(), Arc::clone(&self.waker));
        let job = Job { connection, stream, range, results_sender, waker };
        if self.jobs.send(job).is_err() {
            debug!("the threads that read files have ended");
        }
    }

    /// Returns the next result, if there is one.
    pub fn next(&self) -> Option<ReadResult> {
        self.results.try_recv().ok()
    }
}

fn run(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let bytes = job.range.read();
        let fetched = ReadResult { connection: job.connection, stream: job.stream, bytes };
        // Fails if the worker has ended.
        let _ = job.results_sender.send(fetched);
        if let Err(e) = job.waker.wake() {
            debug!("cannot wake the event loop: {e}");
        }
    }
}
