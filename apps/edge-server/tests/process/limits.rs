//! Limits that memory and warnings show. The others are tested in memory:
//! `worker/tests/limits.rs`.

use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;
use crate::support::serve_measured;

// Many files at a time, of which the client acknowledges nothing.
#[test]
fn connection_holds_no_more_than_its_client_grants() {
    const WINDOW_BYTES: u64 = 1 << 20;
    const CLIENTS: usize = 20;
    const KIB_MAX: usize = (WINDOW_BYTES as usize >> 10) + 200;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![7; 3_000_000]).unwrap();
    let (server, address, _) = serve_measured(dir.path(), &["--workers", "1"]);
    let limits = ClientLimits { window_bytes: WINDOW_BYTES, ..ClientLimits::default() };
    let hold = || {
        let mut client = UdpClient::connect_with(address, limits);
        // Opens the congestion window.
        client.get("/file");
        for _ in 0..client.requests_left() {
            client.request("GET", "/file");
        }
        client.await_unanswered();
        client
    };
    let _first = hold();
    let before_kib = server.memory_kib("VmHWM");
    let _others: Vec<_> = (0..CLIENTS).map(|_| hold()).collect();
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    println!("{} KiB a connection", growth_kib / CLIENTS);
    assert!(growth_kib < CLIENTS * KIB_MAX, "{growth_kib} KiB");
}

#[test]
fn send_buffer_that_limits_jumps_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    for (send_buffer, warnings) in [("79999999", 1), ("80000000", 0)] {
        let args = ["--max-jump", "40000000", "--send-buffer-max", send_buffer];
        let (server, ..) = serve_measured(dir.path(), &args);
        let warning = format!("--send-buffer-max {send_buffer} limits what --max-jump 40000000");
        assert_eq!(server.count(&warning), warnings);
    }
}
