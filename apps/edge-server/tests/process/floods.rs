//! Floods of forged packets, briefly: that nothing breaks. What they cost is measured by
//! `make bench-flood`.

use std::net::SocketAddr;

use rustix::net;

use crate::support::client::UdpClient;
use crate::support::flood::Ammunition;
use crate::support::metrics;
use crate::support::serve_measured;

const INITIALS_PER_SECOND: u64 = 3000;
const DOWNLOADS: usize = 40;
const DOWNLOAD_BYTES: u32 = 1_000_000;

/// What half-open connections, and those that come meanwhile, may take.
const GROWTH_KIB_MAX: usize = 64 << 10;

const DATAGRAMS_PER_SEND: &str = "edge_server_datagrams_per_send_max{worker=\"0\"}";
const RETRIES: &str = "edge_server_retries_total{reason=\"handshakes\"}";

#[test]
fn flood_of_initials_harms_no_download() {
    let dir = tempfile::tempdir().unwrap();
    let contents: Vec<u8> = (0..DOWNLOAD_BYTES).flat_map(u32::to_be_bytes).collect();
    std::fs::write(dir.path().join("file"), &contents).unwrap();
    let args = ["--workers", "1", "--retry-above", "100", "--handshake-timeout", "3"];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    let mut client = UdpClient::connect(address);
    assert!(client.get("/file").body == contents);
    let before_kib = server.memory_kib("VmHWM");

    let flood = Ammunition::new(address, 1000).fire(address, INITIALS_PER_SECOND);
    metrics::wait_until(metrics_at, RETRIES, |retries| retries > 0);
    for _ in 0..DOWNLOADS {
        assert!(client.get("/file").body == contents, "a download during the flood");
        let mut other = UdpClient::connect(address);
        assert_eq!(other.get("/").body, b"home", "a client during the flood");
        other.close();
    }
    assert!(flood.end() > 0);
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    assert!(growth_kib < GROWTH_KIB_MAX, "the server took {growth_kib} KiB");

    metrics::wait_until(metrics_at, "edge_server_connections_open", |open| open == 1);
    let retries = metrics::read(metrics_at, RETRIES);
    assert_eq!(UdpClient::connect(address).get("/").body, b"home");
    assert_eq!(metrics::read(metrics_at, RETRIES), retries, "Retry goes on");
    client.close();
    assert!(server.stop().success());
}

/// The kernel refuses to send to port 0, as if the network device did not segment.
#[test]
fn datagrams_from_port_0_leave_segmentation_on() {
    let dir = tempfile::tempdir().unwrap();
    let (server, address, metrics_at) = serve_measured(dir.path(), &["--workers", "1"]);
    let mut client = UdpClient::connect(address);
    assert_eq!(client.get("/").body, b"home");
    let offered = metrics::read(metrics_at, DATAGRAMS_PER_SEND);
    if let Err(e) = send_from_port_0(address) {
        eprintln!("skipped, since raw sockets need CAP_NET_RAW: {e}");
        return;
    }
    assert_eq!(client.get("/").body, b"home");
    assert_eq!(metrics::read(metrics_at, DATAGRAMS_PER_SEND), offered);
    drop(server);
}

/// Sends a datagram that asks for a Version Negotiation packet.
fn send_from_port_0(to: SocketAddr) -> std::io::Result<()> {
    let quic =
        [&[0xc0, 0x0a, 0x0a, 0x0a, 0x0a, 8][..], &[1; 8], &[8], &[2; 8], &[0; 1200]].concat();
    let length = (8 + quic.len() as u16).to_be_bytes();
    let checksum = [0; 2];
    let datagram = [&[0; 2][..], &to.port().to_be_bytes(), &length, &checksum, &quic].concat();
    let udp = Some(net::ipproto::UDP);
    let raw = net::socket(net::AddressFamily::INET, net::SocketType::RAW, udp)?;
    net::sendto(raw, &datagram, net::SendFlags::empty(), &SocketAddr::new(to.ip(), 0))?;
    Ok(())
}
