//! Packets that the kernel dropped because a socket's buffer was full.
//!
//! They are lost before the link sees them. A measurement with such losses is
//! one of the machine, so they are counted and told. The counters are those of
//! the system's tables of sockets; where there are none, nothing is counted.

use crate::socket::Socket;
use std::collections::HashSet;

const TABLES: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];

/// Packets dropped so far at these sockets together.
pub fn of<'a>(sockets: impl IntoIterator<Item = &'a Socket>) -> u64 {
    let inodes: HashSet<u64> = sockets.into_iter().filter_map(inode).collect();
    let tables = TABLES.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    tables.map(|table| drops_in(&table, &inodes)).sum()
}

fn inode(socket: &Socket) -> Option<u64> {
    rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino)
}

/// The sum of the last column for the sockets with these inodes.
fn drops_in(table: &str, inodes: &HashSet<u64>) -> u64 {
    const INODE_COLUMN: usize = 9;
    let drops = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let inode = columns.get(INODE_COLUMN)?.parse().ok()?;
        inodes.contains(&inode).then(|| columns.last()?.parse::<u64>().ok()).flatten()
    });
    drops.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sockets_asked_for_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
            1: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 11 2 ffff8 5
            2: 0100007F:0036 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 12 2 ffff8 70
            3: 0100007F:0037 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 13 2 ffff8 900
        ";
        assert_eq!(drops_in(table, &HashSet::from([11, 13, 99])), 905);
    }
}
