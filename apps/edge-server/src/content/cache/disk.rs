//! Disk store of cached responses: a file for each, which survives restarts.
//!
//! One thread writes and removes files, and one process at a time has the folder. A file gets its name
//! when it is whole, and all of it has checksums: what a crash leaves behind is never served.

use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Once;
use std::sync::PoisonError;
use std::thread;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::Context;
use log::debug;
use log::warn;
use quiche::clock;
use rustix::fs::FlockOperation;

use crate::config::preflight;
use crate::content::cache::counts::WriteFailure;
use crate::content::cache::disk_file;
use crate::content::cache::disk_file::DiskHead;
use crate::content::cache::disk_index::DiskIndex;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::purge::PurgeTarget;
use crate::content::cache::vary::RequestFields;

/// Name of the file that the process with the folder has locked.
const LOCK: &str = "lock";

/// Name of the file with the time, in milliseconds since 1970, when two processes last had the folder's
/// responses.
const OVERLAP: &str = "overlap";

/// Suffix of files that are not whole yet.
const PARTIAL: &str = ".partial";

/// The most responses that wait to be written, beyond which more are not.
const WRITES_MAX: usize = 64;

/// Folder of cached responses.
#[derive(Debug)]
pub struct DiskStore {
    dir: PathBuf,
    bytes_max: u64,
    index: Mutex<DiskIndex>,
    jobs: Sender<DiskJob>,
    queued_writes: AtomicUsize,

    /// No other process has the folder any longer.
    is_ours: AtomicBool,

    /// End of the last overlap of two processes, in milliseconds since 1970. What is older may have been
    /// purged, or replaced, by the one that did not have the folder.
    overlap_ms: AtomicU64,
}

/// What the thread of the store is to do.
enum DiskJob {
    Write(Box<DiskWrite>),
    Remove(Vec<Box<str>>),
}

struct DiskWrite {
    key: Arc<str>,
    response: Arc<CachedResponse>,

    /// When the response was fetched: after a purge it may be out of date.
    mark: InvalidationMark,
}

/// Checks whether a folder could be used.
///
/// # Errors
///
/// One line that names the folder.
pub fn check_dir(dir: &Path) -> anyhow::Result<()> {
    preflight::folder(dir).with_context(|| unusable(dir))
}

fn unusable(dir: &Path) -> String {
    format!("cannot use --cache-dir {}; name a writable folder", dir.display())
}

impl DiskStore {
    /// Opens a folder. It is empty until no other process has it.
    ///
    /// # Errors
    ///
    /// One line that names the folder.
    pub fn open(dir: &Path, bytes_max: u64) -> anyhow::Result<Arc<Self>> {
        Self::try_open(dir, bytes_max).with_context(|| unusable(dir))
    }

