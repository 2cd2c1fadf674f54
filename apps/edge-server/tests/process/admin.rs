//! The admin socket: commands to a running server, and their outcomes as exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::client::UdpClient;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

/// Runs a command. Returns its exit code, what it prints and what it says.
fn admin(socket: &Path, command: &[&str]) -> (i32, String, String) {
    let args = [&["admin", socket.to_str().unwrap()], command].concat();
    let output = server_command(&args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn document(socket: &Path, command: &[&str]) -> Value {
    let (code, document, said) = admin(socket, command);
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&document).unwrap()
}

#[test]
fn admin_commands_tell_their_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("www");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("index.html"), "home").unwrap();
    let (socket, config) = (dir.path().join("admin.sock"), dir.path().join("edge.toml"));
    fs::write(&config, "").unwrap();
    let args = ["--admin", socket.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let (mut server, address) = serve(&root, &args);
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    assert_eq!(admin(&socket, &["reload"]), (0, "reloaded\n".into(), String::new()));
    fs::write(&config, "[server]\nworkers = 9").unwrap();
    let (code, printed, _) = admin(&socket, &["reload"]);
    assert_eq!(code, 0);
    assert!(printed.ends_with("until a restart: --workers\n"), "{printed}");
    fs::write(&config, "[[host]]\ntry-files = ['/none.html']").unwrap();
    let (code, printed, _) = admin(&socket, &["reload"]);
    let is_warned = printed.lines().nth(1).is_some_and(|line| {
        line.starts_with("warning: ") && line.contains("try-files: '/none.html': no such file")
    });
    assert!(code == 0 && is_warned, "{printed}");
    fs::write(&config, "\n[[host]]\nindx = 1").unwrap();
    let (code, printed, said) = admin(&socket, &["reload"]);
    assert_eq!((code, printed.as_str(), said.lines().count()), (1, "", 1));
    assert!(
        said.contains("cannot reload, nothing has changed") && said.contains("line 3"),
        "{said}"
    );
    let (_, metrics, _) = admin(&socket, &["metrics"]);
    for line in [
        "edge_server_reloads_total{outcome=\"succeeded\"} 3",
        "edge_server_reloads_total{outcome=\"failed\"} 1",
        "edge_server_last_reload_successful 0",
    ] {
        assert!(metrics.lines().any(|exported| exported == line), "{line}: {metrics}");
    }

    let mut client = UdpClient::connect(address);
    assert_eq!(client.get("/").body, b"home");
    let listed = document(&socket, &["connections"]);
    assert_eq!((&listed["open"], &listed["omitted"]), (&1.into(), &0.into()));
    let listed = &listed["connections"][0];
    assert_eq!((&listed["state"], &listed["resume"]), (&"open".into(), &"reconnaissance".into()));
    assert!(listed["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{listed}");
    assert!(listed["sent_bytes"].as_u64() > Some(1000), "{listed}");
    assert_eq!(document(&socket, &["connections", "--max", "0"])["omitted"], 1);
    let stats = document(&socket, &["stats"]);
    assert_eq!((&stats["state"], &stats["connections"]), (&"ready".into(), &1.into()));
    assert_eq!(stats["pid"], server.id());
    let certificates = document(&socket, &["certificates"]);
    assert_eq!(certificates[0]["names"][0], "localhost");

    assert_eq!(admin(&socket, &["log", "edge_server=debug"]).0, 0);
    assert_eq!(admin(&socket, &["log"]).1, "edge_server=debug\n");
    UdpClient::connect(address);
    server.wait_for("DEBUG edge_server");
    for (filter, word) in [("edge_server=loud", "loud"), ("wran", "'wran'"), ("", "''")] {
        let (code, _, said) = admin(&socket, &["log", filter]);
        assert!(code == 1 && said.contains(word), "{said}");
    }
    assert_eq!(admin(&socket, &["log", "debug, quiche=off"]).0, 0);
    assert_eq!(admin(&socket, &["log"]).1, "debug, quiche=off\n");

    assert_eq!(admin(&socket, &["health"]).0, 0);
    assert_eq!(admin(&socket, &["ready"]).0, 0);
    assert_eq!(admin(&socket, &["frobnicate"]).0, 2);
    assert_eq!(admin(&socket, &["drain"]).1, "draining\n");
    drop(client);
    let (status, said) = server.end();
    assert!(status.success());
    assert_eq!(said.iter().filter(|line| line.contains("INFO edge-server: draining")).count(), 1);
    let (code, _, said) = admin(&socket, &["ready"]);
    assert!(code == 1 && said.contains("admin.sock"), "{said}");
}

#[test]
fn second_server_leaves_the_socket_of_a_live_one() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, takeover) = (dir.path().join("admin.sock"), dir.path().join("takeover.sock"));
    let args = ["--admin", socket.to_str().unwrap()];
    let (mut server, _) = serve(dir.path(), &args);
    let root = dir.path().to_str().unwrap();
    let start = [&["--listen", "127.0.0.1:0", "--root", root], &args[..]].concat();
    let takeover = ["--takeover", takeover.to_str().unwrap()];
    for more in [&[][..], &takeover] {
        let mut second = Running::start(&mut server_command(&[&start[..], more].concat()));
        let (status, said) = second.end();
        assert_eq!((status.code(), said.len()), (Some(1), 1), "{said:?}");
        assert!(said[0].contains("admin.sock: another server listens there"), "{said:?}");
        assert_eq!(document(&socket, &["stats"])["pid"], server.id());
    }
    let output = server_command(&[&start[..], &["--check"]].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    server.kill();
    assert!(socket.exists());
    let (second, _) = serve(dir.path(), &args);
    assert_eq!(document(&socket, &["stats"])["pid"], second.id());
}

