//! Operations of docs/edge-server/operation.md: each is one command, which a shell runs as the page
//! has it, on a node with the page's configuration.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::certify::certify;
use crate::support::client::UdpClient;
use crate::support::process::sibling;
use crate::support::process::Running;

const PAGE: &str = include_str!("../../../../docs/edge-server/operation.md");

/// Folders of the page, which the test has in a folder of its own.
const FOLDERS: [&str; 5] = ["/etc/edge", "/run/edge", "/srv/www", "/var/lib/edge", "/var/log/edge"];

/// Subnet of the test's clients.
const SUBNET: &str = "127.0.0.0/24";

/// Subnet of others.
const OTHER_SUBNET: &str = "192.0.2.0/24";

const NAP: Duration = Duration::from_millis(20);
const NAPS_MAX: usize = 1500;

/// Prepares a node, runs a command, and checks what has become of it.
type Check = fn(&EdgeNode, &str);

/// Checks of the operations' effects.
const EFFECTS: [(&str, Check); 27] = [
    ("Check the configuration", |node, command| {
        assert_eq!(node.run(command), "ok\n");
        node.edit("resume-share = 1", "resume-share = 2");
        assert_eq!(node.output(command).status.code(), Some(2));
    }),
    ("Start", |node, command| {
        let (_server, address) = node.start(command);
        assert_eq!(home(&mut UdpClient::connect(address)), "home");
    }),
    ("Restart without interruption, also with a new version", |node, command| {
        let (mut old, address) = node.server();
        let mut client = UdpClient::connect(address);
        let (new, same_address) = node.start(command);
        old.wait_for("handed over");
        assert_eq!(same_address, address);
        assert_eq!(node.admin("stats")["pid"], new.id());
        assert_eq!(home(&mut UdpClient::connect(address)), "home");
        assert_eq!(home(&mut client), "home", "on a connection that was there");
        client.close();
        assert!(old.end().0.success());
    }),
    ("Have the server restart itself, without interruption", |node, command| {
        let (mut old, address) = node.server();
        let mut client = UdpClient::connect(address);
        let said = node.run(command);
        assert!(said.starts_with("restarted; process "), "{said}");
        let new = node.admin("stats")["pid"].to_string();
        assert!(new != old.id().to_string() && said.contains(&new), "{said}");
        for client in [&mut client, &mut UdpClient::connect(address)] {
            assert_eq!(home(client), "home");
        }
        node.run("edge-server admin /run/edge/admin.sock stop");
        old.wait_for("serving again");
    }),
    ("Go back to the old server, while it drains", |node, command| {
        let (mut old, address) = node.server();
        let mut client = UdpClient::connect(address);
        let (mut new, _) = node.server();
        old.wait_for("handed over");
        assert_eq!(node.admin("stats")["older_servers"], 1);
        // The new server has connections of its own.
        let mut of_new = UdpClient::connect(address);
        assert_eq!(home(&mut of_new), "home");
        fs::write(node.path("/srv/www/large"), vec![7; 1 << 20]).unwrap();
        let download = of_new.request("GET", "/large");
        of_new.receive(download, 1);
        of_new.fall_silent();
        assert_eq!(node.run(command), "rolling back\n");
        // Nobody is refused meanwhile.
        for client in [&mut client, &mut UdpClient::connect(address)] {
            assert_eq!(home(client), "home");
        }
        old.wait_for("serving again");
        assert!(new.end().0.success());
        let refusal = node.refused(command);
        assert!(refusal.contains("no older server has connections"), "{refusal}");
    }),
    ("Apply changes of the configuration and renewed certificates", |node, command| {
        let (_server, address) = node.server();
        let before = UdpClient::connect(address).certificate();
        node.edit("/srv/www", "/srv/new");
        node.certify();
        assert_eq!(node.run(command), "reloaded\n");
        let mut client = UdpClient::connect(address);
        assert_eq!(home(&mut client), "new home");
        assert!(client.certificate() != before);
    }),
    ("Drain and exit", |node, command| {
        let (mut server, address) = node.server();
        let mut client = UdpClient::connect(address);
        assert_eq!(home(&mut client), "home");
        assert_eq!(node.run(command), "draining\n");
        client.goaways(2);
        assert!(server.end().0.success());
    }),
    ("Stop at once", |node, command| {
        let (mut server, address) = node.server();
        let mut client = UdpClient::connect(address);
        // The server knows that its handshake is complete.
        assert_eq!(home(&mut client), "home");
        client.open_request("/");
        assert_eq!(node.run(command), "stopping\n");
        client.closed();
        assert!(server.end().0.success());
    }),
    ("See whether the server works, and accepts clients", |node, command| {
        let (mut server, _) = node.server();
        assert_eq!(node.run(command), "ok\nready\n");
        server.kill();
        assert_eq!(node.output(command).status.code(), Some(1));
    }),
    ("See version, uptime and number of connections", |node, command| {
        let (server, address) = node.server();
        let _client = UdpClient::connect(address);
        let stats = node.json(command);
        assert_eq!((&stats["pid"], &stats["connections"]), (&server.id().into(), &1.into()));
        assert!(stats["version"].is_string() && stats["uptime_s"].is_number(), "{stats}");
    }),
    ("See what an old server still does, while it drains", |node, command| {
        let (mut old, address) = node.server();
        let _client = UdpClient::connect(address);
        let (_new, _) = node.server();
        old.wait_for("handed over");
        let stats = node.json(command);
        assert_eq!((&stats["pid"], &stats["connections"]), (&old.id().into(), &1.into()));
    }),
    ("See connections", |node, command| {
        let (_server, address) = node.server();
        let mut client = UdpClient::connect(address);
        assert_eq!(home(&mut client), "home");
        let list = node.json(command);
        assert_eq!((&list["open"], &list["connections"][0]["state"]), (&1.into(), &"open".into()));
    }),
    ("See when certificates expire", |node, command| {
        let _server = node.server();
        let certificate = &node.json(command)[0];
        assert_eq!(certificate["names"][0], "localhost");
        assert!(certificate["days_left"].as_f64() > Some(0.0), "{certificate}");
    }),
    ("Log more", |node, command| {
        let (mut server, address) = node.server();
        node.run(command);
        UdpClient::connect(address);
        server.wait_for("DEBUG edge_server");
    }),
    ("Log as by default", |node, command| {
        let _server = node.server();
        let shown = "edge-server admin /run/edge/admin.sock log";
        let default = node.run(shown);
        node.run(&format!("{shown} debug"));
        node.run(command);
        assert_eq!(node.run(shown), default);
    }),
    ("Rotate the access log", |node, command| {
        let (_server, address) = node.server();
        node.visit(address, "/before");
        node.run(command);
        assert_eq!(node.read("/var/log/edge/access.log"), "");
        assert_eq!(node.visit(address, "/after")["path"], "/after");
        let old = node.read("/var/log/edge/access.log.1");
        assert!(old.contains("/before") && !old.contains("/after"), "{old}");
    }),
    ("Write qlogs of a subnet", |node, command| {
        let (_server, address) = node.server();
        let qlogs = || fs::read_dir(node.path("/var/log/edge/qlog")).unwrap().count();
        node.visit(address, "/");
        assert_eq!(qlogs(), 0);
        node.run(command);
        node.visit(address, "/");
        assert_eq!(qlogs(), 1);
    }),
    ("Rotate the secrets of a server that shares them with no other", |node, command| {
        let _server = node.server();
        let read_at = || {
            let metrics = node.run("edge-server admin /run/edge/admin.sock metrics");
            let name = "edge_server_key_file_last_success_timestamp_seconds{file=\"secrets\"}";
            let line = metrics.lines().find(|line| line.starts_with(name));
            line.unwrap().to_owned()
        };
        let before = (node.read("/etc/edge/secrets"), read_at());
        let mode = || fs::metadata(node.path("/etc/edge/secrets")).unwrap().permissions();
        let mode_before = mode();
        // Of 256 new secrets, one has the name of the first, and is refused.
        assert!((0..4).any(|_| node.output(command).status.success()));
        let secrets = node.read("/etc/edge/secrets");
        assert!(secrets.ends_with(&before.0) && secrets.lines().count() == 2, "{secrets}");
        assert_eq!(mode(), mode_before);
        wait_until("the server has read the secrets", || read_at() != before.1);
    }),
    ("Switch Careful Resume off for all new connections", |node, command| {
        let (_server, address) = node.server();
        node.run(command);
        assert_eq!(node.visit(address, "/")["resume"]["arm"], "control");
    }),
    ("Switch it off for a subnet", |node, command| {
        node.edit("resume-except = []", "resume-except = ['198.51.100.0/24']");
        let (_server, address) = node.server();
        assert!(node.visit(address, "/")["resume"].is_object());
        node.run(command);
        assert_eq!(node.visit(address, "/")["resume"], Value::Null);
        assert!(node.read("/etc/edge/edge.toml").contains("'198.51.100.0/24'"));
    }),
    ("Change the share of the control group", |node, command| {
        let (_server, address) = node.server();
        assert_eq!(node.visit(address, "/")["resume"]["arm"], Value::Null);
        node.run(command);
        assert!(node.visit(address, "/")["resume"]["arm"].is_string());
    }),
    ("See what Careful Resume gains", |node, command| {
        node.edit("resume-share = 1", "resume-share = 0.9");
        let (_server, address) = node.server();
        let line = node.visit(address, "/");
        let clients = match line["resume"]["arm"].as_str() {
            Some("resume") => "clients: 1 resume, 0 control",
            _ => "clients: 0 resume, 1 control",
        };
        let printed = node.run(command);
        assert!(printed.starts_with(clients), "{printed}");
    }),
    ("List saved path state", |node, command| {
        let _server = node.server_with_path_state();
        assert_eq!(subnets(&node.run(command)), [true, true]);
    }),
    ("Look up that of a subnet", |node, command| {
        let _server = node.server_with_path_state();
        assert_eq!(subnets(&node.run(command)), [true, false]);
    }),
    ("Delete that of a subnet", |node, command| {
        let _server = node.server_with_path_state();
        assert_eq!(node.run(command), "1 entry deleted\n");
        let list = node.run("path-store --store /var/lib/edge/paths.db list");
        assert_eq!(subnets(&list), [false, true]);
    }),
    ("Export all of it", |node, command| {
        let _server = node.server_with_path_state();
        node.run(command);
        let records = node.read("/var/lib/edge/paths.jsonl");
        assert_eq!((records.lines().count(), subnets(&records)), (2, [true, true]));
    }),
    ("Import it, also into another kind of store", |node, command| {
        let _server = node.server_with_path_state();
        node.run("path-store --store /var/lib/edge/paths.db export > /var/lib/edge/paths.jsonl");
        node.run("path-store --store /var/lib/edge/paths.db flush");
        assert_eq!(node.run(command), "2 imported, 0 skipped\n");
        let list = node.run("path-store --store /var/lib/edge/paths.db list");
        assert_eq!(subnets(&list), [true, true]);
    }),
];

