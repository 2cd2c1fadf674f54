//! A client whose address changes amid a download, as behind a NAT or from one
//! network to another.

use std::fs;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::process::serve;
use crate::support::process::sibling;
use crate::support::process::Running;

/// So many packets of the client pass under the first address.
const PACKETS_BEFORE: usize = 400;

/// Relays one client to `server`, first from an address of 127.5.5.0/24 and
/// later from one of 127.6.6.0/24. Returns where the client sends to.
fn start_nat(server: SocketAddr) -> SocketAddr {
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    let outside = ["127.5.5.1:0", "127.6.6.1:0"].map(|local| {
        let socket = UdpSocket::bind(local).unwrap();
        socket.connect(server).unwrap();
        socket
    });
    thread::spawn(move || {
        let mut packet = [0; 2000];
        for count in 0.. {
            let (length, client) = inside.recv_from(&mut packet).unwrap();
            if count == 0 {
                for socket in &outside {
                    start_return(socket, &inside, client);
                }
            }
            let socket = &outside[usize::from(count >= PACKETS_BEFORE)];
            let _ = socket.send(&packet[..length]);
        }
    });
    address
}

fn start_return(outside: &UdpSocket, inside: &UdpSocket, client: SocketAddr) {
    let (outside, inside) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
    thread::spawn(move || {
        let mut packet = [0; 2000];
        while let Ok(length) = outside.recv(&mut packet) {
            let _ = inside.send_to(&packet[..length], client);
        }
    });
}

// RFC 9959, 2.2: what is saved is about one remote endpoint.
#[test]
fn what_is_learnt_of_another_subnets_path_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("www")).unwrap();
    let store = dir.path().join("paths.db");
    let args = ["--speedtest", "--store", store.to_str().unwrap()];
    let (mut server, address) = serve(&dir.path().join("www"), &args);
    let mut emulator = Running::start(Command::new(sibling("link-emulator")).args([
        "--listen",
        "127.0.0.1:0",
        "--to",
        &address.to_string(),
        "--rate",
        "50",
        "--rtt",
        "40",
        "--buffer",
        "250000",
    ]));
    let nat = start_nat(emulator.address());

    let url = format!("https://{nat}/bytes/60000000");
    let client = sibling("edge-client");
    let _client = Running::start(Command::new(client).args([&url, "--insecure"]));
    server.wait_for(": moved to 127.6.6.1");
    // What is learnt later would be recorded every second, and at the end.
    thread::sleep(Duration::from_millis(1200));
    assert!(server.stop().success());
    let said = server.end().1;
    let moved = said.iter().position(|line| line.contains(": moved to 127.6.6.1")).expect("moved");
    let late: Vec<_> = said[moved..].iter().filter(|line| line.contains(": records ")).collect();
    assert!(late.is_empty(), "{late:#?}");
}
