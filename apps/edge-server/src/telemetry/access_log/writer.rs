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
use crate::telemetry::process_log::notice;

/// Path that means standard output.
const STDOUT: &str = "-";

/// State of the writing thread.
pub struct LogWriter {
    path: PathBuf,
    output: Box<dyn Write + Send>,
    dropped: Counter,

    /// Lines lost since an error was logged, if no write has succeeded since.
    lost: Option<u64>,

    /// Whether the output ends within a line, the rest of which is lost.
    ends_in_line: bool,
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
        Ok(Self::with_output(path, output, dropped))
    }

    fn with_output(path: &Path, output: Box<dyn Write + Send>, dropped: Counter) -> Self {
        Self { path: path.to_owned(), output, dropped, lost: None, ends_in_line: false }
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
        let written = self.end_line().and_then(|()| self.write_from(&mut left));
        if let Some(last) = lines[..lines.len() - left.len()].last() {
            self.ends_in_line = *last != b'\n';
        }
        let lost = left.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.dropped.inc_by(lost);
        match (written, self.lost) {
            (Ok(()), None) => (),
            (Ok(()), Some(lost)) => {
                self.lost = None;
                notice!("{} is writable again; lost lines: {lost}", self.name());
            }
            (Err(e), None) => {
                self.lost = Some(lost);
                let name = self.name();
                warn!("cannot write {name}: {e}; lines are lost until it is writable again");
            }
            (Err(_), Some(before)) => self.lost = Some(before + lost),
        }
    }

    /// Ends a line of which the rest was lost, so that the next one is whole.
    fn end_line(&mut self) -> io::Result<()> {
        if self.ends_in_line {
            self.write_from(&mut &b"\n"[..])?;
            self.ends_in_line = false;
        }
        Ok(())
    }

    fn name(&self) -> String {
        match self.path == Path::new(STDOUT) {
            true => "--access-log - (standard output)".to_owned(),
            false => self.path.display().to_string(),
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
        self.ends_in_line = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::sync::Mutex;

    /// Volume with so many free bytes, and what is on it.
    #[derive(Clone)]
    struct Volume(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Volume {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (free, content) = &mut *self.0.lock().unwrap();
            let count = bytes.len().min(*free);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *free -= count;
            content.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn line_torn_by_a_full_disk_ends_before_the_next_one() {
        for (free, expected, lost) in [
            (0, "ef\n", 2),
            (2, "ab\nef\n", 2),
            (3, "ab\nef\n", 1),
            (4, "ab\nc\nef\n", 1),
            (6, "ab\ncd\nef\n", 0),
        ] {
            let disk = Volume(Arc::new((free, Vec::new()).into()));
            let dropped = Counter::default();
            let path = Path::new("log");
            let mut log = LogWriter::with_output(path, Box::new(disk.clone()), dropped.clone());
            log.write(b"ab\ncd\n");
            assert_eq!(log.lost, (lost > 0).then_some(lost), "{free}");
            disk.0.lock().unwrap().0 = 100;
            log.write(b"ef\n");
            assert_eq!(String::from_utf8_lossy(&disk.0.lock().unwrap().1), expected, "{free}");
            assert_eq!((dropped.get(), log.lost), (lost, None), "{free}");
        }
    }
}
