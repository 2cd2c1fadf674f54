//! Files below a root as representations: which file a path means, in which
//! coding, and what tells it from an earlier one.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use percent_encoding::percent_decode_str;
use rustix::io::Errno;

use crate::content::root::Root;
use crate::content::rules::Rules;
use crate::http::body::BodySource;
use crate::http::conditional::Validators;
use crate::http::content_coding::Coding;

/// What a client can have of a resource.
#[derive(Debug)]
pub struct Representation {
    pub source: BodySource,

    /// In bytes.
    pub length: u64,
    pub content_type: Cow<'static, str>,
    pub coding: Option<Coding>,
    pub validators: Validators,
}

/// What a path leads to.
#[derive(Debug)]
pub enum Lookup {
    /// A file, and its path below the root.
    File(Representation, PathBuf),

    /// A folder whose path lacks the slash at its end.
    Folder,
}

/// A path below the root, as a URL names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPath {
    pub relative: PathBuf,

    /// It ends with a slash: only a folder is meant.
    pub folder: bool,
}

impl UrlPath {
    /// What an absolute URL path means. `None` when it is malformed or climbs.
    pub fn read(path: &str) -> Option<Self> {
        let encoded = path.strip_prefix('/')?;
        let mut relative = PathBuf::new();
        let mut folder = true;
        for segment in encoded.split('/') {
            if !is_well_encoded(segment) {
                return None;
            }
            let name = percent_decode_str(segment).decode_utf8().ok()?;
            folder = matches!(&*name, "" | ".");
            match &*name {
                "" | "." => (),
                ".." => return None,
                // An encoded slash is part of a name, and no name has one.
                name if name.contains(['/', '\\', '\0']) => return None,
                name => relative.push(name),
            }
        }
        Some(Self { relative, folder })
    }

    /// The path, decoded.
    pub fn decoded(&self) -> String {
        let end = if self.folder && !self.relative.as_os_str().is_empty() { "/" } else { "" };
        format!("/{}{end}", self.relative.display())
    }
}

/// Finds what `url_path` is, in the coding that is wanted most of those that are there.
///
/// # Errors
///
/// There is nothing, or it may not be read.
pub fn find(
    root: &Root,
    rules: &Rules,
    url_path: &UrlPath,
    wanted: &[Coding],
) -> io::Result<Lookup> {
    if url_path.relative.iter().any(is_hidden) {
        return Err(Errno::NOENT.into());
    }
    let file = root.open_beneath(&url_path.relative)?;
    let metadata = file.metadata()?;
    match (metadata.is_dir(), url_path.folder) {
        (true, true) => {
            let (file, metadata, relative) = index(root, rules, &url_path.relative)?;
            Ok(represent(root, rules, file, metadata, relative, wanted))
        }
        (true, false) => Ok(Lookup::Folder),
        (false, false) if metadata.is_file() => {
            Ok(represent(root, rules, file, metadata, url_path.relative.clone(), wanted))
        }
        _ => Err(Errno::NOENT.into()),
    }
}

/// The file that a folder is answered with.
fn index(root: &Root, rules: &Rules, folder: &Path) -> io::Result<(File, Metadata, PathBuf)> {
    for name in &rules.index {
        let relative = folder.join(name);
        match root.open_beneath(&relative).and_then(|file| Ok((file.metadata()?, file))) {
            Ok((metadata, file)) if metadata.is_file() => return Ok((file, metadata, relative)),
            Ok(_) => (),
            Err(e) if Errno::from_io_error(&e) == Some(Errno::NOENT) => (),
            Err(e) => return Err(e),
        }
    }
    Err(Errno::NOENT.into())
}

fn represent(
    root: &Root,
    rules: &Rules,
    file: File,
    metadata: Metadata,
    relative: PathBuf,
    wanted: &[Coding],
) -> Lookup {
    let content_type = rules.content_type(&relative);
    let sibling = wanted.iter().find_map(|coding| sibling(root, &relative, *coding));
    let (coding, metadata, file) = sibling.unwrap_or((None, metadata, file));
    let representation = Representation {
        source: BodySource::File(Arc::new(file)),
        length: metadata.len(),
        content_type,
        coding,
        validators: validators(&metadata, coding.map_or("", Coding::name)),
    };
    Lookup::File(representation, relative)
}

/// What lies beside a file under its name and a coding's ending.
fn sibling(
    root: &Root,
    relative: &Path,
    coding: Coding,
) -> Option<(Option<Coding>, Metadata, File)> {
    let mut name = relative.as_os_str().to_owned();
    name.push(coding.suffix());
    let file = root.open_beneath(Path::new(&name)).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((Some(coding), metadata, file))
}

/// Length and time of change make an entity tag, the same on every machine that has
/// a copy with its time; those of another coding are another's.
fn validators(metadata: &Metadata, coding: &str) -> Validators {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let nanoseconds = since.unwrap_or_default().as_nanos();
    let hyphen = if coding.is_empty() { "" } else { "-" };
    let etag = format!("\"{:x}-{nanoseconds:x}{hyphen}{coding}\"", metadata.len());
    Validators { etag, modified }
}

/// Dot files are private, but for the folder that RFC 8615 makes public.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") && name != ".well-known"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_below_the_root_or_none() {
        let url_path = |relative: &str, folder| Some(UrlPath { relative: relative.into(), folder });
        for (path, expected) in [
            ("/", url_path("", true)),
            ("/a", url_path("a", false)),
            ("/a/", url_path("a", true)),
            ("/a/.", url_path("a", true)),
            ("//a/./b%20c", url_path("a/b c", false)),
            ("/%61", url_path("a", false)),
            ("/..", None),
            ("/../x", None),
            ("/a/../x", None),
            ("/%2e%2e/x", None),
            ("/.%2E/x", None),
            ("/..%2fx", None),
            ("/a%2fb", None),
            ("/a%5cb", None),
            ("/a\\b", None),
            ("/a%00b", None),
            ("/a%2", None),
            ("/a%zz", None),
            ("/a%ff", None),
            ("/a%c0%ae", None),
            ("/a b", None),
            ("/a#b", None),
            ("a", None),
            ("", None),
            ("*", None),
        ] {
            assert_eq!(UrlPath::read(path), expected, "{path}");
        }
    }

    #[test]
    fn a_place_is_told_with_one_slash_between_names() {
        for (path, decoded) in
            [("/", "/"), ("//", "/"), ("//evil.example/", "/evil.example/"), ("/a%20b", "/a b")]
        {
            assert_eq!(UrlPath::read(path).unwrap().decoded(), decoded);
        }
    }
}
