//! Processes of the programs under test, and an HTTP/3 client that sends what
//! a well-behaved one would not.

pub mod certify;
pub mod client;
pub mod flood;
#[expect(dead_code, reason = "a bench uses the rest")]
pub mod lab;
pub mod metrics;
pub mod nat;
pub mod process;
#[path = "../../../../path-store/tests/support/redis.rs"]
#[expect(dead_code, reason = "the tests of the stores use the rest")]
pub mod redis;
#[expect(dead_code, reason = "a bench uses nothing of it")]
pub mod tcp_client;
pub mod waiting;

use std::net::SocketAddr;
use std::path::Path;

use self::process::Running;

/// A server with metrics, and where both are.
pub fn serve_measured(root: &Path, more: &[&str]) -> (Running, SocketAddr, SocketAddr) {
    std::fs::write(root.join("index.html"), "home").unwrap();
    let args = [&["--metrics", "127.0.0.1:0"], more].concat();
    let (mut server, address) = process::serve(root, &args);
    let metrics_at = server.metrics_address();
    (server, address, metrics_at)
}
