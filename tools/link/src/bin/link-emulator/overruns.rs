//! Overruns: packets that the kernel dropped because a socket's buffer was full.
//!
//! They are lost before the link sees them. A measurement with such losses is
//! one of the machine, so they are counted and reported.

use udp_batch::drops;
use udp_batch::Socket;

/// Returns how many packets were dropped so far at all of these sockets.
pub fn of<'a>(sockets: impl IntoIterator<Item = &'a Socket>) -> u64 {
    let inodes = sockets.into_iter().filter_map(|socket| drops::inode(socket).ok());
    let drops = drops::by_inode();
    inodes.filter_map(|inode| drops.get(&inode)).sum()
}
