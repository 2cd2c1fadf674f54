//! Input that the server cannot use: one line, and the exit code.

use std::fs;
use std::net::TcpListener;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::mknodat;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::fs::CWD;

use crate::support::certify::certify;
use crate::support::client::UdpClient;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

/// User without rights of its own.
const NOBODY: u32 = 65_534;

/// Runs the server to its end, of which it says why in one line.
fn assert_refused(args: &[&str], code: i32, named: &str) {
    let (status, said) = Running::start(&mut server_command(args)).end();
    assert_eq!(status.code(), Some(code), "{args:?}: {said:?}");
    assert_eq!(said.len(), 1, "{args:?}: {said:?}");
    assert!(said[0].starts_with("edge-server: "), "{args:?}: {said:?}");
    assert!(said[0].contains(named), "{args:?}: {said:?}");
}

#[test]
fn bad_input_gives_one_line_and_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (root, file, missing) = (path(""), path("file"), path("missing"));
    fs::write(&file, "no certificate").unwrap();
    let open = path("open");
    fs::write(&open, "5e".repeat(32)).unwrap();
    fs::set_permissions(&open, PermissionsExt::from_mode(0o666)).unwrap();
    let long = path(&"x".repeat(100));
    let (in_missing, in_file) = (path("missing/paths.db"), path("file/paths.db"));

    let start = ["--listen", "127.0.0.1:0", "--root", &root];
    let with = |more: &[&'static str]| [&start[..], more].concat();
    let table: Vec<(Vec<&str>, i32, &str)> = vec![
        (with(&["--frobnicate"]), 2, "--frobnicate"),
        (with(&["--cc", "vegas"]), 2, "vegas"),
        (with(&["--slow-start-exit", "search-4"]), 2, "search-4"),
        (vec!["--listen", "127.0.0.1:0"], 2, "--root"),
        (vec!["--listen", "localhost", "--root", &root], 2, "localhost"),
        ([&start[..], &["--cert", &file]].concat(), 2, "--key"),
        ([&start[..], &["--key", &file]].concat(), 2, "--cert"),
        (vec!["--listen", "127.0.0.1:0", "--root", &missing], 2, &missing),
        (vec!["--listen", "127.0.0.1:0", "--root", &file], 2, &file),
        ([&start[..], &["--cert", &missing, "--key", &file]].concat(), 2, &missing),
        ([&start[..], &["--cert", &file, "--key", &missing]].concat(), 2, &missing),
        ([&start[..], &["--cert", &file, "--key", &file]].concat(), 2, &file),
        ([&start[..], &["--store", &in_missing]].concat(), 2, &in_missing),
        ([&start[..], &["--store", &in_file]].concat(), 2, &in_file),
        ([&start[..], &["--store", &root]].concat(), 2, &root),
        ([&start[..], &["--store", "ftp://host/x"]].concat(), 2, "ftp:"),
        ([&start[..], &["--qlog-dir", &in_file]].concat(), 2, &in_file),
        ([&start[..], &["--acme-dir", &in_file]].concat(), 2, &in_file),
        ([&start[..], &["--acme-dir", &root, "--acme-ca", &missing]].concat(), 2, &missing),
        ([&start[..], &["--acme-dir", &root, "--acme-ca", &file]].concat(), 2, &file),
        (
            [&start[..], &["--acme-dir", &root, "--acme-directory", "http://ca/"]].concat(),
            2,
            "http:",
        ),
        ([&start[..], &["--acme-dir", &root, "--acme-external-account", &file]].concat(), 2, &file),
        ([&start[..], &["--secrets", &missing]].concat(), 2, &missing),
        ([&start[..], &["--secrets", &file]].concat(), 2, "line 1"),
        ([&start[..], &["--secrets", &open]].concat(), 2, "(mode 0666)"),
        ([&start[..], &["--hash-keys", &file]].concat(), 2, "line 1"),
        ([&start[..], &["--access-log", &in_missing]].concat(), 2, &in_missing),
        ([&start[..], &["--takeover", &in_missing]].concat(), 2, &in_missing),
        ([&start[..], &["--takeover", &file]].concat(), 2, &file),
        ([&start[..], &["--takeover", &long]].concat(), 2, "longer than 103 bytes"),
        ([&start[..], &["--admin", &long, "--takeover", &long]].concat(), 2, "the same path"),
        ([&start[..], &["--admin", &long]].concat(), 2, "longer than 103 bytes"),
        ([&start[..], &["--admin", &in_missing]].concat(), 2, &in_missing),
    ];
    for (args, code, named) in table {
        assert_refused(&args, code, named);
        assert_refused(&[&args[..], &["--check"]].concat(), code, named);
    }
    // What uses the address may end, and the host may get one later.
    for address in [taken.as_str(), "192.0.2.1:0"] {
        assert_refused(&["--listen", address, "--root", &root], 1, address);
    }
}

