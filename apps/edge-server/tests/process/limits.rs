//! Limits that memory and warnings show. The others are tested in memory:
//! `worker/tests/limits.rs`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::server_command;
use crate::support::process::Running;
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

// At a small part of the defaults: connections that keep as much as they can take no more than that
// part of what the documentation says.
#[test]
fn connections_that_keep_much_stay_below_the_documented_worst_case() {
    const PAGE: &str = include_str!("../../../../docs/edge-server/security-and-limits.md");
    const CONNECTIONS: usize = 60;
    const CONNECTIONS_DEFAULT: usize = 20_000;
    let part = |of_all: usize| of_all / (CONNECTIONS_DEFAULT / CONNECTIONS);
    let (_, rest) = PAGE.split_once("| **all** | | **").unwrap();
    let (megabytes, _) = rest.split_once(" MB").unwrap();
    let bytes_max = part(megabytes.parse::<usize>().unwrap() * 1_000_000);
    let responses_max = part(1 << 30).to_string();
    let dir = tempfile::tempdir().unwrap();
    let args = ["--speedtest", "--responses-memory-max", &responses_max];
    let (server, address, metrics_at) = serve_measured(dir.path(), &args);
    let before_kib = server.memory_kib("VmHWM");
    let clients = (0..CONNECTIONS).map(|_| {
        let mut client = UdpClient::connect(address);
        // Opens the congestion window.
        client.get("/bytes/400000");
        client.settle();
        client
    });
    let mut clients: Vec<_> = clients.collect();
    for client in &mut clients {
        client.request("GET", "/bytes/20000000");
        client.await_unanswered();
    }
    let growth = (server.memory_kib("VmHWM") - before_kib) << 10;
    let kept = metrics::read(metrics_at, "edge_server_kept_bytes{what=\"responses\"}") as usize;
    let evictions = metrics::read(metrics_at, "edge_server_evictions_total");
    println!("{growth} of {bytes_max} bytes, {kept} of responses; {evictions} connections closed");
    assert!(growth < bytes_max && kept <= part(1 << 30) && evictions > 0);
}

// Each listener has workers of its own.
#[test]
fn idle_connection_of_another_listener_makes_room() {
    const CONNECTIONS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0", "--workers", "1"];
    let max = CONNECTIONS.to_string();
    let limits = ["--connections-max", &max, "--connections-per-subnet", &max];
    let root = ["--root", dir.path().to_str().unwrap()];
    let connect = |from: [u8; 4], to| {
        let mut client = UdpClient::connect_from(from.into(), to, ClientLimits::default());
        assert_eq!(client.get("/none").status(), "404");
        client.settle();
        client
    };
    for full in [0, 1] {
        let mut server = Running::start(&mut server_command(&[&args[..], &limits, &root].concat()));
        let addresses = [0, 1].map(|before| {
            let line = server.wait_for_another("listening on ", before);
            line.rsplit_once("listening on ").unwrap().1.parse::<SocketAddr>().unwrap()
        });
        let full_at = addresses[full];
        let _idle: Vec<_> = (0..CONNECTIONS).map(|_| connect([127, 1, 1, 1], full_at)).collect();
        // Longer than a connection has to be idle.
        thread::sleep(Duration::from_millis(1500));
        connect([127, 2, 2, 2], addresses[1 - full]);
        assert!(server.stop().success());
    }
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

#[test]
fn budget_below_what_a_connection_may_keep_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("edge.toml");
    let warning = "--responses-memory-max 33554431 is less than --send-buffer-max 33554432";
    let (too_little, enough) = ("33554431", "33554432");
    let set = |bytes| fs::write(&config, format!("[server]\nresponses-memory-max = {bytes}"));
    let args = ["--config", config.to_str().unwrap(), "--resume", "off"];
    let root = dir.path().to_str().unwrap();
    let start = ["--listen", "127.0.0.1:0", "--check", "--root", root];
    for (bytes, warnings) in [(enough, 0), (too_little, 1)] {
        set(bytes).unwrap();
        let mut check = Running::start(&mut server_command(&[&start[..], &args].concat()));
        let (status, said) = check.end();
        assert!(status.success());
        assert_eq!(said.iter().filter(|line| line.contains(warning)).count(), warnings);
    }
    let (mut server, ..) = serve_measured(dir.path(), &args);
    assert_eq!(server.count(warning), 1);
    server.ask_to_reload();
    server.wait_for_another(warning, 1);
}

#[test]
fn evictions_leave_a_line_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--speedtest", "--workers", "1", "--responses-memory-max", "1048576"];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    // All open their congestion windows before the first keeps anything.
    let mut clients: Vec<_> = (0..40).map(|_| client_with_open_window(address)).collect();
    for client in &mut clients {
        client.request("GET", "/bytes/20000000");
        client.await_unanswered();
    }
    let line = server.wait_for("closed the largest of the subnet that keeps most");
    assert!(line.contains(" WARN ") && line.contains("--responses-memory-max"), "{line}");
    let evictions = metrics::read(metrics_at, "edge_server_evictions_total");
    assert!(evictions > 1);
    // Those after the first line are told at the end.
    server.ask_to_stop();
    let (_, said) = server.end();
    let counts = said.iter().filter_map(|line| line.split_once("since the last such line: "));
    let counts = counts.map(|(_, rest)| rest.split(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), evictions, "{said:?}");
}

