//! The server on its sockets, and its end upon SIGINT. What it answers is tested in memory:
//! `worker/tests/http.rs`.

use std::fs;

use crate::support::client::UdpClient;
use crate::support::client::H3_NO_ERROR;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let contents: Vec<u8> = (0..25_000_u32).flat_map(u32::to_be_bytes).collect();
    fs::write(dir.path().join("file.bin"), &contents).unwrap();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let root = dir.path().to_str().unwrap();
        let command = &mut server_command(&["--listen", listen, "--root", root]);
        let mut server = Running::start(command);
        let port = server.address().port();
        // The client takes packets from the address it asked only.
        let mut client = UdpClient::connect(([127, 9, 8, 7], port).into());
        assert!(client.get("/file.bin").body == contents, "{listen}");
    }
}

#[test]
fn signal_closes_connections_and_ends_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &[]);
    let mut client = UdpClient::connect(address);
    client.get("/");
    assert!(server.stop().success());
    assert_eq!(client.closed(), H3_NO_ERROR);
}
