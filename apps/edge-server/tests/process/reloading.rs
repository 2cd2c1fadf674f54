//! SIGHUP: configuration and certificates are read again, and nobody is disturbed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use crate::support::certify::certify;
use crate::support::client::UdpClient;
use crate::support::process::serve;
use crate::support::process::Running;

const WORKERS: &str = "3";

/// Connections that reach every worker, but for one time in many.
const CLIENTS: usize = 12;

/// A server of two folders that each have another `index.html`.
struct ReloadedServer {
    dir: tempfile::TempDir,
    server: Running,
    address: SocketAddr,
}

impl ReloadedServer {
    fn new(toml: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["old", "new"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("index.html"), folder).unwrap();
        }
        certify(dir.path(), "a.example");
        fs::write(config(dir.path()), filled(dir.path(), toml)).unwrap();
        let config = config(dir.path());
        let args = ["--workers", WORKERS, "--speedtest", "--config", config.to_str().unwrap()];
        let (server, address) = serve(&dir.path().join("old"), &args);
        Self { dir, server, address }
    }

    /// Changes the configuration. Returns what the server says of it.
    fn change(&mut self, toml: &str, answer: &str) -> String {
        fs::write(config(self.dir.path()), filled(self.dir.path(), toml)).unwrap();
        self.reload(answer)
    }

    fn reload(&mut self, answer: &str) -> String {
        let before = self.server.count(answer);
        self.server.ask_to_reload();
        self.server.wait_for_another(answer, before)
    }
}

fn config(dir: &Path) -> PathBuf {
    dir.join("edge.toml")
}

fn filled(dir: &Path, toml: &str) -> String {
    toml.replace("DIR", dir.to_str().unwrap())
}

/// The host `a.example` in a folder.
fn host(folder: &str) -> String {
    format!(
        "[[host]]\nnames = ['a.example']\nroot = 'DIR/{folder}'\n\
         cert = 'DIR/a.example.pem'\nkey = 'DIR/a.example.key'\n"
    )
}

fn home(client: &mut UdpClient) -> String {
    let stream = client.request_with(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/"),
    ]);
    String::from_utf8(client.response(stream).body).unwrap()
}

#[test]
fn reload_reaches_every_worker_and_disturbs_nobody() {
    let mut host_a = ReloadedServer::new(&host("old"));
    let connect = |address| UdpClient::connect_to(Some("a.example"), address);
    let mut before: Vec<_> = (0..CLIENTS).map(|_| connect(host_a.address)).collect();
    let old = before[0].certificate();
    for client in &mut before {
        assert_eq!(home(client), "old");
    }
    let download = before[0].request("GET", "/bytes/3000000");
    before[0].receive(download, 1);

    let new = certify(host_a.dir.path(), "a.example");
    host_a.change(&host("new"), "reloaded");
    for client in &mut before {
        assert_eq!(home(client), "new", "on a connection that was there");
    }
    assert_eq!(before[0].response(download).body.len(), 3_000_000);
    for _ in 0..CLIENTS {
        let mut client = connect(host_a.address);
        assert!(client.certificate() == new && new != old);
        assert_eq!(home(&mut client), "new");
    }
}

#[test]
fn limited_client_stays_limited_after_a_reload() {
    let rule = "[[host.access]]\nrequests-per-second = 1\nburst = 60\n";
    let mut host_a = ReloadedServer::new(&format!("[[host]]\n{rule}"));
    let mut client = UdpClient::connect(host_a.address);
    let mut refused = |requests| {
        let statuses = (0..requests).map(|_| client.get("/").status().to_owned());
        statuses.filter(|status| status == "429").count()
    };
    assert!(refused(120) > 0);
    host_a.change(&format!("[[host]]\ncharset = 'latin1'\n{rule}"), "reloaded");
    assert!(refused(40) > 0, "the burst was there again");
    host_a.change(&format!("[[host]]\n{rule}").replace("60", "70"), "reloaded");
    assert_eq!(refused(40), 0, "the rule has changed");
}

#[test]
fn file_that_the_server_writes_is_not_read_after_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let (log, config) = (dir.path().join("log"), config(dir.path()));
    let log = log.display();
    fs::write(&config, format!("[server]\naccess-log = '{log}'\n")).unwrap();
    let (mut server, _) = serve(dir.path(), &["--config", config.to_str().unwrap()]);
    // The other log is for the next start.
    let users = format!("[[host]]\naccess = [{{ basic-auth = '{log}' }}]\n");
    fs::write(&config, format!("[server]\naccess-log = '{log}.2'\n{users}")).unwrap();
    server.ask_to_reload();
    server.wait_for("basic-auth of [[host]] without names and --access-log are the same path");
}

#[test]
fn reload_of_what_cannot_be_used_changes_nothing() {
    let mut host_a = ReloadedServer::new(&host("old"));
    let mut client = UdpClient::connect_to(Some("a.example"), host_a.address);
    let certificate = client.certificate();
    for (toml, named) in [
        (
            "[[host]]\nindx = 1".to_owned(),
            "edge.toml: line 2, column 1: [[host]] without names: there is no key 'indx'",
        ),
        (host("none"), "cannot serve root ="),
        ("[server]\nretry-above = 'x'".to_owned(), "line 2, column 1: invalid value 'x'"),
        (host("new").replace("a.example.key", "none.key"), "none.key"),
        ("[server]\nsecrets = 'DIR/edge.toml'".to_owned(), "cannot use --secrets"),
        ("[server]\nhash-keys = 'DIR/none'".to_owned(), "cannot use --hash-keys"),
    ] {
        let said = host_a.change(&toml, "cannot reload");
        assert!(said.contains(named), "{said}");
        assert_eq!(home(&mut client), "old");
        let mut other = UdpClient::connect_to(Some("a.example"), host_a.address);
        assert_eq!(home(&mut other), "old");
        assert!(other.certificate() == certificate);
    }
    fs::remove_file(config(host_a.dir.path())).unwrap();
    assert!(host_a.reload("cannot reload").contains("cannot read --config"));
    host_a.change(&host("new"), "reloaded");
    assert_eq!(home(&mut client), "new");
    assert_eq!(host_a.server.count("cannot reload"), 7);
    assert!(host_a.server.stop().success());
}

#[test]
fn reload_names_options_that_need_a_restart() {
    let mut host = ReloadedServer::new("");
    for (options, said) in [
        ("prefix-v4 = 20\nstore = 'memory:'\nmetrics = '127.0.0.1:0'", "--metrics, --prefix-v4"),
        ("prefix-v4 = 16\ncc = 'reno'\npmtud = true", "--prefix-v4"),
        // The command line has the last word.
        ("workers = 7\nresume = false", "--resume"),
    ] {
        let warning = host.change(&format!("[server]\n{options}"), "until a restart");
        assert!(warning.ends_with(&format!("until a restart: {said}")), "{warning}");
    }
    host.change("", "reloaded");
    host.reload("reloaded");
    assert_eq!(host.server.count("until a restart"), 3);
    assert_eq!(home(&mut UdpClient::connect(host.address)), "old");
}