fn client_with_open_window(address: SocketAddr) -> UdpClient {
    let mut client = UdpClient::connect(address);
    client.get("/bytes/400000");
    client.settle();
    client
}

const DESCRIPTORS: usize = 64;

/// Serves `root` with a limit of open files. Another server can take over at `root`/takeover.
fn serve_with_few_descriptors(root: &Path) -> (Running, SocketAddr) {
    serve_at(root, "127.0.0.1:0")
}

fn serve_at(root: &Path, listen: &str) -> (Running, SocketAddr) {
    let (takeover, root) = (root.join("takeover"), root.to_str().unwrap());
    // More than there are descriptors: none is kept for other subnets.
    let files = ["--open-files-max", "1000"];
    let args = [&["--listen", listen, "--workers", "1", "--root", root], &files[..]].concat();
    let mut server = server_command(&args);
    server.arg("--takeover").arg(takeover);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$@\""), "sh"]);
    let mut server = Running::start(command.arg(server.get_program()).args(server.get_args()));
    let address = server.address();
    (server, address)
}

/// Requests as many files as the server allows, and takes hardly anything of them.
fn hold(address: SocketAddr, path: impl Fn(u64) -> String) -> UdpClient {
    let limits = ClientLimits { window_bytes: 100_000, ..ClientLimits::default() };
    let mut client = UdpClient::connect_with(address, limits);
    for number in 0..client.requests_left() {
        client.request("GET", &path(number));
    }
    client.await_unanswered();
    client
}

#[test]
fn responses_with_one_file_share_a_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "home").unwrap();
    std::fs::write(dir.path().join("file"), vec![7; 3_000_000]).unwrap();
    let (_server, address) = serve_with_few_descriptors(dir.path());
    let holder = hold(address, |_| "/file".to_owned());
    assert!(holder.requests_left() == 0);
    assert_eq!(UdpClient::connect(address).get("/").body, b"home");
}

/// Serves `root` to a client that holds all file descriptors for content.
fn serve_without_descriptors(root: &Path) -> (Running, SocketAddr, UdpClient) {
    std::fs::write(root.join("index.html"), "home").unwrap();
    for number in 0..DESCRIPTORS {
        std::fs::write(root.join(number.to_string()), vec![7; 3_000_000]).unwrap();
    }
    let (server, address) = serve_with_few_descriptors(root);
    let holder = hold(address, |number| format!("/{number}"));
    (server, address, holder)
}

// The client has half of the open files that responses may have, and so gets no more. Another one, of another subnet,
// has the rest; so one of the two is closed when a third has one open.
#[test]
fn open_files_are_shared_by_subnets() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "home").unwrap();
    for number in 0..100 {
        std::fs::write(dir.path().join(number.to_string()), vec![7; 3_000_000]).unwrap();
    }
    let args = ["--workers", "1", "--open-files-max", "40"];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    let open = || metrics::read(metrics_at, "edge_server_files_open ");
    let _first = hold(address, |number| format!("/{number}"));
    assert_eq!(open(), 20);
    assert_eq!(UdpClient::connect(address).get("/").status(), "503");
    server.wait_for("get 503: a subnet has half of --open-files-max open");
    let connect_from = |from: [u8; 4]| {
        let limits = ClientLimits { window_bytes: 100_000, ..ClientLimits::default() };
        UdpClient::connect_from(from.into(), address, limits)
    };
    let elsewhere = |subnet| connect_from([127, 0, subnet, 1]);
    // A neighbour has fewer.
    assert_eq!(connect_from([127, 0, 0, 2]).get("/").body, b"home");
    let mut second = elsewhere(1);
    assert_eq!(second.get("/").body, b"home");
    for number in 30..50 {
        second.request("GET", &format!("/{number}"));
    }
    second.await_unanswered();
    let evictions = "edge_server_evictions_total{what=\"files\"}";
    assert_eq!((open(), metrics::read(metrics_at, evictions)), (40, 0));
    let mut third = elsewhere(2);
    assert_eq!(third.get("/").body, b"home");
    third.request("GET", "/60");
    third.await_unanswered();
    metrics::wait_until(metrics_at, evictions, |count| count == 1);
    assert!(open() <= 40);
}

#[test]
fn requests_without_a_descriptor_get_503() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, mut holder) = serve_without_descriptors(dir.path());
    let mut client = UdpClient::connect(address);
    let response = client.get("/");
    assert_eq!((response.status(), &response.body[..]), ("503", &b"503 Service Unavailable\n"[..]));
    server.wait_for("raise the limit of open files");
    holder.close();
    while client.get("/").body != b"home" {}
    assert!(server.stop().success());
}

#[test]
fn server_without_a_descriptor_for_requests_hands_over() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, mut holder) = serve_without_descriptors(dir.path());
    server.wait_for("raise the limit of open files");

    let (mut new, _) = serve_at(dir.path(), &address.to_string());
    assert_eq!(UdpClient::connect(address).get("/").body, b"home");
    holder.close();
    assert!(server.end().0.success());
    assert!(new.stop().success());
}
