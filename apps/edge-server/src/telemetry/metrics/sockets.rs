//! Datagrams that the kernel dropped because a worker's socket was full, read from the
//! kernel when somebody asks.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::telemetry::metrics::labels::WorkerLabels;

/// The kernel's lists of UDP sockets.
const LISTS: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];

/// Where a list has a socket's inode and its drops.
const INODE_AT: usize = 9;
const DROPS_AT: usize = 12;

/// The workers' sockets, once there are some.
#[derive(Clone, Debug, Default)]
pub struct SocketDrops {
    inodes: Arc<OnceLock<Vec<u64>>>,
}

impl SocketDrops {
    /// Watches the sockets of the workers, in their order. Those of an earlier call stay.
    pub fn watch<'a>(&self, sockets: impl IntoIterator<Item = &'a (impl AsFd + 'a)>) {
        let inode = |socket: &_| rustix::fs::fstat(socket).map_or(0, |stat| stat.st_ino);
        self.inodes.get_or_init(|| sockets.into_iter().map(inode).collect());
    }

    /// The drops of each worker's socket, where the kernel tells them.
    fn read(&self) -> Vec<(u8, u64)> {
        let lists = LISTS.map(|path| fs::read_to_string(path).unwrap_or_default());
        let drops: HashMap<_, _> = lists.iter().flat_map(|list| drops(list)).collect();
        let inodes = self.inodes.get().into_iter().flatten();
        let workers = (0..=u8::MAX).zip(inodes);
        workers.filter_map(|(worker, inode)| Some((worker, *drops.get(inode)?))).collect()
    }
}

/// Inodes and drops of a list.
fn drops(list: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    list.lines().skip(1).filter_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        Some((columns.get(INODE_AT)?.parse().ok()?, columns.get(DROPS_AT)?.parse().ok()?))
    })
}

impl Collector for SocketDrops {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<WorkerLabels, Counter>::default();
        for (worker, drops) in self.read() {
            family.get_or_create(&WorkerLabels { worker }).inc_by(drops);
        }
        let help = "Datagrams that the kernel dropped: the worker's socket was full";
        let name = "edge_server_socket_drops";
        let metric = encoder.encode_descriptor(name, help, None, family.metric_type())?;
        family.encode(metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_a_full_socket_loses_is_told_of_its_worker() {
        let sockets = ["127.0.0.1:0", "[::1]:0"].map(|at| UdpSocket::bind(at).unwrap());
        let drops = SocketDrops::default();
        drops.watch(&sockets);
        assert_eq!(drops.read(), [(0, 0), (1, 0)]);
        let to = &sockets[1];
        rustix::net::sockopt::set_socket_recv_buffer_size(to, 1).unwrap();
        let client = UdpSocket::bind("[::1]:0").unwrap();
        for _ in 0..50 {
            client.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
        }
        let read = drops.read();
        let [(0, 0), (1, lost)] = read[..] else { panic!("{read:?}") };
        assert!((1..=50).contains(&lost), "{lost}");
    }
}
