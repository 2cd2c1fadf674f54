//! Fetch of a response from disk into memory, from where all who wait for it read it.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use log::debug;
use log::warn;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::content::cache::counts;
use crate::content::cache::disk::DiskStore;
use crate::content::cache::disk_file;
use crate::content::cache::disk_file::DiskHead;
use crate::content::cache::disk_file::DiskPieces;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::store::MemoryReservation;
use crate::content::cache::store::ResponseCache;
use crate::http::shared_body::SharedBody;
use crate::http::shared_body::SharedBodyWriter;

/// Pauses of a request while the folder is read after the start, and how many there are at most.
const SCAN_NAP: Duration = Duration::from_millis(10);
const SCAN_NAPS_MAX: u32 = 200;

/// Freshness of a response that is written again, at least.
const REWRITE_LIFETIME_MIN: Duration = Duration::from_secs(60);

/// A file whose head and first piece are right.
struct OpenedFile {
    head: DiskHead,
    first: Option<Vec<u8>>,
    pieces: DiskPieces,
}

/// Body of a file that is read.
struct DiskFill {
    cache: Arc<ResponseCache>,
    disk: Arc<DiskStore>,
    path: PathBuf,
    key: Arc<str>,
    kept: Arc<CachedResponse>,
    writer: SharedBodyWriter,
    pieces: DiskPieces,
    reserved: MemoryReservation,
}

/// Returns the response on disk to a request with these fields, if there is one.
pub async fn read(
    cache: &Arc<ResponseCache>,
    settings: &CacheSettings,
    key: &Arc<str>,
    request: &HeaderMap,
) -> Option<Arc<CachedResponse>> {
    let disk = cache.disk()?;
    // A restart is no rush on the origin.
    for _ in 0..SCAN_NAPS_MAX {
        if !disk.is_scanning() {
            break;
        }
        sleep(SCAN_NAP).await;
    }
    let mark = cache.invalidations.mark(key);
    let path = disk.find(key, request)?;
    let opening = spawn_blocking({
        let path = path.clone();
        move || open(&path)
    });
    let opened = opening.await.map_err(io::Error::other).and_then(|opened| opened);
    let opened = opened.inspect_err(|e| {
        report(&path, e);
        disk.forget_file(&path);
    });
    let OpenedFile { head, first, pieces } = opened.ok().filter(|file| *file.head.key == **key)?;
    let reserved = cache.reserve(head.length)?;
    let (body, writer) = SharedBody::new(Some(head.length), cache.held());
    let mut kept = CachedResponse::new(head.received(), head.selecting(), body, settings);
    kept.slices = head.slices;
    if disk.is_to_be_confirmed(kept.freshness.received) {
        kept.freshness.is_unvalidated = true;
        kept.freshness.must_revalidate = true;
    }
    let kept = Arc::new(kept);
    if !cache.insert_if_current(key, &kept, mark) {
        return None;
    }
    counts::count_disk_hit();
    first.iter().for_each(|piece| writer.push(piece));
    let (cache, disk, key) = (Arc::clone(cache), Arc::clone(disk), Arc::clone(key));
    let own = Arc::clone(&kept);
    let fill = DiskFill { cache, disk, path, key, kept: own, writer, pieces, reserved };
    drop(spawn_blocking(move || fill.run()));
    Some(kept)
}

/// Has a response written again that the origin has confirmed, once its body is whole: a restart does not have
/// it confirmed again. One that is fresh for a short time is not worth the writing.
pub fn rewrite(
    cache: &ResponseCache,
    key: &Arc<str>,
    response: &Arc<CachedResponse>,
    mark: InvalidationMark,
) {
    let is_worth_it = response.freshness.lifetime >= REWRITE_LIFETIME_MIN;
    let Some(disk) = cache.disk().filter(|_| is_worth_it).map(Arc::clone) else { return };
    let length = response.body.length().unwrap_or(u64::MAX);
    let Some(wait) = response.body.reader().map(|reader| reader.wait(length)) else { return };
    let (key, response) = (Arc::clone(key), Arc::clone(response));
    tokio::spawn(async move {
        poll_fn(|cx| wait.poll(cx)).await;
        if !response.body.is_usable() {
            return;
        }
        disk.write(&key, &response, mark);
    });
}

/// Tells of a file that is not what was written. One that is not there was purged a moment ago.
fn report(path: &Path, error: &io::Error) {
    match error.kind() {
        io::ErrorKind::NotFound => debug!("cache: {}: {error}", path.display()),
        _ => warn!(
            "cache: {}: {error}; its response is fetched again, check the disk",
            path.display()
        ),
    }
}

fn open(path: &Path) -> io::Result<OpenedFile> {
    let (head, mut pieces) = disk_file::read_head(path)?;
    let first = pieces.next()?;
    Ok(OpenedFile { head, first, pieces })
}

impl DiskFill {
    fn run(self) {
        let Self { cache, disk, path, key, kept, writer, mut pieces, reserved } = self;
        let _reserved = reserved;
        loop {
            match pieces.next() {
                Ok(Some(piece)) => writer.push(&piece),
                Ok(None) => break,
                Err(e) => {
                    report(&path, &e);
                    cache.remove(&key, &kept);
                    return disk.forget_file(&path);
                }
            }
        }
        if writer.finish() {
            cache.on_complete(&key);
        }
    }
}
