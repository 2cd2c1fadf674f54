//! What is served: files below the root, and `/bytes/N`. Turns a method and a
//! path into an answer; knows nothing of HTTP/3.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::bail;
use anyhow::Context;
use log::debug;
use percent_encoding::percent_decode_str;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::body::Body;

/// The most bytes that `/bytes/N` serves.
const PATTERN_BYTES_MAX: u64 = 16 << 30;

/// What a folder is answered with.
const INDEX: &str = "index.html";

/// Everything that one server serves.
#[derive(Clone, Debug)]
pub struct Site {
    root: PathBuf,
    speedtest: bool,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub modified: Option<SystemTime>,
    pub body: Body,
}

impl Answer {
    /// An error, said in text.
    pub fn refusal(status: u16, reason: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8".to_owned(),
            modified: None,
            body: Body::Text(format!("{status} {reason}\n")),
        }
    }
}

impl Site {
    /// Serves the folder `root`, and `/bytes/N` if `speedtest`.
    ///
    /// # Errors
    ///
    /// One line that names the folder.
    pub fn open(root: &Path, speedtest: bool) -> anyhow::Result<Self> {
        let shown = root.display();
        let way_out = "name an existing folder";
        let canonical = root
            .canonicalize()
            .with_context(|| format!("cannot serve --root {shown}, {way_out}"))?;
        if !canonical.is_dir() {
            bail!("cannot serve --root {shown}: not a folder, {way_out}");
        }
        std::fs::read_dir(&canonical).with_context(|| format!("cannot read --root {shown}"))?;
        Ok(Self { root: canonical, speedtest })
    }

    /// Answers a GET of `target`, the `:path` of a request.
    pub fn answer(&self, target: &str) -> Answer {
        let path = target.split('?').next().unwrap_or_default();
        if self.speedtest {
            if let Some(count) = path.strip_prefix("/bytes/") {
                return pattern(count);
            }
        }
        let Some(relative) = resolve(path) else {
            return Answer::refusal(400, "Bad Request");
        };
        self.file(&relative).unwrap_or_else(|e| {
            debug!("{path}: {e}");
            match Errno::from_io_error(&e) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP) => {
                    Answer::refusal(404, "Not Found")
                }
                Some(Errno::ACCESS | Errno::PERM) => Answer::refusal(403, "Forbidden"),
                _ => Answer::refusal(500, "Internal Server Error"),
            }
        })
    }

    fn file(&self, relative: &Path) -> io::Result<Answer> {
        if relative.iter().any(is_hidden) {
            return Err(Errno::NOENT.into());
        }
        let mut path = self.inside(&self.root.join(relative))?;
        if path.is_dir() {
            path = self.inside(&path.join(INDEX))?;
        }
        let file = open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Errno::NOENT.into());
        }
        let mime = mime_guess::from_path(&path).first_or_octet_stream();
        Ok(Answer {
            status: 200,
            content_type: mime.to_string(),
            modified: metadata.modified().ok(),
            body: Body::File { file, length: metadata.len() },
        })
    }

    /// The real path, unless links lead out of the root.
    fn inside(&self, path: &Path) -> io::Result<PathBuf> {
        let real = path.canonicalize()?;
        match real.starts_with(&self.root) {
            true => Ok(real),
            false => Err(Errno::NOENT.into()),
        }
    }
}

/// Neither waits for the writer of a named pipe nor follows a link.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Dot files are private, but for the folder that RFC 8615 makes public.
fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") && name != ".well-known"
}

/// The path below the root that an absolute URL path means. `None` when it is
/// malformed or climbs.
fn resolve(path: &str) -> Option<PathBuf> {
    let encoded = path.strip_prefix('/')?;
    let mut resolved = PathBuf::new();
    for segment in encoded.split('/') {
        if !is_well_encoded(segment) {
            return None;
        }
        let name = percent_decode_str(segment).decode_utf8().ok()?;
        match &*name {
            "" | "." => (),
            ".." => return None,
            // An encoded slash is part of a name, and no name has one.
            name if name.contains(['/', '\\', '\0']) => return None,
            name => resolved.push(name),
        }
    }
    Some(resolved)
}

/// Visible ASCII, and after each `%` two hexadecimal digits.
fn is_well_encoded(segment: &str) -> bool {
    let hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let good = match byte {
            b'%' => hex(bytes.next()) && hex(bytes.next()),
            b'#' => false,
            byte => byte.is_ascii_graphic(),
        };
        if !good {
            return false;
        }
    }
    true
}

