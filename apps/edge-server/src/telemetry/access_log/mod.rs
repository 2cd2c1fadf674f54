//! The access log: a line for each response. A thread of its own writes it, and no
//! event loop waits for that: lines that come too fast for the disk are dropped and
//! counted.

mod line;

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use log::warn;
use prometheus_client::metrics::counter::Counter;

pub use self::line::LogLine;
use crate::config::AccessLogFormat;

/// Lines that wait to be written at most.
const WAITING_MAX: usize = 16 << 10;

/// How long the last lines may take to be written.
const PATIENCE: Duration = Duration::from_secs(3);

/// The name that stands for standard output.
const STDOUT: &str = "-";

/// The way to the log. Every worker has its own.
#[derive(Clone)]
pub struct AccessLog {
    news: SyncSender<LogMessage>,
    dropped: Counter,
}

enum LogMessage {
    LogLine(Box<LogLine>),

    /// Somebody has moved the file.
    Reopen,

    /// There will be no more.
    End(Sender<()>),
}

/// What the thread writes to.
struct Writer {
    path: PathBuf,
    format: AccessLogFormat,
    output: BufWriter<Box<dyn Write + Send>>,
    dropped: Counter,

    /// Trouble has been told of, and no line was written since.
    told: bool,
}

impl AccessLog {
    /// Appends to the file at `path`, or to standard output if that is `-`. Lines that
    /// are lost count as `dropped`.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn start(path: &Path, format: AccessLogFormat, dropped: Counter) -> anyhow::Result<Self> {
        let output = BufWriter::new(open(path).with_context(|| unwritable(path))?);
        let path = path.to_owned();
        let mut writer = Writer { path, format, output, dropped: dropped.clone(), told: false };
        let (news, incoming) = sync_channel(WAITING_MAX);
        let run = move || writer.run(&incoming);
        let thread = thread::Builder::new().name("access-log".into()).spawn(run);
        thread.context("cannot start the access log's thread")?;
        Ok(Self { news, dropped })
    }

    /// Has a line written.
    pub fn write(&self, line: LogLine) {
        if self.news.try_send(LogMessage::LogLine(Box::new(line))).is_err() {
            self.dropped.inc();
        }
    }

    /// Opens the file anew: what comes from now on goes to the one that has its name.
    pub fn reopen(&self) {
        let _ = self.news.send(LogMessage::Reopen);
    }

    /// Writes what waits. Returns whether that was done in time.
    pub fn close(self) -> bool {
        let (done, is_done) = std::sync::mpsc::channel();
        self.news.send(LogMessage::End(done)).is_ok() && is_done.recv_timeout(PATIENCE).is_ok()
    }
}

/// Whether the log could be written, as far as can be told without making the file.
///
/// # Errors
///
/// As [`AccessLog::start()`]'s.
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
    Ok(Box::new(File::options().create(true).append(true).open(path)?))
}

fn unwritable(path: &Path) -> String {
    format!("cannot write --access-log {}; name a file in a writable folder", path.display())
}

impl Writer {
    fn run(&mut self, incoming: &Receiver<LogMessage>) {
        while let Ok(first) = incoming.recv() {
            let mut next = Some(first);
            while let Some(news) = next {
                match news {
                    LogMessage::LogLine(line) => self.write(&line),
                    LogMessage::Reopen => self.reopen(),
                    LogMessage::End(done) => {
                        self.flush();
                        let _ = done.send(());
                        return;
                    }
                }
                next = incoming.try_recv().ok();
            }
            self.flush();
        }
    }

    fn write(&mut self, line: &LogLine) {
        let written = self.output.write_all(line.write(self.format).as_bytes());
        if written.is_err() {
            self.dropped.inc();
        }
        self.note(written);
    }

    fn flush(&mut self) {
        let flushed = self.output.flush();
        if flushed.is_ok() {
            self.told = false;
        }
        self.note(flushed);
    }

    fn reopen(&mut self) {
        self.flush();
        match open(&self.path) {
            Ok(output) => self.output = BufWriter::new(output),
            Err(e) => warn!("{}: {e}; still writing to the old file", unwritable(&self.path)),
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        let Err(e) = result else { return };
        if !std::mem::replace(&mut self.told, true) {
            warn!("cannot write {}: {e}; lines are lost until that works", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests;
