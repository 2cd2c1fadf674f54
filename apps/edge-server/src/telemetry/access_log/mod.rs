//! Access log: a line for each response, written by a thread of its own. Event loops never wait for
//! the disk; lines beyond the queue's capacity are dropped and counted.

mod connection_columns;
mod json;
mod line;
mod queue;
mod timestamp;
mod writer;

use std::cell::RefCell;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::Context;
use prometheus_client::metrics::counter::Counter;

use self::connection_columns::ConnectionColumns;
pub use self::connection_columns::LoggedConnection;
pub use self::line::LogLine;
use self::queue::LogMessage;
use self::queue::LogQueue;
pub use self::writer::check;
use self::writer::LogWriter;
use crate::config::AccessLogFormat;

/// Timeout for writing the queued lines at shutdown, and before the file is reopened.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Handle of the log. Each worker has a clone.
#[derive(Clone)]
pub struct AccessLog {
    queue: Arc<LogQueue>,
    format: AccessLogFormat,
    dropped: Counter,
}

impl AccessLog {
    /// Starts the thread that appends to the file at `path`, or writes to standard output if that
    /// is `-`. Counts lost lines in `dropped`.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn start(path: &Path, format: AccessLogFormat, dropped: Counter) -> anyhow::Result<Self> {
        let mut writer = LogWriter::open(path, dropped.clone())?;
        let log = Self::without_writer(format, dropped);
        let queue = Arc::clone(&log.queue);
        let thread = thread::Builder::new().name("access-log".into());
        thread.spawn(move || writer.run(&queue)).context("cannot start the access log's thread")?;
        Ok(log)
    }

    fn without_writer(format: AccessLogFormat, dropped: Counter) -> Self {
        Self { queue: Arc::default(), format, dropped }
    }

    /// Queues a line, or drops it if the queue is full.
    pub fn write(&self, line: &LogLine<'_>) {
        thread_local! {
            static BUFFERS: RefCell<(ConnectionColumns, Vec<u8>)> = RefCell::default();
        }
        BUFFERS.with_borrow_mut(|(columns, text)| {
            text.clear();
            line.write_to(self.format, columns, text);
            if self.queue.push_line(text).is_err() {
                self.dropped.inc();
            }
        });
    }

    /// Reopens the file after a rotation. Does not wait for a reader that stalls.
    pub fn reopen(&self) {
        self.queue.push(LogMessage::Reopen(None));
    }

    /// Reopens the file, and waits until nothing more is written to the old one.
    ///
    /// # Errors
    ///
    /// One line that names the file, or says that the log stalls.
    pub fn reopen_and_wait(&self) -> anyhow::Result<()> {
        let (done, outcome) = channel();
        self.queue.push(LogMessage::Reopen(Some(done)));
        let stalls = "the access log stalls, and is reopened later; see its disk, or its reader";
        outcome.recv_timeout(FLUSH_TIMEOUT).map_err(|_| anyhow!(stalls))?
    }

    /// Writes all queued lines. Returns whether that finished before the timeout.
    pub fn close(self) -> bool {
        let (done, confirmation) = channel();
        self.queue.push(LogMessage::Close(done));
        confirmation.recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

#[cfg(test)]
impl AccessLog {
    /// Returns a log that keeps its lines.
    pub fn in_memory(format: AccessLogFormat) -> Self {
        Self::without_writer(format, Counter::default())
    }

    /// Takes the lines since the last call.
    pub fn take_lines(&self) -> Vec<String> {
        let lines = |message| match message {
            LogMessage::Lines(lines) => Some(lines),
            LogMessage::Reopen(_) | LogMessage::Close(_) => None,
        };
        let text = self.queue.take().into_iter().filter_map(lines).flatten().collect();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests;