#[test]
fn each_operation_of_the_page_is_one_command() {
    let commands = commands();
    let checked: Vec<_> = EFFECTS.iter().map(|(operation, _)| *operation).collect();
    let mut on_page: Vec<_> = commands.keys().map(String::as_str).collect();
    on_page.sort_by_key(|operation| checked.iter().position(|checked| checked == operation));
    assert_eq!(on_page, checked, "each row of the page has its check, and each check its row");
    for (operation, check) in EFFECTS {
        eprintln!("{operation}: {}", commands[operation]);
        check(&EdgeNode::new(&commands["Start"]), &commands[operation]);
    }
}

/// Returns the commands of the page's table by their operations.
fn commands() -> BTreeMap<String, String> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with("Operations\n")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | `"));
    let row = |(operation, command): (&str, &str)| {
        let command = command.strip_suffix("` |").expect(command).replace("\\|", "|");
        (without_links(operation), command)
    };
    rows.map(row).collect()
}

/// Returns the text of a cell in which `[text](address)` may occur.
fn without_links(cell: &str) -> String {
    let parts = cell.split('[').map(|part| match part.split_once("](") {
        Some((text, rest)) => [text, rest.split_once(')').unwrap().1].concat(),
        None => part.to_owned(),
    });
    parts.collect()
}

