//! Read pool: threads that read files from disk, so that event loops never block. A worker's client
//! takes wakes of requests that wait for something else, too.

use std::io;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::task;
use std::task::Waker;
use std::thread;

use bytes::Bytes;
use log::debug;

use crate::content::access::basic_auth::PasswordCheck;
use crate::content::access::password_checker::CheckWaiter;
use crate::content::access::refusal::AccessRefusal;
use crate::http::body::FileRange;
use crate::quic::handle::ConnectionHandle;

/// Number of threads, and so of concurrent reads.
const THREADS: usize = 4;

/// Wakes a worker's event loop from another thread.
type Wake = Arc<dyn Fn() + Send + Sync>;

/// Queue of reads, shared by all workers.
pub struct ReadQueue {
    jobs: Sender<Job>,
}

/// Client of the reading threads of one worker.
pub struct ReadPool {
    jobs: Sender<Job>,
    wake: Wake,
    results_sender: Sender<ReadResult>,
    results: Receiver<ReadResult>,

    /// Requests and responses that need not wait any longer, by connection and stream.
    woken_sender: Sender<(ConnectionHandle, u64)>,
    woken: Receiver<(ConnectionHandle, u64)>,
}

/// Result of a read for a response.
pub struct ReadResult {
    pub connection: ConnectionHandle,
    pub stream: u64,
    pub bytes: io::Result<Bytes>,
}

/// What a request keeps while it waits for a check: one whose ticket is dropped is not made.
#[derive(Default)]
pub struct CheckTicket(Arc<()>);

/// Check that a request of a worker waits for.
struct DeferredCheck {
    ticket: Weak<()>,
    waker: Arc<StreamWaker>,
}

/// Wakes a request or a response of a worker.
struct StreamWaker {
    connection: ConnectionHandle,
    stream: u64,
    woken_sender: Sender<(ConnectionHandle, u64)>,
    wake: Wake,
}

impl task::Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        // Fails if the worker has ended.
        let _ = self.woken_sender.send((self.connection, self.stream));
        (self.wake)();
    }
}

impl CheckWaiter for DeferredCheck {
    fn is_cancelled(&self) -> bool {
        self.ticket.strong_count() == 0
    }

    fn wake(self: Box<Self>) {
        task::Wake::wake(self.waker);
    }
}

/// A part of a file to be read.
pub struct Job {
    connection: ConnectionHandle,
    stream: u64,
    range: FileRange,
    results_sender: Sender<ReadResult>,
    wake: Wake,
}

impl ReadQueue {
    /// Returns a queue whose jobs the caller [runs](Job::run).
    pub fn new() -> (Self, Receiver<Job>) {
        let (jobs, queue) = channel();
        (Self { jobs }, queue)
    }

    /// Returns a queue whose jobs threads run.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn with_threads() -> io::Result<Self> {
        let (jobs, queue) = Self::new();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name("read-pool".into()).spawn(move || run(&queue))?;
        }
        Ok(jobs)
    }

    /// Returns a worker's client; `wake` wakes its event loop when there are results.
    pub fn handle(&self, wake: Wake) -> ReadPool {
        let (results_sender, results) = channel();
        let (woken_sender, woken) = channel();
        let jobs = self.jobs.clone();
        ReadPool { jobs, wake, results_sender, results, woken_sender, woken }
    }
}

impl ReadPool {
    /// Queues the read of a response's next chunk.
    pub fn fetch(&self, connection: ConnectionHandle, stream: u64, range: FileRange) {
        let (results_sender, wake) = (self.results_sender.clone(), Arc::clone(&self.wake));
        let job = Job { connection, stream, range, results_sender, wake };
        if self.jobs.send(job).is_err() {
            debug!("the threads that read files have ended");
        }
    }

    /// Begins to check the password of a request.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub fn check(
        &self,
        connection: ConnectionHandle,
        stream: u64,
        check: PasswordCheck,
    ) -> Result<CheckTicket, AccessRefusal> {
        let ticket = CheckTicket::default();
        let waker = self.stream_waker(connection, stream).into();
        let check_waiter = DeferredCheck { ticket: Arc::downgrade(&ticket.0), waker };
        check.start(Box::new(check_waiter))?;
        Ok(ticket)
    }

    /// Returns the waker of a request or a response, which [`Self::next_woken()`] then returns.
    pub fn waker(&self, connection: ConnectionHandle, stream: u64) -> Waker {
        Waker::from(Arc::new(self.stream_waker(connection, stream)))
    }

    fn stream_waker(&self, connection: ConnectionHandle, stream: u64) -> StreamWaker {
        let (woken_sender, wake) = (self.woken_sender.clone(), Arc::clone(&self.wake));
        StreamWaker { connection, stream, woken_sender, wake }
    }

    /// Returns the next request or response that need not wait any longer, if there is one.
    pub fn next_woken(&self) -> Option<(ConnectionHandle, u64)> {
        self.woken.try_recv().ok()
    }

    /// Returns the next result, if there is one.
    pub fn next(&self) -> Option<ReadResult> {
        self.results.try_recv().ok()
    }
}

impl Job {
    /// Reads, which may block, and wakes the worker.
    pub fn run(self) {
        let bytes = self.range.read();
        let result = ReadResult { connection: self.connection, stream: self.stream, bytes };
        // Fails if the worker has ended.
        let _ = self.results_sender.send(result);
        (self.wake)();
    }
}

fn run(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job.run();
    }
}
