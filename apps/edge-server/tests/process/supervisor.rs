//! The server under a supervisor, such as systemd: what it is told, and restarts on command.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::client::UdpClient;
use crate::support::process::server_command;
use crate::support::process::Running;
use crate::takeover::get;
use crate::takeover::LONG;
use crate::takeover::LONG_BYTES;

/// However slow the machine is: clients wait for one another.
const PATIENCE: [&str; 6] =
    ["--drain", "1000", "--idle-timeout", "1000", "--stall-timeout", "1000"];

/// Time that a message takes at most, and one that does not come is waited for.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_millis(500);

const NAP: Duration = Duration::from_millis(20);

/// Supervisor of one unit.
struct Unit {
    dir: tempfile::TempDir,
    messages: UnixDatagram,
    address: SocketAddr,
}

impl Unit {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let messages = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        fs::write(dir.path().join("edge.toml"), "").unwrap();
        fs::write(dir.path().join("secrets"), "5e".repeat(32)).unwrap();
        Self { dir, messages, address: "127.0.0.1:0".parse().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command with paths of this unit in the places of words that begin with `:`.
    fn command(&self, args: &[&str]) -> Command {
        let word = |word: &&str| match word.strip_prefix(':') {
            Some(name) => self.path(name).to_str().unwrap().to_owned(),
            None => (*word).to_owned(),
        };
        let words: Vec<_> = args.iter().map(word).collect();
        let mut command = server_command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("NOTIFY_SOCKET", self.path("notify"));
        command
    }

    fn server(&self) -> Command {
        let address = self.address.to_string();
        let args = ["--listen", &address, "--workers", "2", "--root", ":", "--speedtest"];
        let sockets = ["--takeover", ":takeover.sock", "--admin", ":admin.sock"];
        let files = ["--config", ":edge.toml", "--secrets", ":secrets"];
        self.command(&[&args[..], &PATIENCE, &sockets, &files].concat())
    }

    /// Starts a server, and waits until it is ready.
    fn start(&mut self) -> Running {
        let mut server = Running::start(&mut self.server());
        self.await_ready(server.id());
        self.address = server.address();
        server
    }

    fn admin(&self, command: &[&str]) -> (bool, String) {
        let output = self.command(&[&["admin", ":admin.sock"], command].concat()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&self.admin(&["stats"]).1).unwrap()
    }

    /// Restarts the server. Returns the process ID of the new one.
    fn restart(&self) -> u32 {
        let (is_done, said) = self.admin(&["restart"]);
        assert!(is_done, "{said}");
        let id = said.strip_prefix("restarted; process ").and_then(|rest| rest.split_once(' '));
        let id = id.unwrap_or_else(|| panic!("{said}")).0.parse().unwrap();
        self.await_ready(id);
        id
    }

    /// Waits until no older server is there, which would serve again.
    fn wait_for_older(&self) {
        while self.stats()["older_servers"] != 0 {
            thread::sleep(NAP);
        }
    }

    /// Ends the service.
    fn stop_newest(&self) {
        self.wait_for_older();
        assert!(self.admin(&["stop"]).0);
    }

    /// Returns the next message, if one comes in time.
    fn message(&self, timeout: Duration) -> Option<String> {
        self.messages.set_read_timeout(Some(timeout)).unwrap();
        let mut message = [0; 256];
        let length = self.messages.recv(&mut message).ok()?;
        Some(String::from_utf8(message[..length].to_vec()).unwrap())
    }

    /// Waits for a message that begins with `start`. Returns it.
    fn wait_for(&self, start: &str) -> String {
        loop {
            let message = self.message(MESSAGE_TIMEOUT).expect(start);
            if message.starts_with(start) {
                return message;
            }
        }
    }

    fn await_ready(&self, id: u32) {
        let message = self.wait_for("READY=1\n");
        assert!(message.contains(&format!("\nMAINPID={id}\n")), "{message}");
    }
}

#[test]
fn supervisor_is_told_of_readiness_reload_and_end() {
    let unit = Unit::new();
    let mut server = Running::start(&mut unit.server());
    let ready = unit.message(MESSAGE_TIMEOUT).unwrap();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    let address = server.address();
    let mut client = UdpClient::connect(address);
    assert_eq!(client.get("/bytes/5").body.len(), 5);
    client.close();

    server.ask_to_reload();
    let reloading = unit.message(MESSAGE_TIMEOUT).unwrap();
    let time_us = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(time_us.parse::<u64>().unwrap() > 0);
    unit.await_ready(server.id());
    // One that changes nothing has ended, too.
    fs::write(unit.path("edge.toml"), "nonsense").unwrap();
    assert!(!unit.admin(&["reload"]).0);
    unit.wait_for("RELOADING=1\n");
    unit.await_ready(server.id());

    server.ask_to_drain();
    let stopping = unit.message(MESSAGE_TIMEOUT).unwrap();
    // Longer than the drain.
    assert_eq!(stopping, "STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=1010000000");
    assert!(server.end().0.success());
    assert_eq!(unit.message(SILENCE), None);
}

#[test]
fn server_is_not_ready_before_it_has_taken_over() {
    let mut unit = Unit::new();
    let mut old = unit.start();
    old.pause();
    let mut new = Running::start(&mut unit.server());
    assert_eq!(unit.message(SILENCE), None);
    old.go_on();
    unit.await_ready(new.id());
    assert!(old.end().0.success());
    // A unit of its own has that one: it may end, and say nothing.
    unit.admin(&["stop"]);
    unit.wait_for("STOPPING=1\n");
    assert!(new.end().0.success());
}

#[test]
fn watchdog_is_told_in_its_interval_by_the_process_that_is_meant() {
    for (of_another, is_told) in [(false, true), (true, false)] {
        let unit = Unit::new();
        let mut command = unit.server();
        command.env("WATCHDOG_USEC", "30000");
        if of_another {
            command.env("WATCHDOG_PID", "1");
        }
        let mut server = Running::start(&mut command);
        server.address();
        if is_told {
            (0..10).for_each(|_| drop(unit.wait_for("WATCHDOG=1")));
        } else {
            unit.await_ready(server.id());
            assert_eq!(unit.message(SILENCE), None);
        }
        assert!(server.stop().success());
    }
}

#[test]
fn three_restarts_in_a_row_lose_nothing() {
    for clients in [3, 0] {
        let mut unit = Unit::new();
        let mut first = unit.start();
        let address = unit.address;
        // Without others, the processes between have none at all.
        let mut kept = UdpClient::connect(address);
        let download = kept.request("GET", LONG);
        kept.receive(download, 1);
        let over = Arc::new(AtomicBool::new(false));
        let clients = (0..clients).map(|_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(get(address, 50_000), 50_000);
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        let ids = [(); 3].map(|()| unit.restart());
        assert_eq!(unit.stats()["pid"], ids[2]);
        assert_eq!(kept.response(download).body.len(), LONG_BYTES);
        kept.close();
        over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        unit.stop_newest();
        assert!(first.end().0.success());
    }
}

#[test]
fn restart_that_fails_leaves_the_server() {
    let mut unit = Unit::new();
    let mut server = unit.start();
    fs::write(unit.path("edge.toml"), "nonsense").unwrap();
    let (is_done, said) = unit.admin(&["restart"]);
    assert!(!is_done && said.contains("has not taken over (exit status: 2)"), "{said}");
    server.wait_for("line 1");
    assert_eq!(UdpClient::connect(unit.address).get("/bytes/5").body.len(), 5);

    // Under a supervisor that has started it, it is the main process again.
    fs::write(unit.path("edge.toml"), "").unwrap();
    let new = unit.restart();
    let kill = Command::new("kill").args(["-KILL", &new.to_string()]).status().unwrap();
    assert!(kill.success());
    unit.await_ready(server.id());
    assert_eq!(UdpClient::connect(unit.address).get("/bytes/5").body.len(), 5);

    // A newer one that ends for it says so.
    unit.restart();
    let rollback = unit.admin(&["rollback"]);
    assert!(rollback.0, "{rollback:?}");
    assert!(unit.wait_for("MAINPID=").contains(&server.id().to_string()));
    unit.await_ready(server.id());
    assert!(server.stop().success());
}

#[test]
fn restart_if_needed_is_one_for_an_option_or_a_program() {
    let unit = Unit::new();
    let program = unit.path("edge-server");
    let built = env!("CARGO_BIN_EXE_edge-server");
    fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();
    let with_program = |command: Command| {
        let mut moved = Command::new(&program);
        moved.args(command.get_args()).env_remove("RUST_LOG");
        moved.env("NOTIFY_SOCKET", unit.path("notify"));
        moved
    };
    let mut server = Running::start(&mut with_program(unit.server()));
    unit.await_ready(server.id());
    let if_needed = || unit.admin(&["restart", "--if-needed"]);
    let not_needed = (true, "nothing needs a restart\n".to_owned());
    assert_eq!(if_needed(), not_needed);
    fs::write(unit.path("edge.toml"), "[server]\ndrain = 9").unwrap();
    assert!(unit.admin(&["reload"]).0);
    assert_eq!(if_needed(), not_needed, "the command line has that");
    fs::write(unit.path("edge.toml"), "[server]\nlog-format = 'json'").unwrap();
    assert!(unit.admin(&["reload"]).0);
    let (is_done, said) = if_needed();
    assert!(is_done && said.starts_with("restarted"), "{said}");
    unit.wait_for_older();
    assert_eq!(if_needed(), not_needed);

    fs::copy(built, unit.path("new")).unwrap();
    fs::rename(unit.path("new"), &program).unwrap();
    let (is_done, said) = if_needed();
    assert!(is_done && said.starts_with("restarted"), "{said}");
    assert_eq!(if_needed(), not_needed);
    unit.stop_newest();
    assert!(server.end().0.success());
}