#[test]
fn query_of_a_hung_server_fails_before_a_command_does() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let (server, _) = serve(dir.path(), &["--admin", socket.to_str().unwrap()]);
    server.pause();
    let mut reload = server_command(&["admin", socket.to_str().unwrap(), "reload"]);
    let mut reload = reload.stdout(Stdio::null()).spawn().unwrap();
    let (code, _, said) = admin(&socket, &["health"]);
    assert!(code == 1 && said.contains("admin.sock"), "{said}");
    assert_eq!(reload.try_wait().unwrap(), None);
    server.go_on();
    assert!(reload.wait().unwrap().success());
}

#[test]
fn reload_command_reopens_the_access_log() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, log) = (dir.path().join("admin.sock"), dir.path().join("access.log"));
    let args = ["--admin", socket.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    fs::rename(&log, dir.path().join("access.log.1")).unwrap();
    assert_eq!(admin(&socket, &["reload"]).0, 0);
    let mut client = UdpClient::connect(address);
    client.get("/after");
    client.close();
    assert!(server.stop().success());
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains(r#""path":"/after""#), "{text}");
}

#[test]
fn reload_that_cannot_reopen_the_access_log_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, logs) = (dir.path().join("admin.sock"), dir.path().join("logs"));
    fs::create_dir(&logs).unwrap();
    let log = logs.join("access.log");
    let args = ["--admin", socket.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
    let (mut server, _) = serve(dir.path(), &args);
    fs::remove_dir_all(&logs).unwrap();
    let (code, _, said) = admin(&socket, &["reload"]);
    assert!(code == 1 && said.contains("reloaded, but the access log is not reopened"), "{said}");
    server.wait_for("INFO edge-server: reloaded");
}

#[test]
fn connections_tell_what_is_kept_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let (_server, address) =
        serve(dir.path(), &["--admin", socket.to_str().unwrap(), "--speedtest"]);
    let mut client = UdpClient::connect(address);
    client.request("GET", "/bytes/20000000");
    client.await_unanswered();
    let connections = document(&socket, &["connections"]);
    let kept = connections["connections"][0]["kept_bytes"].as_u64();
    assert!(kept.is_some_and(|kept| kept > 10_000), "{connections}");
}

#[test]
fn command_beyond_the_clients_at_a_time_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let _server = serve(dir.path(), &["--admin", socket.to_str().unwrap()]);
    let slow: Vec<_> = (0..32).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let (code, _, said) = admin(&socket, &["stats"]);
    assert_eq!((code, said.as_str()), (1, "edge-server: more than 32 clients; try again later\n"));
    drop(slow);
}

