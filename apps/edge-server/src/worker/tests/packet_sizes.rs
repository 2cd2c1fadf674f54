//! Packet sizes on paths that take larger or smaller ones than most.

use super::harness::Server;
use super::path::Offered;
use super::path::Path;

/// IPv4's and UDP's headers, in bytes.
const HEADERS: usize = 28;

/// Downloads `bytes` over a path that takes IP packets of `mtu` bytes. Returns what went to
/// the client.
fn packets_towards_the_client(mtu: u32, bytes: usize, args: &[&str]) -> Vec<Offered> {
    let server = Server::start(&[&["--speedtest"], args].concat());
    let path = Path::new(100.0, 20, 250_000).with_mtu(mtu);
    let mut client = server.client().over(&path).connect();
    assert_eq!(client.get(&format!("/bytes/{bytes}")).body.len(), bytes);
    client.datagrams().1
}

#[test]
fn packets_have_a_common_size_before_a_probe() {
    for (bytes, args, size) in [(1_000_000, &["--pmtud", "off"][..], 1350), (5000, &[], 1200)] {
        let packets = packets_towards_the_client(1500, bytes, args);
        let longest = packets.iter().map(|packet| packet.bytes).max();
        assert_eq!(longest, Some(size), "{bytes} {args:?}");
    }
}

// RFC 8899.
#[test]
fn packets_grow_to_what_the_path_takes() {
    for (mtu, smallest, largest) in
        [(1500, 1452 + HEADERS, 1452 + HEADERS), (1300, 1290, 1300), (1228, 1228, 1228)]
    {
        let packets = packets_towards_the_client(mtu, 1_000_000, &[]);
        let lost = packets.iter().filter(|packet| !packet.arrives).count();
        assert!(lost < 60, "{lost} of {} are lost at {mtu}", packets.len());
        let arrived = packets.iter().filter(|packet| packet.arrives);
        let found = arrived.map(|packet| packet.bytes + HEADERS).max().unwrap();
        assert!((smallest..=largest).contains(&found), "{mtu}: {found}");
    }
}
