//! qlog file of a connection. A write error ends the file and is warned of once for all
//! connections; the connection continues.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Once;

use anyhow::Context;
use log::warn;

use crate::config::preflight;
use crate::telemetry::qlog::budget::QlogBudget;
use crate::telemetry::qlog::budget::EXTENSION;

/// Makes the folder for qlogs, unless it exists.
///
/// # Errors
///
/// One line that names the folder if it is not writable.
pub fn make_dir(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| unwritable(dir))?;
    preflight::folder(dir).with_context(|| unwritable(dir))
}

/// Checks whether [`make_dir()`] would succeed, without making the folder.
///
/// # Errors
///
/// Those of [`make_dir()`].
pub fn check_dir(dir: &Path) -> anyhow::Result<()> {
    preflight::folder(dir).with_context(|| unwritable(dir))
}

fn unwritable(dir: &Path) -> String {
    format!("cannot write to --qlog-dir {}; name a writable folder", dir.display())
}

/// Folder of one worker's qlogs.
pub struct QlogDir {
    dir: PathBuf,
    budget: QlogBudget,

    /// Whether an error was logged and no file has succeeded since.
    warned: Arc<AtomicBool>,
}

impl QlogDir {
    pub fn new(dir: PathBuf, budget: QlogBudget) -> Self {
        Self { dir, budget, warned: Arc::default() }
    }

    /// Creates the file `<dir>/<id>.sqlog`. Returns `None` after an error, or if there is no room.
    pub fn create(&self, id: &str) -> Option<QlogFile<File>> {
        if !self.budget.try_create() {
            warn_of_budget();
            return None;
        }
        let path = self.dir.join(format!("{id}.{EXTENSION}"));
        match File::create_new(&path) {
            Ok(file) => {
                let (budget, warned) = (self.budget.clone(), Arc::clone(&self.warned));
                Some(QlogFile::new(file, path, budget, warned))
            }
            Err(e) => {
                self.budget.give_up();
                warn_once(&self.warned, &path, &e);
                None
            }
        }
    }
}

/// Open qlog file. Writing to it never returns an error.
pub struct QlogFile<W: Write> {
    /// `None` after an error.
    writer: Option<BufWriter<W>>,

    path: PathBuf,
    budget: QlogBudget,
    bytes: u64,
    warned: Arc<AtomicBool>,
}

impl<W: Write> QlogFile<W> {
    fn new(file: W, path: PathBuf, budget: QlogBudget, warned: Arc<AtomicBool>) -> Self {
        Self { writer: Some(BufWriter::new(file)), path, budget, bytes: 0, warned }
    }

    /// Ends the file if there is no room for so many bytes more.
    fn take_room(&mut self, bytes: usize) {
        if self.writer.is_none() {
            return;
        }
        if self.budget.try_write(self.bytes, bytes as u64) {
            self.bytes += bytes as u64;
        } else {
            let _ = self.flush();
            self.writer = None;
            warn_of_budget();
        }
    }

    fn check<T>(&mut self, result: io::Result<T>) {
        if let Err(e) = result {
            warn_once(&self.warned, &self.path, &e);
            self.budget.on_write_error();
            // Discards the buffer: the writer's own drop would write it.
            if let Some(writer) = self.writer.take() {
                drop(writer.into_parts());
            }
        }
    }
}

impl<W: Write> Write for QlogFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take_room(bytes.len());
        if let Some(writer) = &mut self.writer {
            let written = writer.write_all(bytes);
            self.check(written);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(writer) = &mut self.writer {
            let flushed = writer.flush();
            self.check(flushed);
        }
        Ok(())
    }
}

impl<W: Write> Drop for QlogFile<W> {
    fn drop(&mut self) {
        let _ = self.flush();
        // After a success, the next error is logged again.
        if self.writer.is_some() {
            self.warned.store(false, Ordering::Relaxed);
        }
    }
}

/// Warns once that there is no room for qlogs.
fn warn_of_budget() {
    static WARNING: Once = Once::new();
    WARNING.call_once(|| {
        warn!(
            "qlogs are incomplete: delete some, or raise --qlog-bytes-max or --qlog-files-max, or \
             lower --qlog-rate"
        );
    });
}

fn warn_once(warned: &AtomicBool, path: &Path, error: &io::Error) {
    if !warned.swap(true, Ordering::Relaxed) {
        warn!(
            "cannot write {}: {error}; qlogs are incomplete until --qlog-dir is writable",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writer that is full after a number of bytes.
    struct LimitedDisk(usize);

    impl Write for LimitedDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            match count {
                0 => Err(io::ErrorKind::StorageFull.into()),
                count => Ok(count),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn unlimited() -> QlogBudget {
        let budget = QlogBudget::default();
        budget.set_limits(1 << 40, 1000);
        budget
    }

    #[test]
    fn log_beyond_its_budget_ends() {
        let dir = tempfile::tempdir().unwrap();
        let budget = QlogBudget::default();
        budget.set_limits(16_000, 2);
        let logs = QlogDir::new(dir.path().to_owned(), budget.clone());
        let mut log = logs.create("0a").unwrap();
        for _ in 0..3 {
            assert_eq!(log.write(&[7; 400]).unwrap(), 400);
        }
        drop(log);
        assert_eq!(std::fs::read(dir.path().join("0a.sqlog")).unwrap().len(), 800);
        assert!(logs.create("0b").is_some() && logs.create("0c").is_none());
        assert_eq!((budget.bytes(), budget.dropped()), (800, 2));
    }

    /// Returns how many files ended early.
    fn write_log(free_bytes: usize, warned: &Arc<AtomicBool>) -> u64 {
        let (disk, path) = (LimitedDisk(free_bytes), "x.sqlog".into());
        let budget = unlimited();
        let mut log = QlogFile::new(disk, path, budget.clone(), Arc::clone(warned));
        for _ in 0..100 {
            assert_eq!(log.write(&[7; 1000]).unwrap(), 1000);
        }
        log.flush().unwrap();
        budget.dropped()
    }

    #[test]
    fn full_disk_is_counted_and_warned_of_without_error() {
        let warned = Arc::default();
        assert_eq!(write_log(50_000, &warned), 1);
        assert!(warned.load(Ordering::Relaxed));
    }

    #[test]
    fn written_log_resets_warning() {
        let warned = Arc::default();
        write_log(50_000, &warned);
        write_log(0, &warned);
        assert!(warned.load(Ordering::Relaxed));
        assert_eq!(write_log(100_000, &warned), 0);
        assert!(!warned.load(Ordering::Relaxed));
    }

    #[test]
    fn qlog_file_is_named_by_connection() {
        let dir = tempfile::tempdir().unwrap();
        let logs = QlogDir::new(dir.path().to_owned(), unlimited());
        logs.create("0a").unwrap().write_all(b"{}").unwrap();
        assert_eq!(std::fs::read(dir.path().join("0a.sqlog")).unwrap(), b"{}");

        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(logs.create("0b").is_none());
    }
}