// A FIFO to which nobody writes.
#[test]
fn file_without_an_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let fifo = dir.join("fifo").to_str().unwrap().to_owned();
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    certify(dir, "cert");
    let (cert, config) = (dir.join("cert.pem"), dir.join("edge.toml"));
    let (cert, config) = (cert.to_str().unwrap(), config.to_str().unwrap());
    let root = dir.to_str().unwrap();
    let start = ["--listen", "127.0.0.1:0", "--root", root, "--check"];
    for args in [
        &["--secrets", &fifo][..],
        &["--hash-keys", &fifo],
        &["--cert", &fifo, "--key", &fifo],
        &["--cert", cert, "--key", &fifo],
        &["--client-ca", &fifo],
        &["--ech-keys", &fifo],
        &["--acme-dir", root, "--acme-ca", &fifo],
        &["--acme-dir", root, "--acme-external-account", &fifo],
        &["--config", &fifo],
    ] {
        let args = [&start[..], args].concat();
        assert_refused(&args, 2, "it is no regular file");
        assert_refused(&args, 2, &fifo);
    }
    for table in [
        "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 8\nkey = 'FIFO'\n",
        "[[host]]\ncert = 'FIFO'\nkey = 'FIFO'\n",
        "[[host]]\naccess = [{ basic-auth = 'FIFO' }]\n",
        "[[host]]\naccess = [{ signed-url = 'FIFO' }]\n",
        "[[host]]\norigin = [{ url = 'https://a', ca = 'FIFO' }]\n",
    ] {
        fs::write(config, table.replace("FIFO", &fifo)).unwrap();
        assert_refused(&[&start[..], &["--config", config]].concat(), 2, "it is no regular file");
    }
}

#[test]
fn unusable_value_of_the_file_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (config, root) = (dir.path().join("edge.toml"), dir.path().display());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp, tcp) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    for (option, value, code) in [
        ("store", format!("{root}/missing/paths.db"), 2),
        ("qlog-dir", config.to_str().unwrap().to_owned() + "/logs", 2),
        ("acme-dir", config.to_str().unwrap().to_owned() + "/acme", 2),
        ("access-log", format!("{root}/missing/log"), 2),
        ("admin", format!("{root}/missing/socket"), 2),
        ("takeover", format!("{root}/missing/socket"), 2),
        ("listen", "192.0.2.1:443".to_owned(), 1),
        ("metrics", "192.0.2.1:9100".to_owned(), 1),
        ("listen", udp.to_string(), 1),
        ("metrics", tcp.to_string(), 1),
    ] {
        let listen = if option == "listen" { "" } else { "listen = '127.0.0.1:0'" };
        let text = format!("[server]\n{option} = '{value}'\nroot = '{root}'\n{listen}\n");
        fs::write(&config, text).unwrap();
        let place = "edge.toml: line 2, column 1: ";
        let start = ["--config", config.to_str().unwrap()];
        assert_refused(&start, code, place);
        assert_refused(&start, code, &value);
        if value.starts_with('/') {
            assert_refused(&[&start[..], &["--check"]].concat(), code, place);
        }
    }
}

