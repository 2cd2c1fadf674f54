//! Standard error behind a pipe of our own, so that a stalled reader of it, such as a log collector,
//! blocks no thread that has something to say. What finds that pipe full is lost.

use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::fcntl_setfl;
use rustix::fs::OFlags;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::pipe_with;
use rustix::pipe::PipeFlags;
use rustix::stdio::dup2_stderr;

/// Time for the last lines at the end of the process.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest piece that is forwarded at once, in bytes.
const PIECE_BYTES_MAX: usize = 4096;

/// Detached standard error.
pub struct StandardError {
    original: OwnedFd,
    end: mpsc::Receiver<()>,
}

impl StandardError {
    /// Puts a pipe in the place of standard error, and starts the thread that forwards what is
    /// written to it.
    ///
    /// # Errors
    ///
    /// The process has no free file descriptors, or the system cannot start a thread.
    pub fn detach() -> io::Result<Self> {
        let original = fcntl_dupfd_cloexec(io::stderr(), 0)?;
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // Lines are shorter than what a pipe takes as a whole or not at all.
        fcntl_setfl(&writer, OFlags::NONBLOCK)?;

        let (mut from, mut to) = (File::from(reader), File::from(original.try_clone()?));
        let (ended, end) = mpsc::channel();
        let forward = move || {
            let mut piece = [0; PIECE_BYTES_MAX];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                // A closed reader is no reason to stop.
                let _ = to.write_all(&piece[..length]);
            }
            drop(ended);
        };
        thread::Builder::new().name("stderr".into()).spawn(forward)?;
        dup2_stderr(writer)?;
        Ok(Self { original, end })
    }
}

impl StandardError {
    /// Returns a duplicate of the original, for another process.
    ///
    /// # Errors
    ///
    /// The process has no free file descriptors.
    pub fn original(&self) -> io::Result<OwnedFd> {
        self.original.try_clone()
    }
}

impl Drop for StandardError {
    /// Puts the original back, after the last lines, if its reader takes them.
    fn drop(&mut self) {
        let _ = dup2_stderr(&self.original);
        let _ = self.end.recv_timeout(LAST_LINES_TIMEOUT);
    }
}
