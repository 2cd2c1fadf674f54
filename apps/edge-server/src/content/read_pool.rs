//! Files that are not in memory: threads read them, so that no event loop waits for
//! a disk.

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

/// Threads that read, which is how many reads a disk is given at once.
const READERS: usize = 4;

/// Threads that read for all workers.
pub struct ReadThreads {
    jobs: Sender<Job>,
}

/// One worker's way to them.
pub struct ReadPool {
    jobs: Sender<Job>,
    waker: Arc<Waker>,
    answered: Sender<ReadResult>,
    answers: Receiver<ReadResult>,
}

/// What was read for a response.
pub struct ReadResult {
    pub connection: ConnectionHandle,
    pub stream: u64,
    pub bytes: io::Result<Bytes>,
}

struct Job {
    connection: ConnectionHandle,
    stream: u64,
    range: FileRange,
    answered: Sender<ReadResult>,
    waker: Arc<Waker>,
}

impl ReadThreads {
    /// # Errors
    ///
    /// The process may have no more threads.
    pub fn start() -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..READERS {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name("disk".into()).spawn(move || read_for_ever(&queue))?;
        }
        Ok(Self { jobs })
    }

    /// A worker's end; `waker` tells it that something has been read.
    pub fn handle(&self, waker: Arc<Waker>) -> ReadPool {
        let (answered, answers) = channel();
        ReadPool { jobs: self.jobs.clone(), waker, answered, answers }
    }
}

impl ReadPool {
    /// Begins to read what a response needs next.
    pub fn fetch(&self, connection: ConnectionHandle, stream: u64, range: FileRange) {
        let (answered, waker) = (self.answered.clone(), Arc::clone(&self.waker));
        let job = Job { connection, stream, range, answered, waker };
        if self.jobs.send(job).is_err() {
            debug!("nobody reads files any more");
        }
    }

    /// The next thing that has been read.
    pub fn next(&self) -> Option<ReadResult> {
        self.answers.try_recv().ok()
    }
}

fn read_for_ever(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let bytes = job.range.read();
        let fetched = ReadResult { connection: job.connection, stream: job.stream, bytes };
        // The worker may have ended meanwhile.
        let _ = job.answered.send(fetched);
        if let Err(e) = job.waker.wake() {
            debug!("cannot wake the event loop: {e}");
        }
    }
}