#[test]
fn paths_that_share_a_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("folder")).unwrap();
    fs::write(dir.join("secrets"), "5e".repeat(32)).unwrap();
    fs::write(dir.join("edge.toml"), "").unwrap();
    let hosts = "[[host]]\nnames = ['a']\ncert = 'a.pem'\nkey = 'a.key'\n\
                 access = [{ basic-auth = 'users' }, { signed-url = 'signers' }]\n";
    fs::write(dir.join("hosts.toml"), hosts).unwrap();
    symlink("a.db", dir.join("link")).unwrap();
    symlink("link", dir.join("link-to-link")).unwrap();
    symlink("folder", dir.join("other-folder")).unwrap();
    let start = ["--listen", "127.0.0.1:0", "--root", "."];
    fs::hard_link(dir.join("edge.toml"), dir.join("hard-link")).unwrap();
    for paths in [
        ["--admin", "s", "--takeover", "./s.7"],
        ["--store", "a.db", "--access-log", "a.db-wal"],
        ["--config", "edge.toml", "--access-log", "hard-link"],
        ["--admin", "s", "--takeover", "./s"],
        ["--store", "a.db", "--access-log", "./a.db"],
        ["--store", "link-to-link", "--access-log", "a.db"],
        ["--store", "folder/a.db", "--access-log", "other-folder/../folder/a.db"],
        ["--qlog-dir", "logs", "--access-log", "logs"],
        ["--qlog-dir", "new/logs", "--access-log", "./new/./logs"],
        ["--secrets", "secrets", "--access-log", "secrets"],
        ["--config", "edge.toml", "--access-log", "./edge.toml"],
        ["--client-ca", "ca.pem", "--access-log", "ca.pem"],
        ["--client-ca", "ca.pem", "--store", "ca.pem"],
        ["--config", "hosts.toml", "--access-log", "users"],
        ["--config", "hosts.toml", "--access-log", "signers"],
        ["--config", "hosts.toml", "--store", "a.key"],
        ["--config", "hosts.toml", "--takeover", "./a.pem"],
    ] {
        for check in [&[][..], &["--check"]] {
            let mut command = server_command(&[&start[..], &paths, check].concat());
            let (status, said) = Running::start(command.current_dir(dir)).end();
            assert_eq!((status.code(), said.len()), (Some(2), 1), "{paths:?}: {said:?}");
            assert!(said[0].ends_with("; name two"), "{said:?}");
            let other = if paths[1] == "hosts.toml" { "of [[host]] a and" } else { paths[0] };
            assert!(said[0].contains(other) && said[0].contains(paths[2]), "{said:?}");
        }
    }
    // What is read may be read twice.
    certify(dir, "both");
    let [chain, key] = ["both.pem", "both.key"].map(|name| fs::read(dir.join(name)).unwrap());
    fs::write(dir.join("both"), [chain, key].concat()).unwrap();
    let paths = ["--cert", "both", "--key", "both", "--access-log", "-", "--check"];
    let mut command = server_command(&[&start[..], &paths].concat());
    assert!(Running::start(command.current_dir(dir)).end().0.success());
}

#[test]
fn private_file_below_a_root_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("www")).unwrap();
    certify(dir, "a");
    let check = ["--listen", "127.0.0.1:0", "--cert", "a.pem", "--key", "a.key", "--check"];
    for (root, is_warned) in [("www", false), (".", true)] {
        let args = [&check[..], &["--root", root, "--access-log", "www/../log"]].concat();
        let (status, said) = Running::start(server_command(&args).current_dir(dir)).end();
        assert!(status.success(), "{said:?}");
        for option in ["--key", "--access-log"] {
            let warns = |line: &String| line.contains(option) && line.contains("can download");
            assert_eq!(said.iter().any(warns), is_warned, "{option}: {said:?}");
        }
    }
}

#[test]
fn path_that_others_may_write_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("www")).unwrap();
    fs::create_dir(dir.join("run")).unwrap();
    fs::write(dir.join("edge.toml"), "").unwrap();
    for (folder, file, is_warned) in [(0o755, 0o644, false), (0o777, 0o666, true)] {
        fs::set_permissions(dir.join("run"), PermissionsExt::from_mode(folder)).unwrap();
        fs::set_permissions(dir.join("edge.toml"), PermissionsExt::from_mode(file)).unwrap();
        let args = ["--listen", "127.0.0.1:0", "--root", "www", "--config", "edge.toml", "--check"];
        let args = [&args[..], &["--admin", "run/admin", "--acme-dir", "run"]].concat();
        let (status, said) = Running::start(server_command(&args).current_dir(dir)).end();
        assert!(status.success(), "{said:?}");
        for option in ["--admin", "--acme-dir", "--config"] {
            let warns = |line: &String| line.contains(option) && line.contains("other users may");
            assert_eq!(said.iter().any(warns), is_warned, "{option}: {said:?}");
        }
    }
}

