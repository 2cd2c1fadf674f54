//! Lookup of the file that a URL path names: its content coding, content type and validators.

use std::borrow::Cow;
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::io::Errno;

use crate::admission::file_limits::FilePermit;
use crate::admission::file_limits::FileReaders;
use crate::content::compression::Variant;
use crate::content::file_identity::FileIdentity;
use crate::content::root::Root;
use crate::content::rules::Rules;
use crate::content::url_path::UrlPath;
use crate::http::body::BodySource;
use crate::http::body::Chunk;
use crate::http::conditional::Validators;
use crate::http::content_coding::Coding;

/// Length of files that are kept with their content, in bytes.
const SMALL_BYTES_MAX: u64 = 16 << 10;

/// Representation of a resource (RFC 9110, 3.2).
#[derive(Debug)]
pub struct Representation {
    pub source: BodySource,

    /// Length in bytes.
    pub length: u64,
    pub content_type: Cow<'static, str>,
    pub coding: Option<Coding>,
    pub validators: Validators,

    /// Absent if it is not a file.
    pub identity: Option<FileIdentity>,
}

/// Result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// A file and its path below the root.
    File(Representation, PathBuf),

    /// A folder whose path has no trailing slash.
    Folder,
}

/// Result of a lookup without a descriptor, which may be kept.
#[derive(Clone, Debug)]
pub enum KeptLookup {
    Small(SmallFile),

    /// A file that is opened for each response, and its coding.
    Large {
        relative: PathBuf,
        coding: Option<Coding>,
    },

    Folder,
    Missing(Errno),
}

/// File with its content.
#[derive(Clone, Debug)]
pub struct SmallFile {
    content: Bytes,
    content_type: Cow<'static, str>,
    coding: Option<Coding>,
    validators: Validators,
    identity: Option<FileIdentity>,
    relative: PathBuf,
}

impl Representation {
    /// Returns the compressed variant of this one, with an entity tag of its own.
    pub fn encoded(self, coding: Coding, variant: Variant) -> Self {
        let Variant { content, digest } = variant;
        let Validators { etag, .. } = &self.validators;
        let etag = format!("{}-{}-{digest}\"", etag.trim_end_matches('"'), coding.name());
        Self {
            length: content.len() as u64,
            source: BodySource::Memory(content),
            coding: Some(coding),
            validators: Validators { etag, ..self.validators },
            ..self
        }
    }
}

impl KeptLookup {
    /// Returns what may be kept of a lookup, and gives the lookup the content that it read. A file
    /// that is not in memory is not read.
    pub fn of(found: &mut io::Result<Lookup>) -> Option<Self> {
        match found {
            Ok(Lookup::Folder) => Some(Self::Folder),
            Ok(Lookup::File(file, relative)) if file.length <= SMALL_BYTES_MAX => {
                let content = read_whole(file)?;
                file.source = BodySource::Memory(content.clone());
                Some(Self::Small(SmallFile {
                    content,
                    content_type: file.content_type.clone(),
                    coding: file.coding,
                    validators: file.validators.clone(),
                    identity: file.identity,
                    relative: relative.clone(),
                }))
            }
            Ok(Lookup::File(file, relative)) => {
                Some(Self::Large { relative: relative.clone(), coding: file.coding })
            }
            Err(e) => match Errno::from_io_error(e) {
                Some(errno @ (Errno::NOENT | Errno::NOTDIR)) => Some(Self::Missing(errno)),
                _ => None,
            },
        }
    }

    /// Returns the lookup again, or `None` if a file is not there any more.
    pub fn found(
        &self,
        root: &Root,
        rules: &Rules,
        permit: impl FnOnce(&FileReaders) -> Option<FilePermit>,
    ) -> Option<io::Result<Lookup>> {
        match self {
            Self::Small(file) => Some(Ok(file.found())),
            Self::Large { relative, coding } => {
                let (file, metadata) = match coding {
                    Some(coding) => open_sibling(root, relative, *coding)?,
                    None => open_file(root, relative)?,
                };
                Some(represent(root, rules, (file, metadata), relative.clone(), *coding, permit))
            }
            Self::Folder => Some(Ok(Lookup::Folder)),
            Self::Missing(errno) => Some(Err((*errno).into())),
        }
    }

    /// Returns the bytes that it takes besides itself.
    pub fn kept_bytes(&self) -> u64 {
        match self {
            Self::Small(file) => (file.content.len() + file.relative.as_os_str().len()) as u64,
            Self::Large { relative, .. } => relative.as_os_str().len() as u64,
            Self::Folder | Self::Missing(_) => 0,
        }
    }
}

impl SmallFile {
    fn found(&self) -> Lookup {
        let representation = Representation {
            source: BodySource::Memory(self.content.clone()),
            length: self.content.len() as u64,
            content_type: self.content_type.clone(),
            coding: self.coding,
            validators: self.validators.clone(),
            identity: self.identity,
        };
        Lookup::File(representation, self.relative.clone())
    }
}

