//! Root folder of a host: opens files below it and nothing outside, whatever a path, a symbolic
//! link or a race attempts.
//!
//! The kernel enforces that with openat2 (Linux 5.6). Without it, or if an absolute link leads back
//! into the folder, the path is resolved first and then walked without following links.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::fs::ResolveFlags;
use rustix::io::Errno;

use crate::config::limits::request_descriptors;
use crate::content::open_files::OpenFiles;

/// Flags for files: without blocking on a named pipe or acquiring a controlling terminal.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags for the folders of a path, without following links.
const TRAVERSE: OFlags =
    OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// Folder whose contents are public.
#[derive(Clone, Debug)]
pub struct Root {
    folder: Arc<OwnedFd>,
    path: PathBuf,
    open_files: Arc<OpenFiles>,
}

impl Root {
    /// Opens the folder `path`.
    ///
    /// # Errors
    ///
    /// It is not a folder, or not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let folder = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { folder: Arc::new(folder), path, open_files: Arc::default() })
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the files that responses have open.
    pub fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    /// Opens the file or folder at `relative`.
    ///
    /// # Errors
    ///
    /// It does not exist, is outside the root, or is not readable; or it has one of the last file
    /// descriptors.
    pub fn open_beneath(&self, relative: &Path) -> io::Result<File> {
        let file = self.open_within(relative)?;
        // The kernel gives the lowest free number.
        match u64::try_from(file.as_raw_fd()) {
            Ok(number) if number < request_descriptors() => Ok(file),
            _ => Err(Errno::MFILE.into()),
        }
    }

    fn open_within(&self, relative: &Path) -> io::Result<File> {
        let name = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.folder, name, READ, Mode::empty(), within) {
            Ok(opened) => Ok(opened.into()),
            // The call is unavailable or forbidden, a link is absolute or leads out, or a folder
            // was moved during the call.
            Err(Errno::NOSYS | Errno::PERM | Errno::XDEV | Errno::AGAIN) => self.walk(relative),
            Err(e) => Err(e.into()),
        }
    }

    /// Resolves the path, then opens it component by component.
    fn walk(&self, relative: &Path) -> io::Result<File> {
        let real = self.path.join(relative).canonicalize()?;
        let Ok(real) = real.strip_prefix(&self.path) else {
            return Err(Errno::NOENT.into());
        };
        let Some(name) = real.file_name() else {
            return Ok(rustix::fs::openat(&self.folder, ".", READ, Mode::empty())?.into());
        };
        let mut folder = None;
        for component in real.parent().into_iter().flat_map(Path::iter) {
            let from = folder.as_ref().unwrap_or(&*self.folder);
            folder = Some(rustix::fs::openat(from, component, TRAVERSE, Mode::empty())?);
        }
        let from = folder.as_ref().unwrap_or(&*self.folder);
        Ok(rustix::fs::openat(from, name, READ | OFlags::NOFOLLOW, Mode::empty())?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn read(file: io::Result<File>) -> Option<String> {
        let mut text = String::new();
        file.ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    }

    #[test]
    fn path_outside_root_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("www");
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::create_dir_all(dir.path().join("www-private")).unwrap();
        fs::write(path.join("sub/in"), "in").unwrap();
        fs::write(dir.path().join("out"), "out").unwrap();
        fs::write(dir.path().join("www-private/out"), "out").unwrap();
        symlink("sub/in", path.join("inner")).unwrap();
        symlink("sub", path.join("folder")).unwrap();
        symlink(path.join("sub/in"), path.join("absolute")).unwrap();
        symlink(path.join("sub"), path.join("absolute-folder")).unwrap();
        symlink("../out", path.join("leak")).unwrap();
        symlink("../www-private", path.join("sibling")).unwrap();
        symlink("/etc/passwd", path.join("passwd")).unwrap();
        symlink("loop", path.join("loop")).unwrap();
        let root = Root::open(&path).unwrap();

        for (name, expected) in [
            ("sub/in", Some("in")),
            ("inner", Some("in")),
            ("folder/in", Some("in")),
            ("absolute", Some("in")),
            ("absolute-folder/in", Some("in")),
            ("leak", None),
            ("sibling/out", None),
            ("passwd", None),
            ("loop", None),
            ("missing", None),
            ("../out", None),
            ("sub/../../out", None),
            ("/etc/passwd", None),
        ] {
            let name = Path::new(name);
            assert_eq!(read(root.open_beneath(name)).as_deref(), expected, "{name:?}");
            assert_eq!(read(root.walk(name)).as_deref(), expected, "{name:?}, walked");
        }
        for opened in [root.open_beneath(Path::new("")), root.walk(Path::new(""))] {
            assert!(opened.unwrap().metadata().unwrap().is_dir());
        }
    }

    // A folder is replaced by a link between the resolution and the walk.
    #[test]
    fn walk_does_not_follow_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("www");
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::write(path.join("sub/x"), "in").unwrap();
        let root = Root::open(&path).unwrap();
        let link = rustix::fs::openat(&root.folder, "sub", TRAVERSE, Mode::empty());
        assert!(link.is_ok());
        fs::rename(path.join("sub"), path.join("old")).unwrap();
        symlink("old", path.join("sub")).unwrap();
        let link = rustix::fs::openat(&root.folder, "sub", TRAVERSE, Mode::empty());
        assert!(link.is_err(), "the walk followed a link");
    }

    #[test]
    fn root_must_be_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Root::open(dir.path()).is_ok());
        assert!(Root::open(&dir.path().join("file")).is_err());
        assert!(Root::open(&dir.path().join("missing")).is_err());
    }
}
