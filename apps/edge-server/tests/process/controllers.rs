//! Congestion controllers of hosts and listeners, with edge-client over an emulated path, and
//! through a hot restart. Which one a connection gets is tested in memory:
//! `worker/tests/controllers.rs`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::lab::emulate;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;

/// 20 Mbit/s and 40 ms hold 100 kB.
const PATH: &str = "--rate 20 --rtt 40 --buffer 100000";
const BYTES: u64 = 1_000_000;

/// A busy machine may answer a claim too late for a jump.
const TRIES: usize = 10;

/// The folder of a test, with the configuration file and what servers write.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(toml: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("edge.toml"), toml).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a server with the access log and the store of the folder.
    fn serve(&self, more: &[&str]) -> (Running, SocketAddr) {
        let [config, log, store] = ["edge.toml", "log", "paths.db"].map(|name| self.file(name));
        let mut args = vec!["--speedtest", "--config", config.to_str().unwrap()];
        args.extend(["--access-log", log.to_str().unwrap(), "--store", store.to_str().unwrap()]);
        args.extend(more);
        serve(self.0.path(), &args)
    }

    fn log(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.file("log")).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Downloads from a host some times, each on a new connection.
fn download(host: &str, server: SocketAddr, times: usize) {
    let url = format!("https://{host}:{}/bytes/{BYTES}", server.port());
    let connect = server.to_string();
    for _ in 0..times {
        let mut client = Command::new(sibling("edge-client"));
        client.args([&url, "--insecure", "--connect", &connect]);
        let (status, said) = Running::start(&mut client).end();
        assert!(status.success(), "{said:?}");
    }
}

/// Checks that lines are of connections with this controller, some of which have jumped.
#[track_caller]
fn assert_jumped_with<'a>(controller: &str, lines: impl Iterator<Item = &'a Value>) {
    let lines: Vec<_> = lines.collect();
    assert!(lines.iter().all(|line| line["cc"] == controller), "{controller}: {lines:#?}");
    let has_jumped = |line: &&&Value| line["resume"]["jump_bytes"].is_number();
    assert!(lines.iter().any(|line| has_jumped(&line)), "{controller}: {lines:#?}");
}

#[test]
fn hosts_of_one_server_jump_with_their_own_controllers() {
    let folder = Folder::new("[[host]]\nnames = ['a.example']\ncc = 'bbr2'\n");
    let (mut server, address) = folder.serve(&["--cc", "cubic"]);
    let mut emulator = emulate(address, PATH);
    for host in ["a.example", "b.example"] {
        download(host, emulator.address(), TRIES);
    }
    assert!(server.stop().success());
    assert!(emulator.stop().success());

    let log = folder.log();
    assert_eq!(log.len(), 2 * TRIES);
    for (host, controller) in [("a.example", "bbr2"), ("b.example", "cubic")] {
        let of_host = log.iter().filter(|line| line["host"].as_str().unwrap().starts_with(host));
        assert_jumped_with(controller, of_host);
    }
    assert_eq!(log[0]["resume"]["jump_bytes"], Value::Null, "nothing was known yet");
}

/// Returns the address of the server's second listener.
fn second_address(server: &mut Running) -> SocketAddr {
    let line = server.wait_for_another("listening on ", 1);
    line.rsplit_once("listening on ").unwrap().1.parse().unwrap()
}

#[test]
fn listeners_of_one_server_jump_with_their_own_controllers() {
    let folder = Folder::new("[[host]]\nnames = ['a.example']\ncc = 'reno'\n");
    let args = ["--listen", "127.0.0.1:0,cc=bbr2", "--workers", "2"];
    let (mut server, first) = folder.serve(&args);
    let second = second_address(&mut server);
    let ports = [first, second].map(|address| {
        let mut emulator = emulate(address, PATH);
        let address = emulator.address();
        download("b.example", address, TRIES);
        assert!(emulator.stop().success());
        address.port()
    });
    download("a.example", second, 1);
    assert!(server.stop().success());

    let log = folder.log();
    for (port, controller) in ports.into_iter().zip(["cubic", "bbr2"]) {
        let host = format!("b.example:{port}");
        assert_jumped_with(controller, log.iter().filter(|line| line["host"] == host.as_str()));
    }
    let host = format!("a.example:{}", second.port());
    let line = log.iter().find(|line| line["host"] == host.as_str()).unwrap();
    assert_eq!(line["cc"], "reno", "a host wins over the listener");
}

