//! Preflight checks: whether a path can be written, without writing to it.

use std::io;
use std::path::Path;

use rustix::fs::Access;

/// Checks that files can be created in a folder, or the folder itself if it does not exist.
///
/// # Errors
///
/// The reason why not.
pub fn folder(path: &Path) -> io::Result<()> {
    let nearest = path.ancestors().find(|ancestor| ancestor.exists());
    existing_folder(nearest.unwrap_or(Path::new(".")))
}

/// Checks that a file can be written, or created if it does not exist.
///
/// # Errors
///
/// The reason why not.
pub fn file(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if path.exists() {
        return Ok(rustix::fs::access(path, Access::WRITE_OK)?);
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => existing_folder(folder),
        _ => existing_folder(Path::new(".")),
    }
}

fn existing_folder(path: &Path) -> io::Result<()> {
    if !path.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_paths_are_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "").unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        for (name, for_file, for_folder) in [
            ("file", true, false),
            ("folder", false, true),
            ("new", true, true),
            ("folder/new", true, true),
            ("folder/new/nested", false, true),
            ("file/in", false, false),
        ] {
            let checked = (file(&path(name)).is_ok(), folder(&path(name)).is_ok());
            assert_eq!(checked, (for_file, for_folder), "{name}");
        }
        assert!(file(Path::new("new")).is_ok() && folder(Path::new("new")).is_ok());
    }
}
