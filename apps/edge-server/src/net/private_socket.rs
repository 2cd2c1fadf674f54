//! Unix socket for processes of the same user and of root: built beside its path, and put there when
//! it may be used.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketFlags;
use rustix::net::SocketType;
use rustix::process::Uid;

use crate::config::preflight;

/// Suffix of the path at which a listener is built.
const SUFFIX: &str = ".new";

/// Longest path, in bytes: that of the listener being built has to fit into a socket address, with a
/// NUL at its end.
const PATH_BYTES_MAX: usize = 108 - 1 - SUFFIX.len();

/// Listener at a path, or beside it until it [takes its place](Self::take_place).
#[derive(Debug)]
pub struct PrivateListener {
    pub listener: UnixListener,
    path: PathBuf,
    built_at: PathBuf,
}

impl PrivateListener {
    /// Builds a listener for `path`, which another process may still use.
    ///
    /// # Errors
    ///
    /// No socket can be there.
    pub fn build(path: &Path) -> io::Result<Self> {
        check_path(path)?;
        let (path, built_at) = (path.to_owned(), beside(path));
        match std::fs::remove_file(&built_at) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => (),
        }
        let listener = UnixListener::bind(&built_at)?;
        std::fs::set_permissions(&built_at, PermissionsExt::from_mode(0o600))?;
        Ok(Self { listener, path, built_at })
    }

    /// Takes the place of the socket at the path, if there is one.
    ///
    /// # Errors
    ///
    /// The folder is gone.
    pub fn take_place(&self) -> io::Result<()> {
        std::fs::rename(&self.built_at, &self.path)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Checks whether a listener could be built, as far as can be told without building it.
///
/// # Errors
///
/// The reason why not.
pub fn check(path: &Path) -> io::Result<()> {
    check_path(path)?;
    preflight::entry(path)?;
    match rustix::fs::access(path, Access::WRITE_OK) {
        Err(Errno::ACCESS) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user's socket is there; delete it, unless its server still runs",
        )),
        _ => Ok(()),
    }
}

/// Returns whether a process listens at the path. A socket that a process left behind does not count.
///
/// # Errors
///
/// No socket can be there, or the system does not tell.
pub fn is_answered(path: &Path) -> io::Result<bool> {
    check_path(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let client = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match net::connect(&client, &SocketAddrUnix::new(path)?) {
        // A listener whose queue is full lets nobody in.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Checks that the process at the other end belongs to this process's user or to root.
///
/// # Errors
///
/// It belongs to somebody else.
pub fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let peer = sockopt::socket_peercred(stream)?.uid;
    match is_trusted(peer, rustix::process::geteuid()) {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("user {} is at the other end, not this server's own", peer.as_raw()),
        )),
    }
}

fn is_trusted(peer: Uid, own: Uid) -> bool {
    peer.is_root() || peer == own
}

/// Checks that nothing is at the path but a socket, and that the system's names are long enough.
fn check_path(path: &Path) -> io::Result<()> {
    let built_at = beside(path);
    if SocketAddr::from_pathname(&built_at).is_err() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the path is longer than {PATH_BYTES_MAX} bytes"),
        ));
    }
    match path.symlink_metadata() {
        Ok(there) if !there.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is there that is no socket"))
        }
        _ => Ok(()),
    }
}

/// Returns the path at which the listener is built.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(SUFFIX);
    beside.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_takes_its_place_with_mode_0600() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        for _ in 0..2 {
            check(&path).unwrap();
            let listener = PrivateListener::build(&path).unwrap();
            listener.take_place().unwrap();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            check_peer(&UnixStream::connect(listener.path()).unwrap()).unwrap();
        }
    }

    #[test]
    fn only_socket_with_a_listener_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(!is_answered(&path).unwrap());
        let listener = PrivateListener::build(&path).unwrap();
        listener.take_place().unwrap();
        // Even one that accepts nobody, whose queue becomes full.
        for _ in 0..5000 {
            assert!(is_answered(&path).unwrap());
        }
        drop(listener);
        assert!(path.exists() && !is_answered(&path).unwrap());
    }

    #[test]
    fn unusable_path_is_refused_by_check_and_build() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let longest = 103 - dir.path().as_os_str().len() - 1;
        let named = |length: usize| dir.path().join("x".repeat(length));
        check(&named(longest)).unwrap();
        PrivateListener::build(&named(longest)).unwrap();
        for (path, named) in [
            (named(longest + 1), "longer than 103 bytes"),
            (file, "no socket"),
            (dir.path().join("missing/socket"), "No such file"),
        ] {
            for error in [check(&path).unwrap_err(), PrivateListener::build(&path).unwrap_err()] {
                assert!(error.to_string().contains(named), "{}: {error}", path.display());
            }
        }
    }

    #[test]
    fn only_own_user_and_root_are_trusted() {
        let uid = Uid::from_raw;
        for (peer, own, trusted) in [
            (0, 0, true),
            (0, 1000, true),
            (1000, 1000, true),
            (1000, 0, false),
            (1001, 1000, false),
        ] {
            assert_eq!(is_trusted(uid(peer), uid(own)), trusted, "{peer} {own}");
        }
    }
}
