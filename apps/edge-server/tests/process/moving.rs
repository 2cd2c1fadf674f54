//! A client whose address changes amid a download, as behind a NAT or from one
//! network to another.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::nat::start_nat;
use crate::support::process::serve;
use crate::support::process::sibling;
use crate::support::process::Running;

/// So many packets of the client pass under the first address.
const PACKETS_BEFORE: usize = 400;

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
    let nat = start_nat(emulator.address(), PACKETS_BEFORE);

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
