//! Access log: a line for each response, written by a thread of its own through a bounded queue.
//! Event loops never wait for the disk; lines beyond the queue's capacity are dropped and counted.

mod line;

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::mpsc::sync_channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::SyncSender;
use std::sync::Arc;
use std::thread;
use std::thread::Thread;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::Context;
use log::warn;
use prometheus_client::metrics::counter::Counter;
use rustix::fs::OFlags;
use rustix::io::Errno;

pub use self::line::LogLine;
use crate::config::AccessLogFormat;

/// Capacity of the queue, in messages.
const QUEUE_MAX: usize = 16 << 10;

/// How long lines gather before they are written together: to wake the thread for each would cost a
/// worker more than the line.
const GATHERING: Duration = Duration::from_millis(50);

/// Size of the writes while lines gather, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Timeout for writing the queued lines at shutdown, and before the file is reopened.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Path that means standard output.
const STDOUT: &str = "-";

/// Handle of the log. Each worker has a clone.
#[derive(Clone)]
pub struct AccessLog {
    queue: SyncSender<LogMessage>,

    /// Set instead of a message, if the queue is full.
    must_reopen: Arc<AtomicBool>,
    dropped: Counter,

    /// The writing thread, which may be waiting for lines to gather.
    thread: Option<Thread>,
}

/// What a worker has for the log.
pub enum LogMessage {
    Line(Box<LogLine>),

    /// Reopen the file, after it was rotated, and tell whether that succeeded.
    Reopen(Option<Sender<anyhow::Result<()>>>),

    /// Flush, confirm and end the thread.
    Close(Sender<()>),
}

/// State of the writing thread.
struct Writer {
    path: PathBuf,
    format: AccessLogFormat,
    output: BufWriter<Box<dyn Write + Send>>,
    must_reopen: Arc<AtomicBool>,
    dropped: Counter,

    /// Whether an error was logged and no write has succeeded since.
    warned: bool,
}

impl AccessLog {
    /// Starts the thread that appends to the file at `path`, or writes to standard output if that
    /// is `-`. Counts lost lines in `dropped`.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn start(path: &Path, format: AccessLogFormat, dropped: Counter) -> anyhow::Result<Self> {
        let output = buffered(open(path).with_context(|| unwritable(path))?);
        let path = path.to_owned();
        let (log, messages) = Self::queue(dropped.clone());
        let must_reopen = Arc::clone(&log.must_reopen);
        let mut writer = Writer { path, format, output, must_reopen, dropped, warned: false };
        let run = move || writer.run(&messages);
        let thread = thread::Builder::new().name("access-log".into()).spawn(run);
        let thread = thread.context("cannot start the access log's thread")?;
        Ok(Self { thread: Some(thread.thread().clone()), ..log })
    }

    /// Returns a log whose lines the caller takes.
    pub fn queue(dropped: Counter) -> (Self, Receiver<LogMessage>) {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        (Self { queue, must_reopen: Arc::default(), dropped, thread: None }, messages)
    }

    /// Queues a line, or drops it if the queue is full.
    pub fn write(&self, line: LogLine) {
        if self.queue.try_send(LogMessage::Line(Box::new(line))).is_err() {
            self.dropped.inc();
        }
    }

    /// Reopens the file after a rotation. Does not wait for a reader that stalls.
    pub fn reopen(&self) {
        if self.queue.try_send(LogMessage::Reopen(None)).is_err() {
            self.must_reopen.store(true, Ordering::Release);
        }
        self.hurry();
    }

    /// Reopens the file, and waits until nothing more is written to the old one.
    ///
    /// # Errors
    ///
    /// One line that names the file, or says that the log stalls.
    pub fn reopen_and_wait(&self) -> anyhow::Result<()> {
        let (done, outcome) = channel();
        if self.queue.try_send(LogMessage::Reopen(Some(done))).is_err() {
            self.must_reopen.store(true, Ordering::Release);
        }
        self.hurry();
        let stalls = "the access log stalls, and is reopened later; see its disk, or its reader";
        outcome.recv_timeout(FLUSH_TIMEOUT).map_err(|_| anyhow!(stalls))?
    }

    /// Has the thread handle what is queued at once.
    fn hurry(&self) {
        self.thread.iter().for_each(Thread::unpark);
    }

    /// Writes all queued lines. Returns whether that finished before the timeout.
    pub fn close(self) -> bool {
        let (done, confirmation) = channel();
        let ask = move || {
            let asked = self.queue.send(LogMessage::Close(done));
            self.hurry();
            asked
        };
        // The queue may be full, and its reader may stall.
        thread::Builder::new().name("access-log-close".into()).spawn(ask).is_ok()
            && confirmation.recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

fn buffered(output: Box<dyn Write + Send>) -> BufWriter<Box<dyn Write + Send>> {
    BufWriter::with_capacity(BUFFER_BYTES, output)
}

/// Checks whether the log can be written, without making the file.
///
/// # Errors
///
/// Those of [`AccessLog::start()`].
pub fn check(path: &Path) -> anyhow::Result<()> {
    if path == Path::new(STDOUT) {
        return Ok(());
    }
    crate::config::preflight::file(path).with_context(|| unwritable(path))
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path == Path::new(STDOUT) {
        return Ok(Box::new(io::stdout()));
    }
    // A pipe without a reader is an error, not a reason to wait.
    let no_wait = OFlags::NONBLOCK.bits() as i32;
    let opened = File::options().create(true).append(true).custom_flags(no_wait).open(path);
    let file = opened.map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::NXIO) => io::Error::other("it is a pipe that nobody reads; start its reader"),
        _ => e,
    })?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(Box::new(file))
}