/// Reads a file that is in memory and as long as it was.
fn read_whole(file: &Representation) -> Option<Bytes> {
    let length = usize::try_from(file.length).ok()?;
    match file.source.chunk(0..file.length, length) {
        Ok(Chunk::Ready(content)) => (content.len() == length).then_some(content),
        Ok(Chunk::Pending(_)) | Err(_) => None,
    }
}

/// Finds what `url_path` names or, if that does not exist, the first file that the rules have in its
/// place.
///
/// # Errors
///
/// As those of [`find`].
pub fn find_or_else(
    root: &Root,
    rules: &Rules,
    url_path: &UrlPath,
    accepted: &[Coding],
    permit: &dyn Fn(&FileReaders) -> Option<FilePermit>,
) -> io::Result<Lookup> {
    let found = find(root, rules, url_path, accepted, permit);
    if rules.try_files.is_empty() || !found.as_ref().is_err_and(is_missing) || url_path.is_hidden()
    {
        return found;
    }
    for other in rules.try_files.of(url_path) {
        match find(root, rules, &other, accepted, permit) {
            Ok(Lookup::Folder) => (),
            Err(e) if is_missing(&e) => (),
            found => return found,
        }
    }
    found
}

fn is_missing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR))
}

/// Finds what `url_path` names, in the first of the `accepted` codings that exists.
///
/// # Errors
///
/// Nothing exists there, it is not readable, or there is no permit to open it.
pub fn find(
    root: &Root,
    rules: &Rules,
    url_path: &UrlPath,
    accepted: &[Coding],
    permit: impl FnOnce(&FileReaders) -> Option<FilePermit>,
) -> io::Result<Lookup> {
    if url_path.is_hidden() {
        return Err(Errno::NOENT.into());
    }
    let file = root.open_beneath(&url_path.relative)?;
    let metadata = file.metadata()?;
    match (metadata.is_dir(), url_path.folder) {
        (true, true) => {
            let (file, metadata, relative) = index(root, rules, &url_path.relative)?;
            choose(root, rules, (file, metadata), relative, accepted, permit)
        }
        (true, false) => Ok(Lookup::Folder),
        (false, false) if metadata.is_file() => {
            let relative = url_path.relative.clone();
            choose(root, rules, (file, metadata), relative, accepted, permit)
        }
        _ => Err(Errno::NOENT.into()),
    }
}

/// Opens the index file of a folder.
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

/// Chooses a file, or the sibling in the first of the `accepted` codings that exists.
fn choose(
    root: &Root,
    rules: &Rules,
    (file, metadata): (File, Metadata),
    relative: PathBuf,
    accepted: &[Coding],
    permit: impl FnOnce(&FileReaders) -> Option<FilePermit>,
) -> io::Result<Lookup> {
    let sibling = |coding: &Coding| Some((Some(*coding), open_sibling(root, &relative, *coding)?));
    let sibling = accepted.iter().filter(|_| rules.precompressed).find_map(sibling);
    let (coding, opened) = sibling.unwrap_or((None, (file, metadata)));
    represent(root, rules, opened, relative, coding, permit)
}

fn represent(
    root: &Root,
    rules: &Rules,
    (file, metadata): (File, Metadata),
    relative: PathBuf,
    coding: Option<Coding>,
    permit: impl FnOnce(&FileReaders) -> Option<FilePermit>,
) -> io::Result<Lookup> {
    let content_type = rules.content_type(&relative);
    let representation = Representation {
        source: BodySource::File(Arc::new(root.open_files().share(file, &metadata, permit)?)),
        length: metadata.len(),
        content_type,
        coding,
        validators: validators(&metadata, coding.map_or("", Coding::name)),
        identity: Some(FileIdentity::of(&metadata)),
    };
    Ok(Lookup::File(representation, relative))
}

/// Opens the precompressed sibling of a file.
fn open_sibling(root: &Root, relative: &Path, coding: Coding) -> Option<(File, Metadata)> {
    let mut name = relative.as_os_str().to_owned();
    name.push(coding.suffix());
    open_file(root, Path::new(&name))
}

fn open_file(root: &Root, relative: &Path) -> Option<(File, Metadata)> {
    let file = root.open_beneath(relative).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((file, metadata))
}

/// Returns the validators of a file. The entity tag consists of length, modification time and
/// coding, so that machines with copies of the file agree.
fn validators(metadata: &Metadata, coding: &str) -> Validators {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let nanoseconds = since.unwrap_or_default().as_nanos();
    let hyphen = if coding.is_empty() { "" } else { "-" };
    let etag = format!("\"{:x}-{nanoseconds:x}{hyphen}{coding}\"", metadata.len());
    Validators { etag, modified, is_date_weak: false }
}
