//! Source of a compressed variant: a file, or the body of a response that is kept.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;
use std::time::SystemTime;

use crate::content::file_identity::FileIdentity;
use crate::content::root::Root;
use crate::http::shared_body::SharedBody;
use crate::http::shared_body::SharedBodyReader;

/// Age of a file's last change from which on a further change shows: more than a tick of any file
/// system's clock.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// Content whose variant a request may get.
pub enum CompressionSource<'a> {
    File {
        root: &'a Root,
        relative: &'a Path,
        identity: FileIdentity,
    },

    /// Body that is whole, of this length.
    Body(&'a Arc<SharedBody>, u64),
}

/// Identity of content: other content has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentIdentity {
    File(FileIdentity),

    /// Number of a body, and its length in bytes.
    Body(u64, u64),
}

/// Content that waits. A file is opened when its turn comes, so that it takes no descriptor before, and a
/// body takes no memory if it is not kept any longer.
#[derive(Debug)]
pub enum WaitingContent {
    File(Root, PathBuf, FileIdentity),
    Body(Weak<SharedBody>, u64),
}

/// What came of content.
#[derive(Debug)]
pub enum Encoded {
    Whole(Vec<u8>),
    TooLong,

    /// It is another one by now, or is gone.
    Changed,
}

/// Body that is read from the front on.
struct BodyRead {
    reader: SharedBodyReader,
    offset: u64,
}

impl ContentIdentity {
    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::File(file) => file.length,
            Self::Body(_, length) => *length,
        }
    }
}

impl CompressionSource<'_> {
    pub fn identity(&self) -> ContentIdentity {
        match self {
            Self::File { identity, .. } => ContentIdentity::File(*identity),
            Self::Body(body, length) => ContentIdentity::Body(body.number(), *length),
        }
    }

    /// Returns what waits for its turn.
    pub fn waiting(&self) -> WaitingContent {
        match self {
            Self::File { root, relative, identity } => {
                WaitingContent::File((*root).clone(), (*relative).to_owned(), *identity)
            }
            Self::Body(body, length) => WaitingContent::Body(Arc::downgrade(body), *length),
        }
    }
}

impl WaitingContent {
    /// Returns its name in logs.
    pub fn name(&self) -> String {
        match self {
            Self::File(_, relative, _) => relative.display().to_string(),
            Self::Body(_, length) => format!("a response of {length} bytes"),
        }
    }

    /// Encodes the content, if it is still the same.
    ///
    /// # Errors
    ///
    /// It cannot be read, or not be encoded.
    pub fn encode(
        &self,
        wall_now: SystemTime,
        encode: impl FnOnce(&mut dyn Read) -> io::Result<Option<Vec<u8>>>,
    ) -> io::Result<Encoded> {
        match self {
            Self::File(root, relative, identity) => {
                let file = root.open_beneath(relative)?;
                if_unchanged(&file, *identity, wall_now, |mut file| encode(&mut file))
            }
            Self::Body(body, _) => match body.upgrade().and_then(|body| body.reader()) {
                Some(reader) => Ok(of(encode(&mut BodyRead { reader, offset: 0 })?)),
                None => Ok(Encoded::Changed),
            },
        }
    }
}

/// Encodes a file if it is the same before and afterwards.
///
/// # Errors
///
/// It cannot be read, or not be encoded.
pub fn if_unchanged(
    file: &File,
    identity: FileIdentity,
    wall_now: SystemTime,
    encode: impl FnOnce(&File) -> io::Result<Option<Vec<u8>>>,
) -> io::Result<Encoded> {
    let is_same = || Ok::<_, io::Error>(FileIdentity::of(&file.metadata()?) == identity);
    if !is_same()? || !identity.is_older_than(SETTLED_AFTER, wall_now) {
        return Ok(Encoded::Changed);
    }
    let encoded = encode(file);
    if !is_same()? {
        return Ok(Encoded::Changed);
    }
    Ok(of(encoded?))
}

fn of(encoded: Option<Vec<u8>>) -> Encoded {
    encoded.map_or(Encoded::TooLong, Encoded::Whole)
}

impl Read for BodyRead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.from(self.offset, into.len())?;
        // A body that is whole has all that it will have.
        let bytes = bytes.unwrap_or_default();
        into[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}
