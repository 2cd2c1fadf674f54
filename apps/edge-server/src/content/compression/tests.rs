//! Tests of the compressor: its queue, and what changes meanwhile.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use super::*;

use crate::content::file_identity::FileIdentity;
use crate::content::root::Root;
use crate::http::shared_body::SharedBody;

/// Later than the last change of any file of a test.
const LATER: Duration = Duration::from_secs(60);

struct TestFolder {
    root: Root,
    dir: tempfile::TempDir,
    compressor: Compressor,
}

impl TestFolder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        Self { root, dir, compressor: Compressor::new(1 << 20) }
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.dir.path().join(name), content).unwrap();
    }

    fn identity(&self, name: &str) -> FileIdentity {
        FileIdentity::of(&fs::metadata(self.dir.path().join(name)).unwrap())
    }

    /// Returns the coding of the variant that a request for a file of this identity gets.
    fn find(&self, name: &str, identity: FileIdentity, accepted: &[Coding]) -> Option<Coding> {
        let source =
            CompressionSource::File { root: &self.root, relative: Path::new(name), identity };
        self.compressor.find(&source, accepted).map(|(coding, _)| coding)
    }

    /// Compresses all that waits. Returns how many files that were.
    fn run(&self) -> usize {
        let wall_now = quiche::clock::wall_now() + LATER;
        std::iter::from_fn(|| self.compressor.run_next(wall_now).then_some(())).count()
    }
}

#[test]
fn first_coding_is_queued_once_and_others_are_found_meanwhile() {
    use Coding::*;
    let folder = TestFolder::new();
    folder.write("a", &[b'a'; 5000]);
    let identity = folder.identity("a");
    let find = |accepted: &[Coding]| folder.find("a", identity, accepted);
    assert_eq!([find(&[Gzip]), find(&[Gzip])], [None, None]);
    assert_eq!(folder.run(), 1);
    assert_eq!(find(&[Gzip]), Some(Gzip));
    assert_eq!(find(&[Brotli, Gzip]), Some(Gzip));
    assert_eq!(folder.run(), 1);
    assert_eq!(find(&[Brotli, Gzip]), Some(Brotli));
    assert_eq!(find(&[Zstd, Gzip, Brotli]), Some(Gzip));
    assert_eq!(find(&[]), None);
    assert_eq!((folder.run(), folder.run()), (1, 0));
}

#[test]
fn file_that_saves_too_little_is_compressed_once() {
    let folder = TestFolder::new();
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let random: Vec<u8> = (0..20_000).map(|_| random()).collect();
    // A tail that can be left out, which is more or less than a twentieth.
    for (name, tail, is_useful) in [("less", 800, false), ("more", 1500, true)] {
        folder.write(name, &[&random[..], &vec![0; tail]].concat());
        let identity = folder.identity(name);
        for coding in Coding::ALL {
            assert_eq!(folder.find(name, identity, &[coding]), None);
            assert_eq!(folder.run(), 1);
            let found = folder.find(name, identity, &[coding]);
            assert_eq!(found.is_some(), is_useful, "{name} {coding:?}");
            assert_eq!(folder.run(), 0);
        }
    }
    let identity = folder.identity("less");
    assert_eq!(folder.find("less", identity, &Coding::ALL), None);
    assert_eq!(folder.run(), 0);
}

#[test]
fn file_that_is_another_one_by_its_turn_is_not_compressed() {
    let folder = TestFolder::new();
    let path = folder.dir.path().join("a");
    let changes: [(&str, &dyn Fn()); 5] = [
        ("none", &|| ()),
        ("content", &|| folder.write("a", &[b'b'; 5000])),
        ("length", &|| folder.write("a", &[b'a'; 5001])),
        ("other file", &|| {
            folder.write("b", &[b'b'; 5000]);
            fs::rename(folder.dir.path().join("b"), &path).unwrap();
        }),
        ("removal", &|| fs::remove_file(&path).unwrap()),
    ];
    for (what, change) in changes {
        folder.write("a", &[b'a'; 5000]);
        // Of another time than the next change has, whatever the resolution.
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let identity = folder.identity("a");
        folder.find("a", identity, &[Coding::Gzip]);
        change();
        assert_eq!(folder.run(), 1, "{what}");
        let found = folder.find("a", identity, &[Coding::Gzip]);
        assert_eq!(found.is_some(), what == "none", "{what}");
        // It may be queued again.
        assert_eq!(folder.run(), usize::from(what != "none"), "{what}");
    }
}

#[test]
fn file_that_changes_while_it_is_read_is_not_compressed() {
    let folder = TestFolder::new();
    let wall_now = quiche::clock::wall_now() + LATER;
    let append = |_: &File| {
        let file = File::options().append(true).open(folder.dir.path().join("a"));
        io::Write::write_all(&mut file.unwrap(), b"b").unwrap();
    };
    let leave = |_: &File| ();
    for (change, is_kept) in [(&leave as &dyn Fn(&File), true), (&append, false)] {
        folder.write("a", &[b'a'; 5000]);
        let identity = folder.identity("a");
        let file = File::open(folder.dir.path().join("a")).unwrap();
        let encoded = source::if_unchanged(&file, identity, wall_now, |file| {
            let encoded = encoder::encode(file, identity.length, Coding::Gzip, 4000);
            change(file);
            encoded
        });
        assert_eq!(matches!(encoded, Ok(Encoded::Whole(_))), is_kept, "{encoded:?}");
        assert_eq!(matches!(encoded, Ok(Encoded::Changed)), !is_kept, "{encoded:?}");
    }
}

