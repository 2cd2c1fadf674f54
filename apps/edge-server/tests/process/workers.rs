//! Several workers on one address.

use std::path::Path;
use std::process::Command;

use crate::support::metrics;
use crate::support::nat::start_nat;
use crate::support::process::build_library;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;

const TWO_WORKERS: [&str; 8] = [
    "--listen",
    "127.0.0.1:0",
    "--root",
    ".",
    "--speedtest",
    "--metrics",
    "127.0.0.1:0",
    "--workers=2",
];

/// Downloads `bytes` bytes `repeat` times, each on a connection of its own.
pub fn download(from: impl std::fmt::Display, bytes: usize, repeat: usize) {
    let url = format!("https://{from}/bytes/{bytes}");
    let mut client = Command::new(sibling("edge-client"));
    let client = client.args([&url, "--insecure", "--json", "--repeat", &repeat.to_string()]);
    let output = client.output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let whole = format!("\"bytes\":{bytes},");
    assert!(output.status.success(), "{lines}");
    assert_eq!(lines.lines().filter(|line| line.contains(&whole)).count(), repeat, "{lines}");
}

#[test]
fn workers_share_connections_evenly() {
    const CONNECTIONS: usize = 100;
    let mut server = Running::start(&mut server_command(&TWO_WORKERS));
    let metrics = server.metrics_address();
    download(server.address(), 1000, CONNECTIONS);

    let accepted = ["0", "1"].map(|worker| {
        metrics::read(metrics, &format!("edge_server_connections_total{{worker=\"{worker}\"}}"))
    });
    assert_eq!(accepted.iter().sum::<u64>(), CONNECTIONS as u64);
    // One in ten million runs of even odds goes beyond.
    assert!(accepted.iter().all(|count| *count >= 23), "{accepted:?}");
    assert!(server.stop().success());
}

/// Clients whose address changes during a download, one after the other, so many that
/// some of them would come to the other worker's socket by their new address.
fn change_addresses_amid_downloads(server: &mut Running) {
    const CLIENTS: usize = 6;
    let (address, metrics) = (server.address(), server.metrics_address());
    for _ in 0..CLIENTS {
        download(start_nat(address, 60), 4_000_000, 1);
    }
    assert_eq!(metrics::read(metrics, "edge_server_connections_total"), CLIENTS as u64);
}

#[test]
fn worker_keeps_a_client_that_moves() {
    let mut server = Running::start(&mut server_command(&TWO_WORKERS));
    change_addresses_amid_downloads(&mut server);
    assert_eq!(server.count("does not steer"), 0);
}

/// A library that, loaded before all others, has the kernel refuse programs for
/// groups of sockets, as a container's rules may.
fn refuse_socket_programs(dir: &Path) -> std::path::PathBuf {
    const SOURCE: &str = "\
        #define _GNU_SOURCE\n\
        #include <errno.h>\n\
        #include <sys/socket.h>\n\
        #include <sys/syscall.h>\n\
        #include <unistd.h>\n\
        int setsockopt(int fd, int level, int name, const void *value, socklen_t length) {\n\
            if (level == SOL_SOCKET && name == SO_ATTACH_REUSEPORT_CBPF) {\n\
                errno = EPERM;\n\
                return -1;\n\
            }\n\
            return syscall(SYS_setsockopt, fd, level, name, value, length);\n\
        }\n";
    build_library(dir, SOURCE)
}

#[test]
fn workers_pass_packets_on_without_steering() {
    let dir = tempfile::tempdir().unwrap();
    let library = refuse_socket_programs(dir.path());
    let mut server = Running::start(server_command(&TWO_WORKERS).env("LD_PRELOAD", library));
    server.wait_for("does not steer packets");
    change_addresses_amid_downloads(&mut server);
}

#[test]
fn worker_alone_needs_no_steering() {
    let args = ["--listen", "127.0.0.1:0", "--root", ".", "--workers", "1"];
    let mut server = Running::start(&mut server_command(&args));
    server.address();
    assert_eq!(server.count("does not steer"), 0);
}

#[test]
fn address_is_not_shared_with_another_server() {
    let mut server = Running::start(&mut server_command(&TWO_WORKERS));
    let address = server.address().to_string();
    for workers in ["1", "2"] {
        let args = ["--listen", &address, "--root", ".", "--workers", workers];
        let (status, said) = Running::start(&mut server_command(&args)).end();
        assert_eq!(status.code(), Some(1));
        assert!(said.len() == 1 && said[0].contains(&address), "{said:?}");
    }
}
