//! Socket drops: datagrams that the kernel dropped because a socket's receive buffer was full,
//! read from its lists of UDP sockets. Empty if the system has no such lists.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;

// Below the process: a service whose /proc shows processes alone has them, too.
const LISTS: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];

/// Columns of the lists (proc(5)).
const INODE_AT: usize = 9;
const DROPS_AT: usize = 12;

/// Returns the inode of a socket, by which the lists name it.
///
/// # Errors
///
/// Those of fstat(2).
pub fn inode(socket: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}

/// Returns the drops so far of every UDP socket in this network namespace, by inode.
pub fn by_inode() -> HashMap<u64, u64> {
    let lists = LISTS.map(|path| fs::read_to_string(path).unwrap_or_default());
    lists.iter().flat_map(|list| rows(list)).collect()
}

fn rows(list: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    list.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_whitespace();
        let inode = columns.nth(INODE_AT)?.parse().ok()?;
        let drops = columns.nth(DROPS_AT - INODE_AT - 1)?.parse().ok()?;
        Some((inode, drops))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_list_yields_drops_by_inode() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
            1: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 11 2 ffff8 5
            2: 0100007F:0036 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 12 2 ffff8
            3: 0100007F:0037 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 13 2 ffff8 900
        ";
        assert_eq!(rows(list).collect::<Vec<_>>(), [(11, 5), (13, 900)]);
    }
}
