//! Preflight checks: whether a path can be written, without writing to it, and whether two are one.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use path_store::OpenError;
use rustix::fs::Access;
use rustix::io::Errno;

/// Symbolic links in a row that are followed.
const LINKS_MAX: usize = 40;

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
    entry(path)
}

/// Checks that a new file can be put at a path, whatever is there.
///
/// # Errors
///
/// The reason why not.
pub fn entry(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => existing_folder(folder),
        _ => existing_folder(Path::new(".")),
    }
}

/// Returns the path without links and relative parts, also if nothing is there yet.
pub fn resolved(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..LINKS_MAX {
        let Ok(target) = path.read_link() else { break };
        path = path.with_file_name(target);
    }
    let canonical = |ancestor: &Path| {
        let rest = path.strip_prefix(ancestor).ok()?;
        let canonical = ancestor.canonicalize().ok()?;
        // To join nothing would add a slash, and no file has one at its end.
        Some(if rest.as_os_str().is_empty() { canonical } else { canonical.join(rest) })
    };
    path.ancestors().find_map(canonical).unwrap_or(path)
}

/// Returns whether the cause of an error is the system's state, or another process: the same value
/// may be usable later.
pub fn is_transient(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<OpenError>() {
        return error.is_transient();
    }
    let errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    errors.filter_map(Errno::from_io_error).any(|errno| {
        let of_system = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
        // An address may come later than the server: of an interface, or from another host.
        let of_network = [Errno::ADDRINUSE, Errno::ADDRNOTAVAIL];
        let of_disk = [Errno::NOSPC, Errno::DQUOT];
        of_system.contains(&errno) || of_network.contains(&errno) || of_disk.contains(&errno)
    })
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
    fn path_is_resolved_also_if_nothing_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("folder")).unwrap();
        for (target, link) in
            [("file", "to-file"), ("to-file", "to-link"), ("folder", "to-folder"), ("loop", "loop")]
        {
            std::os::unix::fs::symlink(target, dir.join(link)).unwrap();
        }
        for (path, expected) in [
            ("file", "file"),
            ("./file", "file"),
            ("folder/../file", "file"),
            ("to-link", "file"),
            ("to-folder/new", "folder/new"),
            ("new/./nested", "new/nested"),
            ("folder", "folder"),
            ("loop", "loop"),
        ] {
            let resolved = resolved(&dir.join(path)).into_os_string();
            assert_eq!(resolved, dir.join(expected).into_os_string(), "{path}");
        }
        assert_eq!(
            resolved(Path::new("new")),
            resolved(&std::env::current_dir().unwrap()).join("new")
        );
    }

    #[test]
    fn only_state_of_the_system_is_transient() {
        let error = |errno: Errno| anyhow::Error::new(io::Error::from(errno)).context("cannot use");
        for errno in [Errno::ADDRINUSE, Errno::ADDRNOTAVAIL, Errno::MFILE, Errno::NOSPC] {
            assert!(is_transient(&error(errno)), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::NOENT] {
            assert!(!is_transient(&error(errno)), "{errno}");
        }
        let store = |error: OpenError| anyhow::Error::new(error).context("cannot use --store");
        assert!(is_transient(&store(OpenError::DiskFull("a".into()))));
        assert!(!is_transient(&store(OpenError::NotAFile("a".into()))));
    }

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
