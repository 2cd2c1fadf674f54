//! The servers of the examples, in Rust and in C, jump for a client that comes again.

mod program;

use std::path::PathBuf;
use std::process::Command;

use program::Program;

/// The folder of what cargo has built beside this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// Downloads twice over a path of 20 Mbit/s and 60 ms. The second download must jump, which
/// `jumped` in the server's output tells.
fn assert_second_download_jumps(server: &mut Command, jumped: &str) {
    let server = Program::start(server);
    let address = server.wait_for("listening on ");
    let path = ["--rate", "20", "--rtt", "60", "--buffer", "150000", "--listen", "127.0.0.1:0"];
    let mut emulator = Command::new(built().join("link-emulator"));
    let emulator = Program::start(emulator.args(path).args(["--to", &address]));
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
    assert_second_download_jumps(server.arg("127.0.0.1:0"), "Unvalidated");
}

#[test]
fn c_server_second_download_jumps() {
    let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/../quiche/examples/cert");
    let mut server = Command::new(built().join("examples/resuming_server_c"));
    server.args(["0", &format!("{pem}.crt"), &format!("{pem}.key")]);
    assert_second_download_jumps(&mut server, "phase 2,");
}
