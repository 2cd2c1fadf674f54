//! Child processes, which are beside our own executable and never outlive it.
//!
//! Time limits are counted in polls, without a clock.

use std::collections::VecDeque;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use rustix::process::kill_process;
use rustix::process::Pid;
use rustix::process::Signal;

const POLL: Duration = Duration::from_millis(5);

/// Time for a program to start listening, or to stop after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lines of a program's messages that are kept for an error.
const LINES_MAX: usize = 50;

/// The programs that a speed-test runs.
#[derive(Clone, Debug)]
pub struct Programs {
    pub server: PathBuf,
    pub emulator: PathBuf,
    pub client: PathBuf,
}

impl Programs {
    /// Returns the programs beside the running executable.
    ///
    /// # Errors
    ///
    /// One of them is missing.
    pub fn beside_executable() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot tell where speed-test is")?;
        let folder = own.parent().unwrap_or(Path::new("."));
        Programs::in_folder(folder)
    }

    /// Returns the programs of a folder, or of its parent: tests are a folder deeper.
    ///
    /// # Errors
    ///
    /// One of them is missing.
    pub fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let find = |name: &str| {
            let folders = [Some(folder), folder.parent()];
            let mut files = folders.into_iter().flatten().map(|f| f.join(name));
            files.find(|f| f.is_file()).ok_or_else(|| {
                anyhow!("{} is missing; run `make build`", folder.join(name).display())
            })
        };
        Ok(Programs {
            server: find("edge-server")?,
            emulator: find("link-emulator")?,
            client: find("edge-client")?,
        })
    }
}

/// A running program, killed when dropped.
pub struct Running {
    name: String,
    child: Child,
    messages: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
    output: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
}

impl Running {
    /// Starts a program. Once `stop` is set, waiting for it is an error.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(command: &mut Command, stop: &Arc<AtomicBool>) -> anyhow::Result<Self> {
        let program = PathBuf::from(command.get_program());
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;

        let messages = Arc::new(Mutex::new(VecDeque::new()));
        let output = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            read_messages(child.stderr.take(), Arc::clone(&messages)),
            read_output(child.stdout.take(), Arc::clone(&output)),
        ];
        Ok(Running { name, child, messages, readers, output, stop: Arc::clone(stop) })
    }

    /// Waits until it says where it listens.
    ///
    /// # Errors
    ///
    /// It ends or keeps silent instead.
    pub fn listening_on(&mut self) -> anyhow::Result<SocketAddr> {
        for _ in 0..PATIENCE.as_millis() / POLL.as_millis() {
            let found = lock(&self.messages).iter().find_map(|l| parse_listening(l));
            if let Some(address) = found {
                return Ok(address);
            }
            if let Some(status) = self.ended()? {
                return Err(self.failure(status));
            }
        }
        bail!("{} does not say where it listens", self.name)
    }

    /// Waits until it ends by itself and returns what it wrote to its
    /// standard output.
    ///
    /// # Errors
    ///
    /// It fails, or takes longer than `limit`.
    pub fn finish(mut self, limit: Duration) -> anyhow::Result<String> {
        let status = self.wait(limit)?;
        if !status.success() {
            return Err(self.failure(status));
        }
        let output = lock(&self.output).clone();
        Ok(output)
    }

    /// Stops it with SIGTERM and waits for its end.
    ///
    /// # Errors
    ///
    /// It does not end in time, or fails.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.terminate()?;
        let status = self.wait(PATIENCE)?;
        match status.success() {
            true => Ok(()),
            false => Err(self.failure(status)),
        }
    }

    /// Stops a program that need not know SIGTERM. Returns what it wrote to its
    /// standard output.
    ///
    /// # Errors
    ///
    /// It does not end in time.
    pub fn stop_anyhow(mut self) -> anyhow::Result<String> {
        self.terminate()?;
        self.wait(PATIENCE)?;
        let output = lock(&self.output).clone();
        Ok(output)
    }

    fn terminate(&mut self) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            let pid = pid.context("no process id")?;
            kill_process(pid, Signal::TERM)
                .with_context(|| format!("cannot stop {}", self.name))?;
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        for _ in 0..=limit.as_millis() / POLL.as_millis() {
            if let Some(status) = self.ended()? {
                // Both pipes are at their end: everything has been read.
                for reader in self.readers.drain(..) {
                    let _ = reader.join();
                }
                return Ok(status);
            }
        }
        bail!("{} did not end within {} s", self.name, limit.as_secs())
    }

    /// Sleeps one poll, unless it has ended.
    fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let status = self.child.try_wait().with_context(|| format!("waiting for {}", self.name))?;
        if status.is_none() {
            thread::sleep(POLL);
        }
        Ok(status)
    }

    /// Returns why it failed: its last message.
    fn failure(&mut self, status: ExitStatus) -> anyhow::Error {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let messages = lock(&self.messages);
        match messages.back() {
            Some(last) => anyhow!("{} failed ({status}): {last}", self.name),
            None => anyhow!("{} failed ({status})", self.name),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn read_messages(
    pipe: Option<impl Read + Send + 'static>,
    messages: Arc<Mutex<VecDeque<String>>>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let Some(pipe) = pipe else {
            return;
        };
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut kept = lock(&messages);
            if kept.len() == LINES_MAX {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    })
}

fn read_output(
    pipe: Option<impl Read + Send + 'static>,
    output: Arc<Mutex<String>>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_string(&mut text);
        }
        *lock(&output) = text;
    })
}

