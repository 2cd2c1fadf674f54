//! Datagrams that the kernel dropped because a worker's socket was full, read from procfs at each
//! scrape.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use udp_batch::drops;

use crate::telemetry::metrics::collected::encode;
use crate::telemetry::metrics::labels::WorkerLabels;

/// Inodes of the workers' sockets, once the sockets are bound.
#[derive(Clone, Debug, Default)]
pub struct SocketDrops {
    inodes: Arc<OnceLock<Vec<u64>>>,
}

impl SocketDrops {
    /// Sets the sockets of the workers, in their order. Later calls have no effect.
    pub fn watch<'a>(&self, sockets: impl IntoIterator<Item = &'a (impl AsFd + 'a)>) {
        let inode = |socket: &_| drops::inode(socket).unwrap_or_default();
        self.inodes.get_or_init(|| sockets.into_iter().map(inode).collect());
    }

    /// Returns the drops of each worker's socket that the kernel lists.
    fn read(&self) -> Vec<(u8, u64)> {
        let drops = drops::by_inode();
        let inodes = self.inodes.get().into_iter().flatten();
        let workers = (0..=u8::MAX).zip(inodes);
        workers.filter_map(|(worker, inode)| Some((worker, *drops.get(inode)?))).collect()
    }
}

impl Collector for SocketDrops {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<WorkerLabels, Counter>::default();
        for (worker, drops) in self.read() {
            family.get_or_create(&WorkerLabels { worker }).inc_by(drops);
        }
        let help = "Datagrams that the kernel dropped because the worker's socket was full";
        encode(&mut encoder, "edge_server_socket_drops", help, &family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn full_socket_drops_are_counted_per_worker() {
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
