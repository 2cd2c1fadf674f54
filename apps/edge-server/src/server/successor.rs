//! Successor: a new process of the same program and command line, which takes over from this one.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;

use crate::server::supervisor;
use crate::server::supervisor::Supervisor;
use crate::telemetry::health::Health;

/// The program that runs, also if its file has been replaced.
const RUNNING: &str = "/proc/self/exe";

/// Checks whether the successor has taken over, and the time between them.
const CHECKS_MAX: usize = 3000;
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What starts the successor.
pub struct SuccessorCommand {
    program: PathBuf,
    args: Vec<OsString>,
    stderr: OwnedFd,
}

impl SuccessorCommand {
    /// Returns that of a process with these arguments, whose standard error was `stderr` at its start.
    ///
    /// # Errors
    ///
    /// The system does not tell where the program is.
    pub fn new(args: &[OsString], stderr: OwnedFd) -> io::Result<Self> {
        let (name, args) = args.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        // A link stays one: its target may be another version by then.
        let program = match name.as_encoded_bytes().contains(&b'/') {
            true => std::path::absolute(name)?,
            false => std::env::current_exe()?,
        };
        Ok(Self { program, args: args.to_vec(), stderr })
    }

    /// Returns whether another file than the one that runs is at the program's path.
    pub fn has_new_program(&self) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        match (identity(Path::new(RUNNING)), identity(&self.program)) {
            (Ok(running), Ok(found)) => running != found,
            _ => true,
        }
    }

    /// Starts the successor, and waits until it has taken over. Returns its process ID.
    ///
    /// # Errors
    ///
    /// It did not, and this process serves on.
    pub fn run(&self, health: &Health, supervisor: &Supervisor) -> anyhow::Result<u32> {
        let mut child = self.start()?;
        for _ in 0..CHECKS_MAX {
            if health.is_handed_over() {
                supervisor.set_silent(true);
                let id = child.id();
                thread::Builder::new().name("successor".into()).spawn(move || child.wait())?;
                return Ok(id);
            }
            if let Some(status) = child.try_wait()? {
                bail!("the new process has not taken over ({status}); the log has its reason");
            }
            thread::sleep(CHECK_INTERVAL);
        }
        let _ = child.kill();
        let _ = child.wait();
        bail!("the new process has not taken over in time; this one serves on");
    }

    fn start(&self) -> anyhow::Result<Child> {
        let Self { program, args, stderr } = self;
        let mut command = Command::new(program);
        command.env_remove(supervisor::WATCHDOG_PROCESS);
        command.args(args).stdin(Stdio::null()).stderr(stderr.try_clone()?);
        command.spawn().with_context(|| format!("cannot start {}", program.display()))
    }
}