#[test]
fn failed_reload_is_logged_whatever_the_log_shows() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, config) = (dir.path().join("admin.sock"), dir.path().join("edge.toml"));
    fs::write(&config, "").unwrap();
    let args = ["--admin", socket.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let (mut server, _) = serve(dir.path(), &args);
    assert_eq!(admin(&socket, &["log", "off"]).0, 0);
    fs::write(&config, "x = 1").unwrap();
    assert_eq!(admin(&socket, &["reload"]).0, 1);
    server.wait_for("cannot reload, nothing has changed: --config");
}

#[test]
fn response_that_cannot_be_printed_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let _server = serve(dir.path(), &["--admin", socket.to_str().unwrap()]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let command = &mut server_command(&["admin", socket.to_str().unwrap(), "metrics"]);
    let (status, said) = Running::start_to(command, full.into()).end();
    assert_eq!((status.code(), said.len()), (Some(1), 1), "{said:?}");
    assert!(said[0].contains("cannot print"), "{said:?}");
}

/// The next server has the socket, and an old one that serves again has it back.
#[test]
fn admin_socket_follows_takeover() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let (socket, takeover) = (dir.path().join("admin.sock"), dir.path().join("takeover.sock"));
    let args = ["--admin", socket.to_str().unwrap(), "--takeover", takeover.to_str().unwrap()];
    let (mut old, address) = serve(dir.path(), &args);
    let pid = || document(&socket, &["stats"])["pid"].clone();
    assert_eq!(pid(), old.id());
    let mut client = UdpClient::connect(address);
    assert_eq!(client.get("/").body, b"home");

    let address = address.to_string();
    let next =
        [&["--listen", &address, "--root", dir.path().to_str().unwrap()], &args[..]].concat();
    let mut new = Running::start(&mut server_command(&next));
    new.address();
    assert_eq!(pid(), new.id());
    new.kill();
    old.wait_for("serving again");
    // It takes the socket after it has said so.
    let pid = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let (code, stats, _) = admin(&socket, &["stats"]);
        (code == 0).then(|| serde_json::from_str::<Value>(&stats).unwrap()["pid"].clone())
    });
    assert_eq!(pid.unwrap(), old.id());
}

/// Metrics, connections and commands, until it ends or serves again.
#[test]
fn draining_server_has_an_admin_socket_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, takeover) = (dir.path().join("admin.sock"), dir.path().join("takeover.sock"));
    let of_old = dir.path().join("admin.sock.0");
    let args = ["--admin", socket.to_str().unwrap(), "--takeover", takeover.to_str().unwrap()];
    let args = [&args[..], &["--speedtest", "--drain", "1000"]].concat();
    let (mut old, address) = serve(dir.path(), &args);
    let mut client = UdpClient::connect(address);
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    let address = address.to_string();
    let next =
        [&["--listen", &address, "--root", dir.path().to_str().unwrap()], &args[..]].concat();
    let succeed = || {
        let mut new = Running::start(&mut server_command(&next));
        new.address();
        new
    };
    let mut new = succeed();
    old.wait_for("handed over");
    let stats = document(&of_old, &["stats"]);
    assert_eq!((&stats["pid"], &stats["state"]), (&old.id().into(), &"draining".into()));
    assert_eq!(stats["connections"], 1);
    let (_, metrics, _) = admin(&of_old, &["metrics"]);
    assert!(metrics.contains("edge_server_connections_total{worker="), "{metrics}");
    new.kill();
    old.wait_for("serving again");
    std::iter::repeat(()).take_while(|()| of_old.exists()).take(1000).for_each(|()| {
        std::thread::sleep(std::time::Duration::from_millis(10));
    });
    assert!(!of_old.exists());

    let mut new = succeed();
    old.wait_for_another("handed over", 1);
    assert_eq!(admin(&of_old, &["stop"]).0, 0);
    assert!(old.end().0.success());
    assert!(!of_old.exists());
    assert!(new.stop().success());
}

#[test]
fn log_lines_are_json_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, _) = serve(dir.path(), &["--log-format", "text"]);
    let line = server.wait_for("listening on");
    assert!(line.contains("Z INFO edge-server: listening on"), "{line}");
    assert!(server.stop().success());

    let root = dir.path().to_str().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--log-format", "json"];
    let mut server = Running::start(&mut server_command(&args));
    server.wait_for("listening on");
    server.ask_to_stop();
    let (status, said) = server.end();
    assert!(status.success());
    for line in said {
        let line: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"edge-server".into()));
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}
