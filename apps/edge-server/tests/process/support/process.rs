//! Programs that run beside a test and end with it.
//!
//! No clock is read: patience is counted in naps.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
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
use std::sync::PoisonError;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;

const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 2000;

/// A running program, killed when dropped.
pub struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    is_heard: Arc<AtomicBool>,
    is_stalled: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a program and collects what it says on standard error.
    pub fn start(command: &mut Command) -> Self {
        Self::start_to(command, Stdio::null())
    }

    /// The same, with its standard output to somewhere.
    pub fn start_to(command: &mut Command, output: Stdio) -> Self {
        let shown = format!("{command:?}");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{shown}: {e}"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let collected = Arc::clone(&said);
        let is_heard = Arc::new(AtomicBool::new(true));
        let heard = Arc::clone(&is_heard);
        let is_stalled = Arc::new(AtomicBool::new(false));
        let stalled = Arc::clone(&is_stalled);
        let reader = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                while stalled.load(Ordering::Relaxed) {
                    thread::sleep(NAP);
                }
                if !heard.load(Ordering::Relaxed) {
                    return;
                }
                collected.lock().unwrap().push(line);
            }
        });
        Self { child, said, is_heard, is_stalled, reader: Some(reader) }
    }

    /// Waits until it says where it listens.
    pub fn address(&mut self) -> SocketAddr {
        let line = self.wait_for("listening on ");
        let (_, address) = line.rsplit_once("listening on ").unwrap();
        address.parse().unwrap()
    }

    /// Waits until it says where its metrics are.
    pub fn metrics_address(&mut self) -> SocketAddr {
        let line = self.wait_for("metrics at http://");
        let (_, address) = line.rsplit_once("http://").unwrap();
        address.trim_end_matches("/metrics").parse().unwrap()
    }

    /// Waits for a line that contains `text`.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.wait_for_another(text, 0)
    }

    /// Waits for a line more that contains `text` than there were `before`.
    pub fn wait_for_another(&mut self, text: &str, before: usize) -> String {
        let said = Arc::clone(&self.said);
        let find = || said.lock().unwrap().iter().filter(|l| l.contains(text)).nth(before).cloned();
        for _ in 0..NAPS_MAX {
            if let Some(line) = find() {
                return line;
            }
            if self.child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(NAP);
        }
        panic!("no line with '{text}' in {:#?}", self.said.lock().unwrap());
    }

    /// What the system knows it by.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What the kernel says of its memory: `VmRSS`, or `VmHWM`, the most that it ever had.
    pub fn memory_kib(&self, what: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
        line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How many lines so far contain `text`.
    pub fn count(&self, text: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    /// Breaks the pipe of its standard error: nobody reads it from the next line on.
    pub fn stop_listening(&mut self) {
        self.is_heard.store(false, Ordering::Relaxed);
    }

    /// Stops reading its standard error until its end: the pipe fills.
    pub fn stall(&mut self) {
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Asks it to stop at once, and waits for its end.
    pub fn stop(&mut self) -> ExitStatus {
        self.ask_to_stop();
        self.end().0
    }

    /// Sends SIGINT.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::INT);
    }

    /// Sends SIGTERM.
    pub fn ask_to_drain(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGUSR1.
    pub fn ask_to_reopen_logs(&self) {
        self.signal(Signal::USR1);
    }

    /// Sends SIGHUP.
    pub fn ask_to_reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.end();
    }

    /// Sends SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Returns whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. Returns what it said as well.
    pub fn end(&mut self) -> (ExitStatus, Vec<String>) {
        for _ in 0..NAPS_MAX {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.is_stalled.store(false, Ordering::Relaxed);
                if let Some(reader) = self.reader.take() {
                    reader.join().unwrap();
                }
                return (status, self.said.lock().unwrap().clone());
            }
            thread::sleep(NAP);
        }
        panic!("does not end; it said {:#?}", self.said.lock().unwrap());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_stalled.store(false, Ordering::Relaxed);
        if thread::panicking() {
            let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("process {} said {said:#?}", self.id());
        }
    }
}

/// The server under test, with these arguments.
pub fn server_command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-server"));
    command.args(args).env_remove("RUST_LOG");
    command
}

/// A library that `LD_PRELOAD` puts before all others.
pub fn build_library(dir: &Path, source: &str) -> PathBuf {
    let (file, library) = (dir.join("library.c"), dir.join("library.so"));
    std::fs::write(&file, source).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o"]).args([&library, &file]).status().unwrap();
    assert!(built.success());
    library
}

/// A program of another package of the workspace.
pub fn sibling(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_edge-server")).with_file_name(name);
    assert!(path.is_file(), "{} is missing: cargo build --workspace", path.display());
    path
}

/// A server on a port of its own, which serves `root`.
pub fn serve(root: &Path, more: &[&str]) -> (Running, SocketAddr) {
    let mut args = vec!["--listen", "127.0.0.1:0", "--root", root.to_str().unwrap()];
    args.extend(more);
    let mut server = Running::start(&mut server_command(&args));
    let address = server.address();
    (server, address)
}
