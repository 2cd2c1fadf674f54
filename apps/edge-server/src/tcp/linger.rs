//! Lingering close (RFC 9112, 9.6): the kernel discards what it has yet to send when a closed
//! connection gets more from its client, so it is closed after the client has received all, and has
//! nothing more to send.

use std::ffi::c_int;
use std::io;
use std::time::Duration;

use nix::libc;
use quiche::clock;
use rustix::ioctl::ioctl;
use rustix::ioctl::Getter;
use rustix::ioctl::Opcode;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::tcp::activity::STALLED_BYTES_PER_S;

/// How long a client may send nothing: more than a round trip of any path.
const QUIET: Duration = Duration::from_secs(2);

/// What has come from a client, and is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discarded {
    Bytes,
    Nothing,
    End,
}

/// Waits until a client has received what the kernel has for it, as long as that does not stall, and then
/// until it closes its end, is quiet, or `stall_time` has passed. What it sends is discarded.
pub async fn linger(stream: &TcpStream, stall_time: Duration) {
    if deliver(stream, stall_time).await {
        let discard_all = async { while discard(stream).await == Discarded::Bytes {} };
        let _ = timeout(stall_time, discard_all).await;
    }
}

/// Waits for a client to acknowledge all. Returns whether it has.
async fn deliver(stream: &TcpStream, stall_time: Duration) -> bool {
    let least = STALLED_BYTES_PER_S * stall_time.as_secs();
    let mut before = unacknowledged_bytes(stream);
    let mut since = clock::now();
    loop {
        let unacknowledged = unacknowledged_bytes(stream);
        if unacknowledged == 0 {
            return true;
        }
        let now = clock::now();
        if now.saturating_duration_since(since) >= stall_time {
            if unacknowledged.saturating_add(least) > before {
                return false;
            }
            (since, before) = (now, unacknowledged);
        }
        if discard(stream).await == Discarded::End {
            return false;
        }
    }
}

/// Discards what arrives before the client has been quiet.
async fn discard(stream: &TcpStream) -> Discarded {
    match timeout(QUIET, stream.readable()).await {
        Err(_) => return Discarded::Nothing,
        Ok(Err(_)) => return Discarded::End,
        Ok(Ok(())) => (),
    }
    match stream.try_read(&mut [0; 4096]) {
        Ok(0) => Discarded::End,
        Ok(_) => Discarded::Bytes,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Discarded::Bytes,
        Err(_) => Discarded::End,
    }
}

/// Returns how many bytes the kernel has that the client has not acknowledged.
fn unacknowledged_bytes(stream: &TcpStream) -> u64 {
    // SAFETY: the kernel writes an int for this request.
    let bytes = unsafe { ioctl(stream, Getter::<{ libc::TIOCOUTQ as Opcode }, c_int>::new()) };
    bytes.map_or(0, |bytes| bytes.max(0) as u64)
}