#[test]
fn file_that_has_just_changed_is_compressed_later() {
    let folder = TestFolder::new();
    folder.write("a", &[b'a'; 5000]);
    let identity = folder.identity("a");
    let written = quiche::clock::wall_now();
    let ms = Duration::from_millis(1);
    for (after, is_compressed) in [(Duration::ZERO, false), (900 * ms, false), (1100 * ms, true)] {
        assert_eq!(folder.find("a", identity, &[Coding::Gzip]), None, "{after:?}");
        assert!(folder.compressor.run_next(written + after));
        let found = folder.find("a", identity, &[Coding::Gzip]);
        assert_eq!(found.is_some(), is_compressed, "{after:?}");
        while folder.compressor.run_next(written) {}
    }
}

#[test]
fn waiting_files_are_bounded_and_have_no_descriptors() {
    let folder = TestFolder::new();
    for number in 0..WAITING_MAX + 10 {
        let name = number.to_string();
        folder.write(&name, &[b'a'; 5000]);
        folder.find(&name, folder.identity(&name), &[Coding::Gzip]);
    }
    // The folder of the root, and the thing that asks.
    let own = |entry: io::Result<fs::DirEntry>| {
        let to = fs::read_link(entry.ok()?.path()).ok()?;
        (to.starts_with(folder.dir.path()) && to != folder.dir.path()).then_some(())
    };
    assert_eq!(fs::read_dir("/proc/self/fd").unwrap().filter_map(own).count(), 0);
    assert_eq!(folder.run(), WAITING_MAX);
    for (number, is_found) in [(0, true), (WAITING_MAX - 1, true), (WAITING_MAX, false)] {
        let name = number.to_string();
        let found = folder.find(&name, folder.identity(&name), &[Coding::Gzip]);
        assert_eq!(found.is_some(), is_found, "{number}");
    }
    assert_eq!(folder.run(), 1, "there is room again");
}

#[test]
fn no_file_is_compressed_while_responses_have_dropped_variants() {
    let folder = TestFolder { compressor: Compressor::new(20_000), ..TestFolder::new() };
    let mut sent = Vec::new();
    // Text whose variant has about half its length.
    let content = |seed: u32| {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"0123456789abcdef"[(state >> 28) as usize]
        };
        (0..10_000).map(|_| random()).collect::<Vec<u8>>()
    };
    let mut found = 0;
    for number in 0..50 {
        let name = number.to_string();
        folder.write(&name, &content(number));
        let identity = folder.identity(&name);
        let source =
            CompressionSource::File { root: &folder.root, relative: Path::new(&name), identity };
        folder.compressor.find(&source, &[Coding::Gzip]);
        folder.run();
        if let Some((_, variant)) = folder.compressor.find(&source, &[Coding::Gzip]) {
            found += 1;
            sent.push(variant.content.slice(..));
        }
        folder.run();
        assert!(folder.compressor.0.variants.held_bytes() <= 40_000, "{number}");
    }
    assert!((4..8).contains(&found), "{found}");
    sent.clear();
    folder.find("49", folder.identity("49"), &[Coding::Gzip]);
    folder.run();
    assert!(folder.find("49", folder.identity("49"), &[Coding::Gzip]).is_some());
}

#[test]
fn threads_compress_what_waits_and_end_with_the_compressor() {
    let folder = TestFolder::new();
    folder.write("a", &[b'a'; 5000]);
    let identity = folder.identity("a");
    folder.compressor.start_threads().unwrap();
    let shared = Arc::downgrade(&folder.compressor.0);
    let happens = |what: &dyn Fn() -> bool| {
        let has_happened = |_| {
            thread::sleep(Duration::from_millis(10));
            what()
        };
        (0..1000).any(has_happened)
    };
    // Not before the file has settled.
    assert!(happens(&|| folder.find("a", identity, &[Coding::Brotli]).is_some()));
    drop(folder);
    assert!(happens(&|| shared.strong_count() == 0));
}

#[test]
fn body_is_compressed_as_long_as_it_is_kept() {
    let compressor = Compressor::new(1 << 20);
    let now = quiche::clock::wall_now();
    for (length, is_kept) in [(5000, true), (200_000, true), (5000, false)] {
        let (body, writer) = SharedBody::new(None, &Arc::default());
        let content: Vec<_> = (0..length).map(|at| (at % 10) as u8).collect();
        writer.push(&content);
        assert!(writer.finish());
        let find = |body: &Arc<SharedBody>| {
            compressor.find(&CompressionSource::Body(body, length), &[Coding::Zstd])
        };
        assert!(find(&body).is_none());
        let kept = is_kept.then_some(body);
        assert!(compressor.run_next(now), "{length}");
        let found = kept.as_ref().and_then(find);
        let decoded = found.map(|(coding, variant)| decode(&variant.content, coding));
        assert!(decoded == is_kept.then_some(content), "{length} {is_kept}");
        assert!(!compressor.run_next(now), "{length}");
    }
}