/// To run without rights takes root; others skip this.
#[test]
fn privileged_port_is_no_error_of_the_configuration() {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let is_open = first.is_ok_and(|port| port.trim().parse() == Ok(0));
    if !rustix::process::geteuid().is_root() || is_open {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_edge-server"), dir.join("edge-server")).unwrap();
    let high = ["--listen", "127.0.0.1:0"];
    for option in [
        &["--listen", "127.0.0.1:7"][..],
        &["--http", "127.0.0.1:7"],
        &["--metrics", "127.0.0.1:7"],
    ] {
        let high = if option[0] == "--listen" { &[][..] } else { &high };
        let mut command = Command::new(dir.join("edge-server"));
        command.args([&["--root", "."], high, option].concat()).current_dir(dir);
        let (status, said) = Running::start(command.uid(NOBODY).gid(NOBODY)).end();
        assert_eq!(status.code(), Some(1), "{option:?}: {said:?}");
        assert!(said.last().unwrap().contains("Permission denied"), "{said:?}");
    }
}

/// To run without rights takes root; others skip this.
#[test]
fn path_that_cannot_be_written_is_refused_by_check() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_edge-server"), dir.join("edge-server")).unwrap();
    fs::create_dir(dir.join("www")).unwrap();
    fs::create_dir(dir.join("roots")).unwrap();
    fs::write(dir.join("roots.db"), "").unwrap();
    // A server that was root has left its socket there.
    let _socket = UnixListener::bind(dir.join("roots/socket")).unwrap();
    let _other = UnixListener::bind(dir.join("roots-socket")).unwrap();
    fs::set_permissions(dir.join("roots/socket"), PermissionsExt::from_mode(0o777)).unwrap();
    fs::set_permissions(dir.join("roots-socket"), PermissionsExt::from_mode(0o600)).unwrap();
    for (option, path, reason) in [
        ("--store", "roots/new.db", Some("cannot write the store")),
        ("--store", "roots.db", Some("cannot write the store")),
        ("--store", "new.db", None),
        ("--admin", "roots/socket", Some("name a socket in a writable folder")),
        ("--takeover", "roots/socket", Some("name a socket in a writable folder")),
        ("--admin", "roots-socket", Some("another user's socket is there")),
        ("--takeover", "roots-socket", Some("another user's socket is there")),
        ("--admin", "socket", None),
    ] {
        let mut command = Command::new(dir.join("edge-server"));
        command.args(["--listen", "127.0.0.1:0", "--root", "www", "--check", option, path]);
        let (status, said) = Running::start(command.current_dir(dir).uid(NOBODY).gid(NOBODY)).end();
        let code = reason.map_or(0, |_| 2);
        assert_eq!(status.code(), Some(code), "{option} {path}: {said:?}");
        assert!(reason.is_none_or(|reason| said[0].contains(reason)), "{said:?}");
    }
}

#[test]
fn takeover_at_an_admin_socket_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let socket = socket.to_str().unwrap();
    let (_server, _) = serve(dir.path(), &["--admin", socket]);
    let root = dir.path().to_str().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--takeover", socket];
    assert_refused(&args, 1, "is an admin socket");
}

