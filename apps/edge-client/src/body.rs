//! Sink of a response body: nothing, standard output, or a file.
//!
//! An incomplete file is named `FILE.part`, which a failed download removes.

use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;

use crate::failure::Failure;

/// The file name that means standard output.
const STDOUT: &str = "-";

/// Returns whether `-o` selects standard output.
pub fn is_stdout(output: Option<&Path>) -> bool {
    output.is_some_and(|path| path.as_os_str() == STDOUT)
}

/// Open sink of one download.
pub struct Body {
    file: Option<File>,

    /// Name of `file` for messages.
    name: String,

    rename: Option<Rename>,
}

/// Renames the file at the end. Removes it when dropped before.
struct Rename {
    part: PathBuf,
    target: PathBuf,
}

impl Drop for Rename {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_file(&self.part) {
            if e.kind() != io::ErrorKind::NotFound {
                log::warn!("cannot remove {}: {e}", self.part.display());
            }
        }
    }
}

impl Body {
    /// Opens the sink.
    pub fn open(output: Option<&Path>) -> Result<Self, Failure> {
        match output {
            None => Ok(Self { file: None, name: String::new(), rename: None }),
            Some(_) if is_stdout(output) => {
                Self::stdout().map_err(|e| cannot("write to", "standard output", &e))
            }
            Some(path) => {
                Self::file(path).map_err(|e| cannot("create", &path.display().to_string(), &e))
            }
        }
    }

    /// Opens standard output as a plain file: that of std is line-buffered.
    fn stdout() -> io::Result<Self> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self { file: Some(fd.into()), name: "standard output".to_owned(), rename: None })
    }

    fn file(path: &Path) -> io::Result<Self> {
        // Follows a link, so that the rename does not replace it.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = path.display().to_string();

        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            // A rename must not replace a device or a pipe.
            Ok(found) if !found.is_file() => {
                return Ok(Self {
                    file: Some(File::options().write(true).open(&target)?),
                    name,
                    rename: None,
                })
            }
            _ => (),
        }

        let mut part = OsString::from(&target);
        part.push(".part");
        let part = PathBuf::from(part);
        Ok(Self { file: Some(File::create(&part)?), name, rename: Some(Rename { part, target }) })
    }

    /// Appends to the body.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|e| cannot("write to", &self.name, &e)),
            None => Ok(()),
        }
    }

    /// Gives a complete file its name.
    pub fn complete(&mut self) -> Result<(), Failure> {
        match &self.rename {
            Some(Rename { part, target }) => {
                fs::rename(part, target).map_err(|e| cannot("create", &self.name, &e))
            }
            None => Ok(()),
        }
    }
}

fn cannot(act: &str, name: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {act} {name}: {error}; give another file with -o"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_has_its_name_once_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut body = Body::open(Some(&path)).unwrap();
        body.write(b"half ").unwrap();
        assert_eq!(names(dir.path()), ["f.part"]);

        body.write(b"whole").unwrap();
        body.complete().unwrap();
        drop(body);
        assert_eq!(names(dir.path()), ["f"]);
        assert_eq!(fs::read(path).unwrap(), b"half whole");
    }

    #[test]
    fn failed_download_keeps_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "old").unwrap();
        let mut body = Body::open(Some(&path)).unwrap();
        body.write(b"new").unwrap();
        drop(body);
        assert_eq!(names(dir.path()), ["f"]);
        assert_eq!(fs::read(path).unwrap(), b"old");
    }

    #[test]
    fn link_is_followed_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("f"), dir.path().join("link"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut body = Body::open(Some(&link)).unwrap();
        body.write(b"new").unwrap();
        body.complete().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(path).unwrap(), b"new");
    }

    #[test]
    fn device_is_written_to_and_not_replaced() {
        let device = Path::new("/dev/null");
        let mut body = Body::open(Some(device)).unwrap();
        assert!(body.rename.is_none());
        body.write(b"gone").unwrap();
        body.complete().unwrap();
    }

    #[test]
    fn error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("no/such/f")] {
            let failure = Body::open(Some(&path)).err().unwrap();
            let line = failure.to_string();
            assert!(line.contains(&path.display().to_string()), "{line}");
        }
    }
}
