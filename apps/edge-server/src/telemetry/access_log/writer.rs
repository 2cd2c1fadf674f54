//! Thread that writes the access log.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::anyhow;
use anyhow::Context;
use log::warn;
use prometheus_client::metrics::counter::Counter;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::queue::LogMessage;
use super::queue::LogQueue;

/// Path that means standard output.
const STDOUT: &str = "-";

/// State of the writing thread.
pub struct LogWriter {
    path: PathBuf,
    output: Box<dyn Write + Send>,
    dropped: Counter,

    /// Whether an error was logged and no write has succeeded since.
    warned: bool,
}

/// Checks whether the log can be written, without making the file.
///
/// # Errors
///
/// Those of [`LogWriter::open()`].
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

impl LogWriter {
    /// Opens the file at `path`, to append to it, or standard output if that is `-`. Counts lines that
    /// are lost in `dropped`.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn open(path: &Path, dropped: Counter) -> anyhow::Result<Self> {
        let output = open(path).with_context(|| unwritable(path))?;
        Ok(Self { path: path.to_owned(), output, dropped, warned: false })
    }

    /// Handles messages until it is to end.
    pub fn run(&mut self, queue: &LogQueue) {
        let mut messages = queue.take();
        loop {
            for message in messages {
                match message {
                    LogMessage::Lines(lines) => {
                        self.write(&lines);
                        queue.recycle(lines);
                    }
                    LogMessage::Reopen(done) => {
                        let outcome = self.reopen();
                        // Whoever asked may have given up.
                        let _ = done.map(|done| done.send(outcome));
                    }
                    LogMessage::Close(done) => {
                        let _ = done.send(());
                        return;
                    }
                }
            }
            messages = queue.wait();
        }
    }

    fn write(&mut self, lines: &[u8]) {
        let mut left = lines;
        let written = self.write_from(&mut left);
        let lost = left.iter().filter(|byte| **byte == b'\n').count();
        self.dropped.inc_by(lost as u64);
        match written {
            Ok(()) => self.warned = false,
            Err(e) if !std::mem::replace(&mut self.warned, true) => warn!(
                "cannot write {}: {e}; lines are lost until it is writable again",
                self.path.display()
            ),
            Err(_) => (),
        }
    }

    /// Writes what is `left`, which is then what could not be written.
    fn write_from(&mut self, left: &mut &[u8]) -> io::Result<()> {
        while !left.is_empty() {
            match self.output.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *left = &left[count..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(e),
            }
        }
        self.output.flush()
    }

    fn reopen(&mut self) -> anyhow::Result<()> {
        let opened = open(&self.path)
            .map_err(|e| anyhow!("{}: {e}; still writing to the old file", unwritable(&self.path)));
        self.output = opened.inspect_err(|e| warn!("{e}"))?;
        Ok(())
    }
}