/// Returns whether a list has the entries of the test's clients, and of the others.
fn subnets(list: &str) -> [bool; 2] {
    [SUBNET, OTHER_SUBNET].map(|subnet| list.contains(subnet))
}

fn home(client: &mut UdpClient) -> String {
    String::from_utf8(client.get("/").body).unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..NAPS_MAX {
        if is_so() {
            return;
        }
        thread::sleep(NAP);
    }
    panic!("in vain: {what}");
}

/// Machine with the page's folders and configuration.
struct EdgeNode {
    dir: tempfile::TempDir,

    /// Command that starts a server.
    start: String,
}

impl EdgeNode {
    fn new(start: &str) -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap(), start: start.to_owned() };
        for folder in FOLDERS.iter().chain(&["/srv/new"]) {
            fs::create_dir_all(node.path(folder)).unwrap();
        }
        fs::write(node.path("/srv/www/index.html"), "home").unwrap();
        fs::write(node.path("/srv/new/index.html"), "new home").unwrap();
        node.certify();
        node.run("umask 077 && openssl rand -hex 32 > /etc/edge/secrets");
        let (_, toml) = PAGE.split_once("```toml\n# /etc/edge/edge.toml\n").unwrap();
        let (toml, _) = toml.split_once("```").unwrap();
        let toml = node.here(toml).replace("0.0.0.0:443", "127.0.0.1:0");
        fs::write(node.path("/etc/edge/edge.toml"), toml).unwrap();
        node
    }

    /// Returns the place of a path of the page.
    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    /// Returns text of the page with the paths of this node.
    fn here(&self, text: &str) -> String {
        let dir = self.dir.path().to_str().unwrap();
        FOLDERS
            .iter()
            .fold(text.to_owned(), |text, folder| text.replace(folder, &[dir, folder].concat()))
    }

    /// Makes another certificate.
    fn certify(&self) {
        let folder = self.path("/etc/edge");
        certify(&folder, "localhost");
        for (made, name) in [("localhost.pem", "fullchain.pem"), ("localhost.key", "key.pem")] {
            fs::rename(folder.join(made), folder.join(name)).unwrap();
        }
    }

    /// Replaces text of the configuration.
    fn edit(&self, old: &str, new: &str) {
        let toml = self.read("/etc/edge/edge.toml");
        assert!(toml.contains(old), "{toml}");
        fs::write(self.path("/etc/edge/edge.toml"), toml.replace(old, new)).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn shell(&self, command: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_edge-server")).parent().unwrap().to_owned();
        let found = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([programs].into_iter().chain(env::split_paths(&found)));
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.here(command)]).env_remove("RUST_LOG");
        shell.env("PATH", path.unwrap()).env("SUBNET", SUBNET);
        shell
    }

    fn output(&self, command: &str) -> Output {
        self.shell(command).output().unwrap()
    }

    /// Runs a command that succeeds. Returns what it prints.
    fn run(&self, command: &str) -> String {
        let output = self.output(command);
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that fails. Returns what it says.
    fn refused(&self, command: &str) -> String {
        let output = self.output(command);
        assert!(!output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.run(command)).unwrap()
    }

    fn admin(&self, command: &str) -> Value {
        self.json(&format!("edge-server admin /run/edge/admin.sock {command}"))
    }

    /// Runs a command that serves. Returns where.
    fn start(&self, command: &str) -> (Running, SocketAddr) {
        let mut server = Running::start(&mut self.shell(&format!("exec {command}")));
        let address = server.address();
        (server, address)
    }

    /// Starts a server.
    fn server(&self) -> (Running, SocketAddr) {
        self.start(&self.start)
    }

    /// Starts a server whose store has the path state of two subnets.
    fn server_with_path_state(&self) -> Running {
        sibling("path-store");
        let (server, _) = self.server();
        for subnet in [SUBNET, OTHER_SUBNET] {
            self.run(&format!(
                "path-store --store /var/lib/edge/paths.db put {subnet} --sender 127.0.0.1 \
                 --cwnd 300000 --rtt 50"
            ));
        }
        server
    }

    /// Requests a page on a new connection. Returns its line in the access log.
    fn visit(&self, address: SocketAddr, path: &str) -> Value {
        let lines = || self.read("/var/log/edge/access.log");
        let before = lines().lines().count();
        let mut client = UdpClient::connect(address);
        client.get(path);
        client.close();
        wait_until("the log has a line", || lines().lines().count() > before);
        serde_json::from_str(lines().lines().last().unwrap()).unwrap()
    }
}