#[test]
fn check_reads_everything_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let www = dir.path().join("www");
    fs::create_dir(&www).unwrap();
    let root = www.to_str().unwrap();
    let config = dir.path().join("edge.toml");
    let (store, qlogs) = (dir.path().join("paths.db"), dir.path().join("logs/of/now"));
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = format!(
        "[server]\nlisten = '{}'\nroot = '{root}'\nstore = '{}'\nqlog-dir = '{}'\n",
        taken.local_addr().unwrap(),
        store.display(),
        qlogs.display(),
    );
    let check = |hosts: &str| {
        fs::write(&config, format!("{options}{hosts}")).unwrap();
        let args = ["--check", "--config", config.to_str().unwrap()];
        let output = server_command(&args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    assert_eq!(check(""), (0, "ok\n".to_owned(), String::new()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the configuration and the root");

    let hosts = "[[host]]\nnames = ['a', 'b']\nerror = { 404 = '/gone.html' }\n";
    let (code, _, said) = check(hosts);
    assert_eq!((code, said.lines().count()), (0, 1), "{said}");
    let missing = format!(
        "--config {}: [[host]] a, line 6, column 1: error 404 = '/gone.html': no such file in \
         {root}; create it there; until then clients get a line of text\n",
        config.display()
    );
    assert!(said.ends_with(&missing), "{said}");
    fs::write(www.join("gone.html"), "gone").unwrap();
    assert_eq!(check(hosts), (0, "ok\n".to_owned(), String::new()));
}

#[test]
fn missing_error_page_is_warned_of_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("edge.toml");
    fs::write(&config, "[[host]]\nerror = { 404 = '/gone.html' }\n").unwrap();
    let (mut server, _) = serve(dir.path(), &["--config", config.to_str().unwrap()]);
    server.wait_for("line 1, column 1: error 404 = '/gone.html': no such file");
}

#[test]
fn damaged_store_is_set_aside_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("paths.db");
    fs::write(&store, "SQLite format 3\0, whatever comes after it".repeat(300)).unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();

    let (mut server, address) = serve(dir.path(), &["--store", store.to_str().unwrap()]);
    server.wait_for("WARN");
    assert_eq!(UdpClient::connect(address).get("/").body, b"home");
    assert!(server.stop().success());

    let names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("paths.db") && name != "paths.db")
        .collect();
    assert!(!names.is_empty(), "nothing was set aside");
    assert!(fs::read(&store).unwrap().starts_with(b"SQLite format 3"));
}

#[test]
fn options_without_effect_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let start = ["--listen", "127.0.0.1:0", "--root", dir.path().to_str().unwrap(), "--check"];
    for (options, warning) in [
        (
            ["--resume", "off", "--resume-share", "0.5"],
            Some("--resume off leaves --resume-share 0.5"),
        ),
        (["--resume", "on", "--resume-share", "0.5"], None),
        (
            ["--resume", "off", "--open-files-max", "4294967295"],
            Some("--open-files-max 4294967295"),
        ),
        (
            ["--header-bytes-max", "1048576", "--requests-memory-max", "3145727"],
            Some("--requests-memory-max 3145727 is less than the 3145728 bytes"),
        ),
        (["--header-bytes-max", "1048576", "--requests-memory-max", "3145728"], None),
        (["--state", "both", "--resume", "on"], Some("--state without --secrets")),
        (["--state", "store", "--resume", "on"], None),
        (
            ["--cc", "bbr2", "--slow-start-exit", "rapid"],
            Some("--cc bbr2 ignores --slow-start-exit rapid"),
        ),
        (["--cc", "bbr2", "--ecn", "l4s"], Some("--cc bbr2 ignores --ecn l4s")),
        (
            ["--cc", "bbr2", "--ecn-backoff", "alternative"],
            Some("--cc bbr2 ignores --ecn-backoff alternative"),
        ),
        (["--cc", "bbr2", "--ecn", "on"], None),
    ] {
        let output = server_command(&[&start[..], &options].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert_eq!(said.lines().count(), warning.iter().count(), "{said}");
        assert!(warning.is_none_or(|warning| said.contains(warning)), "{said}");
    }
}

#[test]
fn self_signed_certificate_is_announced() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, _) = serve(dir.path(), &[]);
    server.wait_for("self-signed certificate");
}

#[test]
fn certificate_for_another_host_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "a.example");
    let config = dir.path().join("edge.toml");
    let dir_name = dir.path().display();
    let host = format!(
        "[[host]]\nnames = ['b.example']\ncert = '{dir_name}/a.example.pem'\n\
         key = '{dir_name}/a.example.key'"
    );
    fs::write(&config, host).unwrap();
    let (mut server, _) = serve(dir.path(), &["--config", config.to_str().unwrap()]);
    server.wait_for("the certificate of b.example is for a.example only");
}
