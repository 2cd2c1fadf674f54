//! qlog file of a connection. A log that cannot be written is given up, with one
//! warning for all connections; the connection goes on.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use anyhow::Context;
use log::warn;

use crate::config::preflight;

/// Makes the folder for qlogs, unless it is there.
///
/// # Errors
///
/// One line that names it: nothing can be written to it.
pub fn make_dir(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| unwritable(dir))?;
    preflight::folder(dir).with_context(|| unwritable(dir))
}

/// Whether [`make_dir()`] would make it, as far as can be told without.
///
/// # Errors
///
/// As there.
pub fn check_dir(dir: &Path) -> anyhow::Result<()> {
    preflight::folder(dir).with_context(|| unwritable(dir))
}

fn unwritable(dir: &Path) -> String {
    format!("cannot write to --qlog-dir {}; name a writable folder", dir.display())
}

/// The folder of one worker's qlogs.
pub struct QlogDir {
    dir: PathBuf,

    /// Trouble has been told of, and no log was written since.
    told: Arc<AtomicBool>,
}

impl QlogDir {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, told: Arc::default() }
    }

    /// A new log, `<dir>/<id>.sqlog`. `None` when it cannot be made.
    pub fn create(&self, id: &str) -> Option<QlogFile<File>> {
        let path = self.dir.join(format!("{id}.sqlog"));
        match File::create_new(&path) {
            Ok(file) => Some(QlogFile::new(file, path, Arc::clone(&self.told))),
            Err(e) => {
                tell(&self.told, &path, &e);
                None
            }
        }
    }
}

/// A log being written. Writing to it never fails.
pub struct QlogFile<W: Write> {
    /// Absent once writing has failed.
    writer: Option<BufWriter<W>>,

    path: PathBuf,
    told: Arc<AtomicBool>,
}

impl<W: Write> QlogFile<W> {
    fn new(file: W, path: PathBuf, told: Arc<AtomicBool>) -> Self {
        Self { writer: Some(BufWriter::new(file)), path, told }
    }

    fn note<T>(&mut self, result: io::Result<T>) {
        if let Err(e) = result {
            tell(&self.told, &self.path, &e);
            // What is buffered is lost; the writer's own drop would try again.
            if let Some(writer) = self.writer.take() {
                drop(writer.into_parts());
            }
        }
    }
}

impl<W: Write> Write for QlogFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(writer) = &mut self.writer {
            let written = writer.write_all(bytes);
            self.note(written);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(writer) = &mut self.writer {
            let flushed = writer.flush();
            self.note(flushed);
        }
        Ok(())
    }
}

impl<W: Write> Drop for QlogFile<W> {
    fn drop(&mut self) {
        let _ = self.flush();
        // The next trouble is news.
        if self.writer.is_some() {
            self.told.store(false, Ordering::Relaxed);
        }
    }
}

fn tell(told: &AtomicBool, path: &Path, error: &io::Error) {
    if !told.swap(true, Ordering::Relaxed) {
        warn!(
            "cannot write {}: {error}; qlogs are incomplete until --qlog-dir is writable",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then is full.
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

    fn write_log(room_bytes: usize, told: &Arc<AtomicBool>) {
        let mut log = QlogFile::new(LimitedDisk(room_bytes), "x.sqlog".into(), Arc::clone(told));
        for _ in 0..100 {
            assert_eq!(log.write(&[7; 1000]).unwrap(), 1000);
        }
        log.flush().unwrap();
    }

    #[test]
    fn a_full_disk_is_told_of_and_no_failure() {
        let told = Arc::default();
        write_log(50_000, &told);
        assert!(told.load(Ordering::Relaxed));
    }

    #[test]
    fn once_a_log_is_written_again_the_next_trouble_is_news() {
        let told = Arc::default();
        write_log(50_000, &told);
        write_log(0, &told);
        assert!(told.load(Ordering::Relaxed));
        write_log(100_000, &told);
        assert!(!told.load(Ordering::Relaxed));
    }

    #[test]
    fn logs_have_the_names_of_their_connections() {
        let dir = tempfile::tempdir().unwrap();
        let logs = QlogDir::new(dir.path().to_owned());
        logs.create("0a").unwrap().write_all(b"{}").unwrap();
        assert_eq!(std::fs::read(dir.path().join("0a.sqlog")).unwrap(), b"{}");

        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(logs.create("0b").is_none());
    }
}
