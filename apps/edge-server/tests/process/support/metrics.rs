//! Metrics page of a server, read.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::time::Duration;

const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 3000;

/// The sum of the samples whose names begin so.
pub fn read(at: SocketAddr, name: &str) -> u64 {
    let page = page(at, "/metrics");
    let samples = page.lines().filter(|line| line.starts_with(name));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The answer with a page beside the metrics, or with them. In a takeover there may be no listener for
/// a moment.
pub fn page(at: SocketAddr, path: &str) -> String {
    let connect = |_| TcpStream::connect(at).inspect_err(|_| std::thread::sleep(NAP)).ok();
    let mut stream = (0..NAPS_MAX).find_map(connect).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// Waits until that sum passes.
pub fn wait_until(at: SocketAddr, name: &str, passes: impl Fn(u64) -> bool) -> u64 {
    for _ in 0..NAPS_MAX {
        let sum = read(at, name);
        if passes(sum) {
            return sum;
        }
        std::thread::sleep(NAP);
    }
    panic!("{name} stays at {}", read(at, name));
}
