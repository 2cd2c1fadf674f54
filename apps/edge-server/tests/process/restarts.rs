//! Rotation of secrets that servers share by a file. What they are for is tested in memory:
//! `worker/tests/settings.rs`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::client::ResumptionData;
use crate::support::client::UdpClient;
use crate::support::process::serve;
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
fn secrets_rotate_without_dropping_connections() {
    let [dir, other_dir] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (_server, address) = serve_with(dir.path(), &[ONE]);
    let (_other, other_address) = serve_with(other_dir.path(), &[OTHER]);
    let mut kept = UdpClient::connect(address);
    let session =
        |client: &mut UdpClient| ResumptionData { token: None, ..client.resumption_data() };
    let old = session(&mut kept);

    fs::write(dir.path().join("secrets"), format!("{OTHER}\n{ONE}")).unwrap();
    // It is read again within ten seconds.
    let is_rotated = (0..60).any(|_| {
        thread::sleep(Duration::from_millis(500));
        assert_eq!(kept.get("/").body, b"home");
        let new = session(&mut UdpClient::connect(address));
        UdpClient::connect_again(other_address, &new).is_resumed()
    });
    assert!(is_rotated);
    assert!(UdpClient::connect_again(address, &old).is_resumed());
}
