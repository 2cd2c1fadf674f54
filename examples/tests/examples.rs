//! The servers of the examples, in Rust and in C, jump for a client that comes again.

mod program;

use std::path::PathBuf;
use std::process::Command;

use program::Program;

/// Certificate and key of quiche's own examples.
const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../quiche/examples/cert.crt");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../quiche/examples/cert.key");

/// The folder of what cargo has built beside this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// Downloads twice over a path of 20 Mbit/s and 60 ms to `address`. The second download must jump,
/// which `jumped` in the server's output tells.
fn assert_second_download_jumps(server: &Program, address: &str, jumped: &str) {
    let path = ["--rate", "20", "--rtt", "60", "--buffer", "150000"];
    let (host, _) = address.rsplit_once(':').unwrap();
    let mut emulator = Command::new(built().join("link-emulator"));
    emulator.args(path).args(["--listen", &format!("{host}:0"), "--to", address]);
    let emulator = Program::start(&mut emulator);
    let emulated = emulator.wait_for("listening on ");
    for visit in [1, 2] {
        let mut client = Command::new(built().join("edge-client"));
        let url = format!("https://{emulated}/");
        let done = client.args([&url, "--insecure", "--json"]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("4000000"), "{visit}: {done:?}");
        if visit == 2 {
            server.wait_for(jumped);
        }
    }
}

#[test]
fn rust_server_second_download_jumps() {
    let mut server = Command::new(built().join("examples/resuming_server"));
    let server = Program::start(server.arg("127.0.0.1:0"));
    let address = server.wait_for("listening on ");
    assert_second_download_jumps(&server, &address, "Unvalidated");
}

/// Returns the command of the server in C, for any port, with a certificate and its key.
fn c_server(cert: &str, key: &str) -> Command {
    let mut server = Command::new(built().join("examples/resuming_server_c"));
    server.args(["0", cert, key]);
    server
}

fn assert_c_server_jumps(host: &str) {
    let server = Program::start(&mut c_server(CERT, KEY));
    let port = server.wait_for("listening on port ");
    assert_second_download_jumps(&server, &format!("{host}:{port}"), "phase 2,");
}

#[test]
fn c_server_second_download_jumps() {
    assert_c_server_jumps("127.0.0.1");
}

#[test]
fn c_server_second_download_over_ipv6_jumps() {
    assert_c_server_jumps("[::1]");
}

#[test]
fn c_server_names_an_unreadable_file() {
    for (cert, key) in [("no-such.crt", KEY), (CERT, "no-such.key")] {
        let done = c_server(cert, key).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.starts_with("error: no-such.") && said.lines().count() == 1, "{said}");
        assert_eq!(done.status.code(), Some(1));
    }
}
