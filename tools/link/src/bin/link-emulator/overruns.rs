//! Packets that the kernel dropped because a socket's buffer was full.
//!
//! They are lost before the link sees them. A measurement with such losses is
//! one of the machine, so they are counted and told.

use udp_batch::drops;
use udp_batch::Socket;

/// Packets dropped so far at these sockets together.
pub fn of<'a>(sockets: impl IntoIterator<Item = &'a Socket>) -> u64 {
    let inodes = sockets.into_iter().filter_map(|socket| drops::inode(socket).ok());
    let drops = drops::by_inode();
    inodes.filter_map(|inode| drops.get(&inode)).sum()
}