fn unwritable(path: &Path) -> String {
    format!("cannot write --access-log {}; name a file in a writable folder", path.display())
}

impl Writer {
    fn run(&mut self, messages: &Receiver<LogMessage>) {
        // Only the first line after a pause wakes the thread.
        while let Ok(first) = messages.recv() {
            let mut next = Some(first);
            while let Some(queue) = next {
                if self.must_reopen.swap(false, Ordering::Acquire) {
                    // The log has the outcome.
                    let _ = self.reopen();
                }
                match queue {
                    LogMessage::Line(line) => self.write(&line),
                    LogMessage::Reopen(done) => {
                        let outcome = self.reopen();
                        // Whoever asked may have given up.
                        let _ = done.map(|done| done.send(outcome));
                    }
                    LogMessage::Close(done) => {
                        self.flush();
                        let _ = done.send(());
                        return;
                    }
                }
                next = messages.try_recv().ok();
                if next.is_none() {
                    self.flush();
                    thread::park_timeout(GATHERING);
                    next = messages.try_recv().ok();
                }
            }
        }
    }

    fn write(&mut self, line: &LogLine) {
        let written = self.output.write_all(line.write(self.format).as_bytes());
        if written.is_err() {
            self.dropped.inc();
        }
        self.warn_once(written);
    }

    fn flush(&mut self) {
        let flushed = self.output.flush();
        if flushed.is_ok() {
            self.warned = false;
        }
        self.warn_once(flushed);
    }

    fn reopen(&mut self) -> anyhow::Result<()> {
        self.flush();
        let output = open(&self.path)
            .map_err(|e| anyhow!("{}: {e}; still writing to the old file", unwritable(&self.path)));
        let new = buffered(output.inspect_err(|e| warn!("{e}"))?);
        let old = std::mem::replace(&mut self.output, new);
        self.count_lost(old.buffer());
        // Without another attempt to write what it keeps.
        let _ = old.into_parts();
        Ok(())
    }

    /// Counts the lines that could not be written to the old file.
    fn count_lost(&self, unwritten: &[u8]) {
        let lines = unwritten.iter().filter(|byte| **byte == b'\n').count();
        self.dropped.inc_by(lines as u64);
    }

    fn warn_once(&mut self, result: io::Result<()>) {
        let Err(e) = result else { return };
        if !std::mem::replace(&mut self.warned, true) {
            warn!(
                "cannot write {}: {e}; lines are lost until it is writable again",
                self.path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests;