    fn try_open(dir: &Path, bytes_max: u64) -> io::Result<Arc<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let lock = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK))?;
        let (jobs, queue) = channel();
        let (index, queued_writes) = (Mutex::default(), AtomicUsize::default());
        let locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let (dir, is_ours) = (dir.to_owned(), AtomicBool::new(locked.is_ok()));
        let overlap = fs::read_to_string(dir.join(OVERLAP)).ok();
        let overlap_ms = AtomicU64::new(overlap.and_then(|ms| ms.parse().ok()).unwrap_or(0));
        let store =
            Arc::new(Self { dir, bytes_max, index, jobs, queued_writes, is_ours, overlap_ms });
        let weak = Arc::downgrade(&store);
        let run = move || {
            if let Err(e) = rustix::fs::flock(&lock, FlockOperation::LockExclusive) {
                return warn!("cache: cannot lock --cache-dir: {e}");
            }
            if let Some(store) = weak.upgrade() {
                if !store.is_ours.load(Ordering::Relaxed) {
                    store.end_overlap();
                }
                store.is_ours.store(true, Ordering::Relaxed);
                store.scan();
            }
            // The lock is kept until the store is gone.
            run(&weak, &queue);
            drop(lock);
        };
        thread::Builder::new().name("cache-disk".into()).spawn(run)?;
        Ok(store)
    }

    /// Returns whether no other process has the folder.
    pub fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed)
    }

    /// Notes that another process had the folder until now.
    fn end_overlap(&self) {
        let ms = ms_since_1970(clock::wall_now());
        self.overlap_ms.store(ms, Ordering::Relaxed);
        if let Err(e) = fs::write(self.dir.join(OVERLAP), ms.to_string()) {
            warn_once(&e);
        }
    }

    /// Returns whether a response that was received then is to be confirmed before it is used.
    pub fn is_to_be_confirmed(&self, received: SystemTime) -> bool {
        ms_since_1970(received) <= self.overlap_ms.load(Ordering::Relaxed)
    }

    /// Returns whether the folder is being read.
    pub fn is_scanning(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed) && !self.index().is_open()
    }

    /// Returns the mark of a response that is not forgotten yet.
    pub fn mark(&self, key: &str) -> InvalidationMark {
        self.index().invalidations.mark(key)
    }

    /// Returns the file with the response to a request, if there is one.
    pub fn find(&self, key: &str, request: &impl RequestFields) -> Option<PathBuf> {
        self.index().find(key, request).map(|name| self.path(&name))
    }

    /// Has a response written, unless another process has the folder, too many wait, or it was forgotten
    /// since the mark.
    pub fn write(&self, key: &Arc<str>, response: &Arc<CachedResponse>, mark: InvalidationMark) {
        if !self.is_ours.load(Ordering::Relaxed) {
            return;
        }
        if self.queued_writes.fetch_add(1, Ordering::Relaxed) >= WRITES_MAX {
            self.queued_writes.fetch_sub(1, Ordering::Relaxed);
            WriteFailure::QueueFull.count();
            return debug!("cache: the disk is slow; {key} stays in memory alone");
        }
        let (key, response) = (Arc::clone(key), Arc::clone(response));
        self.send(DiskJob::Write(Box::new(DiskWrite { key, response, mark })));
    }

    /// Forgets responses. Returns how many there were.
    pub fn forget(&self, target: &PurgeTarget) -> usize {
        let (names, count) = self.index().purge(target);
        self.send(DiskJob::Remove(names));
        count
    }

    /// Forgets a file that cannot be read.
    pub fn forget_file(&self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.index().remove(name);
        self.send(DiskJob::Remove(vec![name.into()]));
    }

    fn send(&self, job: DiskJob) {
        // Fails if the thread has ended: then nothing is on disk for it.
        let _ = self.jobs.send(job);
    }

    fn index(&self) -> MutexGuard<'_, DiskIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Reads what is in the folder, and removes what is not whole.
    fn scan(&self) {
        let user = rustix::process::geteuid().as_raw();
        let entries = fs::read_dir(&self.dir).into_iter().flatten().filter_map(Result::ok);
        for entry in entries {
            let (name, path) = (entry.file_name(), entry.path());
            let Some(name) = name.to_str().filter(|name| is_own_name(name)) else { continue };
            // Others may have put it there.
            let own = entry.metadata().ok().filter(|own| own.is_file() && own.uid() == user);
            let Some(bytes) = own.map(|own| own.len()) else { continue };
            match disk_file::read_head(&path).map(|(head, _)| head) {
                Ok(head) if !name.ends_with(PARTIAL) => self.index().insert(name, &head, bytes),
                _ => self.unlink(name),
            }
        }
        let outdated = self.index().open();
        outdated.iter().for_each(|name| self.unlink(name));
        self.make_room();
    }

    fn unlink(&self, name: &str) {
        if let Err(e) = fs::remove_file(self.path(name)) {
            debug!("cache: cannot remove {name}: {e}");
        }
    }

    fn make_room(&self) {
        loop {
            let Some(name) = self.index().evict(self.bytes_max) else { return };
            self.unlink(&name);
        }
    }

    fn do_job(&self, job: DiskJob) {
        match job {
            DiskJob::Remove(names) => names.iter().for_each(|name| self.unlink(name)),
            DiskJob::Write(write) => {
                self.queued_writes.fetch_sub(1, Ordering::Relaxed);
                if let Err(e) = self.try_write(&write) {
                    WriteFailure::Refused.count();
                    warn_once(&e);
                }
            }
        }
    }

    fn try_write(&self, write: &DiskWrite) -> io::Result<()> {
        let DiskWrite { key, response, mark } = write;
        let is_current =
            |index: &DiskIndex| index.invalidations.is_current(*mark, key, response.tags());
        let Some(reader) = response.body.reader().filter(|_| is_current(&self.index())) else {
            return Ok(());
        };
        let head = DiskHead::of(key, response, &reader)?;
        let name = head.file_name();
        let (partial, whole) = (self.path(&format!("{name}{PARTIAL}")), self.path(&name));
        let bytes = disk_file::write(&partial, &head, &reader).inspect_err(|_| {
            let _ = fs::remove_file(&partial);
        })?;
        fs::rename(&partial, &whole)?;
        let is_current = {
            let mut index = self.index();
            let is_current = is_current(&index);
            if is_current {
                index.insert(&name, &head, bytes);
            }
            is_current
        };
        if !is_current {
            self.unlink(&name);
        }
        self.make_room();
        Ok(())
    }
}

fn ms_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Returns whether a file has a name that the store gives.
fn is_own_name(name: &str) -> bool {
    let name = name.strip_suffix(PARTIAL).unwrap_or(name);
    name.len() == disk_file::NAME_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Does what is to be done until the store is gone.
fn run(store: &std::sync::Weak<DiskStore>, queue: &Receiver<DiskJob>) {
    while let Ok(job) = queue.recv() {
        let Some(store) = store.upgrade() else { return };
        store.do_job(job);
    }
}

fn warn_once(error: &io::Error) {
    static WARNING: Once = Once::new();
    WARNING.call_once(|| {
        warn!("cache: cannot write to --cache-dir: {error}; responses stay in memory alone");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    #[test]
    fn files_of_others_stay_and_those_of_a_crash_go() {
        let dir = tempfile::tempdir().unwrap();
        let torn = "0123456789abcdef0123456789abcdef";
        let partial = format!("{torn}{PARTIAL}");
        for name in ["edge.toml", "cafe", torn, &partial] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let _store = DiskStore::open(dir.path(), 1 << 20).unwrap();
        let is_there = |name: &str| dir.path().join(name).exists();
        for _ in 0..1000 {
            if !is_there(torn) && !is_there(&partial) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let left = ["edge.toml", "cafe", torn, &partial].map(is_there);
        assert_eq!(left, [true, true, false, false]);
    }
}