fn pattern(count: &str) -> Answer {
    let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    match count.parse() {
        Ok(length) if digits && length <= PATTERN_BYTES_MAX => Answer {
            status: 200,
            content_type: "application/octet-stream".to_owned(),
            modified: None,
            body: Body::Pattern { length },
        },
        _ => Answer::refusal(400, "Bad Request: /bytes/N takes a number of at most 17179869184"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Tree {
        site: Site,
        _dir: tempfile::TempDir,
    }

    /// A root with files, folders, and links inside and out of it.
    fn tree() -> Tree {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("www");
        fs::create_dir_all(root.join("sub/empty")).unwrap();
        fs::create_dir_all(root.join(".well-known")).unwrap();
        fs::create_dir_all(dir.path().join("www-private")).unwrap();
        for (name, contents) in [
            ("www/index.html", "home"),
            ("www/a b.txt", "space"),
            ("www/sub/index.html", "sub"),
            ("www/.secret", "secret"),
            ("www/.well-known/id", "id"),
            ("outside", "outside"),
            ("www-private/x", "private"),
        ] {
            fs::write(dir.path().join(name), contents).unwrap();
        }
        symlink("../outside", root.join("leak")).unwrap();
        symlink("../www-private", root.join("sibling")).unwrap();
        symlink("a b.txt", root.join("alias")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        Tree { site: Site::open(&root, true).unwrap(), _dir: dir }
    }

    #[test]
    fn paths_resolve_below_the_root_or_not_at_all() {
        let tree = tree();
        let table = [
            ("/", 200),
            ("/index.html", 200),
            ("/index.html?v=1", 200),
            ("/a%20b.txt", 200),
            ("/sub", 200),
            ("/sub/", 200),
            ("//sub/./index.html", 200),
            ("/alias", 200),
            ("/.well-known/id", 200),
            ("/sub/empty", 404),
            ("/missing", 404),
            ("/index.html/x", 404),
            ("/.secret", 404),
            ("/leak", 404),
            ("/sibling/x", 404),
            ("/loop", 404),
            ("/../outside", 400),
            ("/sub/../../outside", 400),
            ("/%2e%2e/outside", 400),
            ("/..%2foutside", 400),
            ("/sub%2findex.html", 400),
            ("/a%00b", 400),
            ("/a%2", 400),
            ("/a%zz", 400),
            ("/a%ff", 400),
            ("/a b.txt", 400),
            ("/x#y", 400),
            ("index.html", 400),
            ("", 400),
            ("*", 400),
        ];
        for (path, status) in table {
            assert_eq!(tree.site.answer(path).status, status, "{path}");
        }
    }

    #[test]
    fn a_name_longer_than_the_system_allows_is_not_found() {
        let path = format!("/{}", "x".repeat(5000));
        assert_eq!(tree().site.answer(&path).status, 404);
    }

    #[test]
    fn a_file_tells_its_type_length_and_time() {
        let answer = tree().site.answer("/sub");
        assert_eq!(answer.content_type, "text/html");
        assert_eq!(answer.body.length(), 3);
        assert!(answer.modified.is_some());
    }

    #[test]
    fn a_named_pipe_is_not_served() {
        let tree = tree();
        let pipe = tree.site.root.join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
        assert_eq!(tree.site.answer("/pipe").status, 404);
    }

    #[test]
    fn bytes_are_served_up_to_a_bound_and_only_when_asked_for() {
        let tree = tree();
        for (path, status) in [
            ("/bytes/0", 200),
            ("/bytes/17179869184", 200),
            ("/bytes/17179869185", 400),
            ("/bytes/99999999999999999999", 400),
            ("/bytes/-1", 400),
            ("/bytes/+1", 400),
            ("/bytes/", 400),
        ] {
            assert_eq!(tree.site.answer(path).status, status, "{path}");
        }
        assert_eq!(tree.site.answer("/bytes/12345").body.length(), 12345);

        let without = Site { speedtest: false, ..tree.site };
        assert_eq!(without.answer("/bytes/1").status, 404);
    }

    #[test]
    fn a_root_that_is_no_folder_is_named() {
        let tree = tree();
        for bad in [tree.site.root.join("missing"), tree.site.root.join("index.html")] {
            let error = format!("{:#}", Site::open(&bad, false).unwrap_err());
            assert!(error.contains(&format!("--root {}", bad.display())), "{error}");
        }
    }
}