#[test]
fn listeners_are_taken_over_and_their_controllers_reloaded() {
    let folder = Folder::new("");
    let takeover = folder.file("takeover");
    let (config, root) = (folder.file("edge.toml"), folder.file(""));
    let configure = |listen: [String; 2]| {
        let [log, takeover] = [folder.file("log"), takeover.clone()];
        let toml = format!(
            "[server]\nlisten = {listen:?}\nroot = {root:?}\naccess-log = {log:?}\n\
             takeover = {takeover:?}\nspeedtest = true\n"
        );
        fs::write(&config, toml).unwrap();
    };
    let start = || {
        let args = ["--config", config.to_str().unwrap()];
        let mut server = Running::start(&mut server_command(&args));
        let addresses = [server.address(), second_address(&mut server)];
        (server, addresses)
    };
    configure(["127.0.0.1:0,cc=reno".into(), "127.0.0.1:0".into()]);
    let (mut old, [first, second]) = start();
    // In another order.
    configure([format!("{second},cc=bbr2"), first.to_string()]);
    let (mut new, taken) = start();
    assert_eq!(taken, [first, second]);
    assert!(old.end().0.success());
    download("a.example", first, 1);
    download("a.example", second, 1);

    configure([format!("{second},cc=reno"), first.to_string()]);
    new.ask_to_reload();
    new.wait_for("reloaded");
    assert_eq!(new.count("not applied until a restart"), 0);
    download("a.example", second, 1);
    assert!(new.stop().success());
    let controllers: Vec<_> = folder.log().iter().map(|line| line["cc"].clone()).collect();
    assert_eq!(controllers, ["cubic", "bbr2", "reno"]);
}

/// Returns the line with which `--check` refuses a configuration.
fn refusal(toml: &str, more: &[&str]) -> String {
    let folder = Folder::new(toml);
    let config = folder.file("edge.toml");
    let root = folder.file("");
    let mut args = vec!["--listen", "127.0.0.1:0", "--root", root.to_str().unwrap(), "--check"];
    args.extend(["--config", config.to_str().unwrap()]);
    args.extend(more);
    let (status, said) = Running::start(&mut server_command(&args)).end();
    assert_eq!(status.code(), Some(2), "{said:?}");
    assert_eq!(said.len(), 1, "{said:?}");
    said[0].clone()
}

#[test]
fn check_names_an_unknown_controller() {
    let error = refusal("[[host]]\nnames = ['a']\ncc = 'bbr3'\n", &[]);
    assert!(error.contains("edge.toml: line 3, column 6: [[host]] a: cc = 'bbr3'"), "{error}");
    assert!(error.ends_with("use cubic, reno or bbr2"), "{error}");
    let error = refusal("", &["--listen", "127.0.0.1:0,cc=bbr3"]);
    assert!(error.contains("--listen"), "{error}");
    assert!(error.contains("cc = 'bbr3': use cubic, reno or bbr2"), "{error}");
}

#[test]
fn server_that_takes_over_has_controllers_of_its_own() {
    let folder = Folder::new("[[host]]\nnames = ['a.example']\ncc = 'bbr2'\n");
    let takeover = folder.file("takeover");
    let (mut old, address) = folder.serve(&["--takeover", takeover.to_str().unwrap()]);
    download("a.example", address, 1);
    fs::write(folder.file("edge.toml"), "[[host]]\nnames = ['a.example']\ncc = 'reno'\n").unwrap();
    let (mut new, same) = folder.serve(&["--takeover", takeover.to_str().unwrap()]);
    assert_eq!(same, address);
    download("a.example", address, 1);
    assert!(old.end().0.success());
    assert!(new.stop().success());
    let controllers: Vec<_> = folder.log().iter().map(|line| line["cc"].clone()).collect();
    assert_eq!(controllers, ["bbr2", "reno"]);
}
