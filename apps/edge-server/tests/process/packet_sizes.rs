//! Packet sizes on paths that take larger or smaller ones than most.

use std::path::Path;
use std::process::Command;

use crate::support::process::serve;
use crate::support::process::sibling;
use crate::support::process::Running;

/// Downloads `bytes` over a path that takes IP packets of `mtu` bytes. Returns the sizes, in
/// bytes, of those that went to the client, and whether each passed.
fn packets_towards_the_client(mtu: u32, bytes: u32, flags: &[&str]) -> Vec<(u32, bool)> {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.csv");
    let (_server, address) = serve(Path::new("."), &[&["--speedtest"], flags].concat());
    let mut emulator = Running::start(
        Command::new(sibling("link-emulator"))
            .args(["--listen", "127.0.0.1:0", "--to", &address.to_string()])
            .args(["--rate", "100", "--rtt", "20", "--buffer", "250000"])
            .args(["--mtu", &mtu.to_string(), "--trace", trace.to_str().unwrap()]),
    );
    let url = format!("https://{}/bytes/{bytes}", emulator.address());
    let client = Command::new(sibling("edge-client")).args([&url, "--insecure"]).output().unwrap();
    assert!(client.status.success(), "{client:?}");
    assert!(emulator.stop().success());

    let trace = std::fs::read_to_string(trace).unwrap();
    let mut rows = trace.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|title| *title == name).unwrap();
    let (direction, size, verdict) = (column("direction"), column("ip_bytes"), column("verdict"));
    rows.filter(|row| row[direction] == "down")
        .map(|row| (row[size].parse().unwrap(), row[verdict] == "delivered"))
        .collect()
}

/// IPv4's and UDP's headers, in bytes.
const HEADERS: u32 = 28;

#[test]
fn packets_have_a_size_that_most_paths_take_until_a_longer_one_is_worth_a_probe() {
    for (bytes, flags, size) in [(1_000_000, &["--pmtud", "off"][..], 1350), (5000, &[], 1200)] {
        let packets = packets_towards_the_client(1500, bytes, flags);
        let longest = packets.iter().map(|(size, _)| *size).max();
        assert_eq!(longest, Some(size + HEADERS), "{bytes} {flags:?}");
    }
}

// RFC 8899.
#[test]
fn the_largest_packets_that_a_path_takes_are_found() {
    for (mtu, smallest, largest) in
        [(1500, 1452 + HEADERS, 1452 + HEADERS), (1300, 1290, 1300), (1228, 1228, 1228)]
    {
        let packets = packets_towards_the_client(mtu, 1_000_000, &[]);
        let lost = packets.iter().filter(|(_, passed)| !passed).count();
        assert!(lost < 60, "{lost} of {} are lost at {mtu}", packets.len());
        let found = packets.iter().filter(|(_, passed)| *passed).map(|(size, _)| *size).max();
        assert!(
            found.is_some_and(|found| (smallest..=largest).contains(&found)),
            "{mtu}: {found:?}"
        );
    }
}