/// Returns the address in a line like `edge-server: listening on 127.0.0.1:4433`.
fn parse_listening(line: &str) -> Option<SocketAddr> {
    line.split_once("listening on ")?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        Running::start(Command::new("sh").args(["-c", script]), &stop).expect("sh starts")
    }

    #[test]
    fn address_is_read_from_its_line() {
        let mut running = shell(
            "echo a certificate >&2; echo 'x: listening on 127.0.0.1:4242' >&2; exec sleep 60",
        );
        assert_eq!(running.listening_on().expect("address").port(), 4242);
        running.stop_anyhow().expect("stopped");
    }

    #[test]
    fn failed_program_is_quoted() {
        let error = shell("echo 'port 1 is busy' >&2; exit 1").listening_on().expect_err("failed");
        assert!(error.to_string().contains("port 1 is busy"), "{error}");
    }

    #[test]
    fn program_returns_its_output_or_an_error() {
        let limit = Duration::from_secs(20);
        assert_eq!(shell("echo out; echo err >&2").finish(limit).expect("done"), "out\n");
        assert!(shell("exit 3").finish(limit).is_err());
    }

    #[test]
    fn sigterm_stops_program_and_its_status_counts() {
        // The line says that the trap is set.
        let ready = "echo 'listening on 127.0.0.1:1' >&2; while :; do sleep 0.05; done";
        let mut clean = shell(&format!("trap 'exit 0' TERM; {ready}"));
        clean.listening_on().expect("ready");
        clean.stop().expect("clean end");
        let mut telling = shell(&format!("trap 'echo totals; exit 0' TERM; {ready}"));
        telling.listening_on().expect("ready");
        assert_eq!(telling.stop_anyhow().expect("clean end"), "totals\n");
        let mut failing = shell(&format!("trap 'exit 1' TERM; {ready}"));
        failing.listening_on().expect("ready");
        assert!(failing.stop().is_err());
    }

    #[test]
    fn dropped_program_is_gone() {
        let running = shell("exec sleep 60");
        let pid = running.child.id();
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn interrupt_ends_every_wait() {
        let running = shell("exec sleep 60");
        running.stop.store(true, Ordering::Relaxed);
        let error = running.finish(Duration::from_secs(60)).expect_err("interrupted");
        assert_eq!(error.to_string(), "interrupted");
    }

    #[test]
    fn missing_program_is_named_with_the_way_out() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let error = Programs::in_folder(dir.path()).expect_err("missing").to_string();
        assert!(error.contains("edge-server") && error.contains("make build"), "{error}");
    }
}
