//! Secrets that servers share by a file, also with one that is started again.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::client::Memory;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A server with these secrets.
fn serve_with(dir: &Path, secrets: &[&str]) -> (Running, SocketAddr) {
    fs::write(dir.join("index.html"), "home").unwrap();
    let file = dir.join("secrets");
    fs::write(&file, secrets.join("\n")).unwrap();
    serve(dir, &["--secrets", file.to_str().unwrap()])
}

#[test]
fn a_client_learns_at_once_that_the_server_was_killed() {
    for (started_with, learns) in [(&[ONE][..], true), (&[OTHER, ONE], true), (&[OTHER], false)] {
        let dir = tempfile::tempdir().unwrap();
        let (server, address) = serve_with(dir.path(), &[ONE]);
        let limits = Limits { idle_timeout_ms: 3000, ..Limits::default() };
        let mut client = Client::connect_with(address, limits);
        assert_eq!(client.get("/").body, b"home");
        drop(server);

        let file = dir.path().join("secrets");
        fs::write(&file, started_with.join("\n")).unwrap();
        let (address, root) = (address.to_string(), dir.path().to_str().unwrap());
        let mut server = Running::start(&mut server_command(&[
            "--listen",
            &address,
            "--root",
            root,
            "--secrets",
            file.to_str().unwrap(),
        ]));
        server.address();
        client.request("GET", "/");
        assert_eq!(client.is_reset(), learns, "{started_with:?}");
    }
}

#[test]
fn a_session_is_resumed_wherever_its_secret_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve_with(dir.path(), &[ONE]);
    let mut first = Client::connect(address);
    assert!(!first.is_resumed());
    let memory = Memory { token: None, ..first.memory() };

    for (secrets, resumes) in
        [(&[ONE][..], true), (&[OTHER, ONE], true), (&[ONE, OTHER], true), (&[OTHER], false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let (_server, address) = serve_with(dir.path(), secrets);
        let mut client = Client::connect_again(address, &memory);
        assert_eq!(client.is_resumed(), resumes, "{secrets:?}");
        assert_eq!(client.get("/").body, b"home");
    }
}

#[test]
fn a_server_without_a_file_knows_nothing_of_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let (_server, address) = serve(dir.path(), &[]);
    let memory = Memory { token: None, ..Client::connect(address).memory() };
    assert!(Client::connect_again(address, &memory).is_resumed());
    let (_server, address) = serve(dir.path(), &[]);
    assert!(!Client::connect_again(address, &memory).is_resumed());
}

#[test]
fn secrets_are_rotated_without_dropping_connections() {
    let [dir, other_dir] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (_server, address) = serve_with(dir.path(), &[ONE]);
    let (_other, other_address) = serve_with(other_dir.path(), &[OTHER]);
    let mut kept = Client::connect(address);
    let session = |client: &mut Client| Memory { token: None, ..client.memory() };
    let old = session(&mut kept);

    fs::write(dir.path().join("secrets"), format!("{OTHER}\n{ONE}")).unwrap();
    // It is read again within ten seconds.
    let is_rotated = (0..60).any(|_| {
        thread::sleep(Duration::from_millis(500));
        assert_eq!(kept.get("/").body, b"home");
        let new = session(&mut Client::connect(address));
        Client::connect_again(other_address, &new).is_resumed()
    });
    assert!(is_rotated);
    assert!(Client::connect_again(address, &old).is_resumed());
}
