//! Budget of all qlog files in the folder: their number, and their bytes.
//!
//! Files of earlier processes count, too. The folder is read again now and then: an operator may
//! delete some.

use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use log::debug;
use quiche::clock;

/// How a qlog file's name ends.
pub const EXTENSION: &str = "sqlog";

/// One file may have one in so many of all bytes.
const FILE_DIVISOR: u64 = 16;

/// How often the folder is read again at most.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// Handle of the budget.
#[derive(Clone, Default)]
pub struct QlogBudget(Arc<SharedBudget>);

#[derive(Default)]
struct SharedBudget {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    files: AtomicU64,
    files_max: AtomicU64,
    dropped: AtomicU64,

    /// The folder, and when it was read.
    dir: OnceLock<PathBuf>,
    counted_at: Mutex<Option<Instant>>,
}

impl QlogBudget {
    /// Sets how much all files may have.
    pub fn set_limits(&self, bytes_max: u64, files_max: u32) {
        self.0.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.0.files_max.store(files_max.into(), Ordering::Relaxed);
    }

    /// Sets the folder, and counts the files in it.
    pub fn watch(&self, dir: &Path) {
        self.count(self.0.dir.get_or_init(|| dir.to_owned()));
    }

    /// Counts the files in the folder again, if it has been a while.
    pub fn refresh(&self) {
        if let Some(dir) = self.0.dir.get().filter(|_| self.is_due()) {
            self.count(dir);
        }
    }

    fn count(&self, dir: &Path) {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let qlogs = files.filter(|file| file.path().extension().is_some_and(|e| e == EXTENSION));
        let (mut files, mut bytes) = (0, 0);
        for metadata in qlogs.filter_map(|file| file.metadata().ok()) {
            files += 1;
            bytes += metadata.len();
        }
        self.0.files.store(files, Ordering::Relaxed);
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts one more file. Returns whether there is room for it.
    pub fn try_create(&self) -> bool {
        if self.bytes() < self.bytes_max() && self.files() < self.files_max() {
            self.0.files.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.count_dropped();
        self.count_again();
        false
    }

    /// Counts a file that ends early.
    pub fn on_write_error(&self) {
        self.count_dropped();
    }

    /// Takes a file back that could not be created.
    pub fn give_up(&self) {
        self.count_dropped();
        let less = |files: u64| files.checked_sub(1);
        let _ = self.0.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts bytes of a file that has `own_bytes`. Returns whether there is room for them.
    pub fn try_write(&self, own_bytes: u64, bytes: u64) -> bool {
        let (all_max, own_max) = (self.bytes_max(), self.bytes_max() / FILE_DIVISOR);
        let has_room = self.bytes() + bytes <= all_max && own_bytes + bytes <= own_max;
        match has_room {
            true => drop(self.0.bytes.fetch_add(bytes, Ordering::Relaxed)),
            false => self.count_dropped(),
        }
        has_room
    }

    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max.load(Ordering::Relaxed)
    }

    pub fn files(&self) -> u64 {
        self.0.files.load(Ordering::Relaxed)
    }

    pub fn files_max(&self) -> u64 {
        self.0.files_max.load(Ordering::Relaxed)
    }

    /// Returns how many files were not begun, or ended early.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    fn count_dropped(&self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the folder is to be read again, which then begins.
    fn is_due(&self) -> bool {
        let now = clock::now();
        let mut counted_at = self.0.counted_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due =
            counted_at.is_none_or(|at| now.saturating_duration_since(at) >= COUNT_INTERVAL);
        if is_due {
            *counted_at = Some(now);
        }
        is_due
    }

    /// Reads the folder again on another thread, now and then.
    fn count_again(&self) {
        let Some(dir) = self.0.dir.get().filter(|_| self.is_due()) else { return };
        let (budget, dir) = (self.clone(), dir.to_owned());
        let count = move || budget.count(&dir);
        if let Err(e) = thread::Builder::new().name("qlog-count".into()).spawn(count) {
            debug!("cannot count the qlogs: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_bytes_of_the_folder_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.sqlog"), [7; 300]).unwrap();
        std::fs::write(dir.path().join("notes"), [7; 1000]).unwrap();
        let budget = QlogBudget::default();
        budget.set_limits(1600, 3);
        budget.watch(dir.path());
        // Which is not due again meanwhile.
        budget.refresh();
        assert_eq!((budget.files(), budget.bytes()), (1, 300));

        assert!(budget.try_create() && budget.try_create());
        assert!(!budget.try_create());
        budget.give_up();
        assert!(budget.try_create() && !budget.try_create());
        assert!(budget.try_write(0, 100));
        assert!(!budget.try_write(100, 1), "a sixteenth is for one file");
        for _ in 0..12 {
            assert!(budget.try_write(0, 100));
        }
        assert!(!budget.try_write(0, 1));
        assert_eq!((budget.bytes(), budget.dropped()), (1600, 5));
    }

    #[test]
    fn deleted_files_do_not_count_after_a_refresh() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.sqlog");
        std::fs::write(&file, [7; 300]).unwrap();
        let budget = QlogBudget::default();
        budget.set_limits(1600, 3);
        budget.watch(dir.path());
        std::fs::remove_file(file).unwrap();
        budget.refresh();
        assert_eq!((budget.files(), budget.bytes()), (0, 0));
        std::fs::write(dir.path().join("b.sqlog"), [7; 300]).unwrap();
        budget.refresh();
        assert_eq!(budget.files(), 0, "it has not been a while");
    }
}
