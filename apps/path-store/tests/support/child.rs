//! Child processes of a test: the test program again, at its test `child_process`.

use std::ffi::OsStr;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;

/// A child, which is killed when it is dropped.
pub struct ChildProcess(Child);

impl ChildProcess {
    /// Starts a child with these environment variables, which are its task.
    pub fn spawn<const N: usize>(task: [(&str, &OsStr); N]) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["child_process", "--exact", "--nocapture", "--test-threads=1"])
            .envs(task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();

        ChildProcess(child.unwrap())
    }

    pub fn stdin(&mut self) -> &mut ChildStdin {
        self.0.stdin.as_mut().unwrap()
    }

    /// Takes its output.
    pub fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
