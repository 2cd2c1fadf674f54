//! Lingering close (RFC 9112, 9.6): the kernel discards what it has yet to send when a closed
//! connection gets more from its client, so it is closed after the client has nothing more to send.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a client may send nothing: more than a round trip of any path.
const QUIET: Duration = Duration::from_secs(2);

/// Discards what a client sends, until it closes its end, is quiet, or `max` has passed. Nothing more is
/// sent to it.
pub async fn linger(stream: &TcpStream, max: Duration) {
    let _ = timeout(max, async { while let Ok(true) = discard(stream).await {} }).await;
}

/// Discards what has arrived. Returns whether there may be more.
async fn discard(stream: &TcpStream) -> io::Result<bool> {
    timeout(QUIET, stream.readable()).await??;
    match stream.try_read(&mut [0; 4096]) {
        Ok(bytes) => Ok(bytes > 0),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(e) => Err(e),
    }
}
