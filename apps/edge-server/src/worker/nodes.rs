//! Forwarding between the servers of a fleet, for packets that a balancer has led to another server than the
//! one that their connection IDs name: after its table has changed, or a route.
//!
//! A packet is forwarded once: one that another server has forwarded, and whose ID does not name this one, is
//! dropped.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use log::debug;
use quiche::RecvInfo;
use rustix::io::Errno;
use rustix::net;
use rustix::net::RecvFlags;
use rustix::net::SendFlags;

use crate::admission::token_bucket::TokenBucket;
use crate::net::envelope;
use crate::net::node_socket::NodeSocket;
use crate::net::process_link::MESSAGE_BYTES_MAX;
use crate::net::route;
use crate::net::route::Arrival;
use crate::quic::secrets::SharedSecrets;
use crate::telemetry::metrics::NodeDrop;
use crate::telemetry::metrics::NodeMetrics;
use crate::worker::forwarding::ForwardingInlet;

/// Limit on what one worker forwards in a second.
const FORWARDED_PER_SECOND_MAX: u32 = 10_000;

/// Pause after an error of the socket.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// One worker's sender to other servers.
pub struct NodeSender {
    socket: Arc<NodeSocket>,
    secrets: SharedSecrets,
    metrics: NodeMetrics,
    bucket: TokenBucket,
}

/// Receiver of what other servers forward, on a thread of its own.
pub struct NodeReceiver {
    socket: Arc<NodeSocket>,
    secrets: SharedSecrets,
    metrics: NodeMetrics,

    /// Addresses of the listeners, and the ways to their workers.
    inlets: Vec<(SocketAddr, ForwardingInlet)>,
}

/// Handle of the receiver, which waits while a newer process reads its socket.
#[derive(Clone)]
pub struct NodeHandle {
    pub socket: Arc<NodeSocket>,
    pause: Arc<ReadingPause>,
}

/// Pause of the receiver, in which it leaves the socket alone.
#[derive(Default)]
struct ReadingPause {
    is_paused: Mutex<bool>,
    changed: Condvar,
}

impl NodeSender {
    pub fn new(
        socket: Arc<NodeSocket>,
        secrets: SharedSecrets,
        metrics: NodeMetrics,
        now: Instant,
    ) -> Self {
        Self { socket, secrets, metrics, bucket: TokenBucket::new(now) }
    }

    /// Forwards a datagram to the server at an address, unless it is dropped.
    pub fn forward(&mut self, node: SocketAddr, arrival: Arrival, datagram: &[u8], now: Instant) {
        if !self.bucket.take(FORWARDED_PER_SECOND_MAX, Duration::ZERO, now) {
            return self.metrics.count_dropped(NodeDrop::Rate);
        }
        let envelope = envelope::seal(&self.secrets.get(), arrival, datagram);
        match net::sendto(&*self.socket, &envelope, SendFlags::DONTWAIT, &node) {
            Ok(_) => self.metrics.count_forwarded(),
            Err(e) => {
                debug!("cannot forward a packet to {node}: {e}");
                self.metrics.count_dropped(NodeDrop::Full);
            }
        }
    }
}

impl NodeReceiver {
    pub fn new(
        socket: Arc<NodeSocket>,
        secrets: SharedSecrets,
        metrics: NodeMetrics,
        inlets: Vec<(SocketAddr, ForwardingInlet)>,
    ) -> Self {
        Self { socket, secrets, metrics, inlets }
    }

    /// Receives until the process ends.
    ///
    /// # Errors
    ///
    /// The process may have no more threads.
    pub fn start(self) -> anyhow::Result<NodeHandle> {
        let handle = NodeHandle { socket: Arc::clone(&self.socket), pause: Arc::default() };
        let pause = Arc::clone(&handle.pause);
        let run = move || {
            let mut buffer = vec![0; MESSAGE_BYTES_MAX];
            loop {
                pause.wait();
                match net::recv(&*self.socket, &mut buffer[..], RecvFlags::empty()) {
                    Ok((length, _)) => self.on_envelope(&buffer[..length.min(MESSAGE_BYTES_MAX)]),
                    // Of an earlier send: nobody listens at that server.
                    Err(Errno::CONNREFUSED | Errno::INTR) => (),
                    Err(e) => {
                        debug!("cannot receive from other servers: {e}");
                        thread::sleep(RETRY_DELAY);
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("nodes".into()).spawn(run);
        thread.context("cannot start the thread of --quic-lb-listen")?;
        Ok(handle)
    }

    fn on_envelope(&self, envelope: &[u8]) {
        let opened = envelope::open(&self.secrets.get(), envelope);
        let Some((arrival, at)) = opened.filter(|(arrival, _)| route::is_answerable(arrival.info))
        else {
            return self.metrics.count_dropped(NodeDrop::Forged);
        };
        let Some((listener, inlet)) = self.inlet_of(arrival.info.to) else { return };
        let info = RecvInfo { to: own_address(arrival.info, *listener), ..arrival.info };
        match inlet.take_in(Arrival { info, ..arrival }, &envelope[at]) {
            true => self.metrics.count_received(),
            false => self.metrics.count_dropped(NodeDrop::Full),
        }
    }

    /// Returns the listener of an address and the way to it, or the first one for an address that only the
    /// other server has.
    fn inlet_of(&self, to: SocketAddr) -> Option<&(SocketAddr, ForwardingInlet)> {
        let serves = |listener: &SocketAddr| {
            let is_same = listener.ip() == to.ip() || listener.ip().is_unspecified();
            is_same && listener.port() == to.port()
        };
        self.inlets.iter().find(|(listener, _)| serves(listener)).or(self.inlets.first())
    }
}

/// Returns the address at which a listener answers what arrived at another server: the same if this one has
/// it, too, and else one of its own.
fn own_address(RecvInfo { from, to }: RecvInfo, listener: SocketAddr) -> SocketAddr {
    if !listener.ip().is_unspecified() {
        return listener;
    }
    let is_own = UdpSocket::bind((to.ip(), 0)).is_ok();
    let other = if is_own { None } else { address_towards(from) };
    SocketAddr::new(other.unwrap_or(to.ip()), listener.port())
}

/// Returns the address from which the kernel sends to a client.
fn address_towards(client: SocketAddr) -> Option<IpAddr> {
    let any = if client.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(client).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

impl NodeHandle {
    /// Leaves the socket to a newer process.
    pub fn hand_over(&self) {
        self.pause.set(true);
    }

    /// Reads the socket again.
    pub fn serve_again(&self) {
        self.pause.set(false);
    }
}

impl ReadingPause {
    fn set(&self, is_paused: bool) {
        *self.is_paused.lock().unwrap_or_else(PoisonError::into_inner) = is_paused;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let is_paused = self.is_paused.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(is_paused, |is_paused| *is_paused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;
    use mio::Token;
    use mio::Waker;
    use prometheus_client::registry::Registry;
    use quiche::ecn::Codepoint;

    use crate::net::steering::Steering;
    use crate::quic::connection_id::tests::reader;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use crate::worker::forwarding::Forwarding;

    const SHORT: &[u8] = &[0x40, 7, 7];

    fn metrics() -> (Registry, NodeMetrics) {
        let mut registry = Registry::default();
        let metrics = NodeMetrics::register(&mut registry);
        (registry, metrics)
    }

    fn count(registry: &Registry, name: &str) -> u32 {
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, registry).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }

    fn socket() -> Arc<NodeSocket> {
        Arc::new(NodeSocket::open("127.0.0.1:0".parse().unwrap(), None).unwrap())
    }

    fn arrival(to: &str) -> Arrival {
        let info = RecvInfo { from: "192.0.2.7:443".parse().unwrap(), to: to.parse().unwrap() };
        Arrival { info, ecn: Codepoint::NotEct }
    }

    #[test]
    fn forwarded_datagrams_are_limited() {
        let (registry, metrics) = metrics();
        let (now, to) = (quiche::clock::now(), "127.0.0.1:9".parse().unwrap());
        let mut sender = NodeSender::new(socket(), shared(&[ONE]), metrics, now);
        for _ in 0..FORWARDED_PER_SECOND_MAX + 7 {
            sender.forward(to, arrival("192.0.2.1:443"), SHORT, now);
        }
        assert_eq!(
            count(&registry, "edge_server_node_datagrams_dropped_total{reason=\"rate\"}"),
            7
        );
    }

    #[test]
    fn datagram_goes_to_the_listener_of_its_address() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let connect = || {
            let steering = Steering::new(1, reader().mask_key);
            Forwarding::connect(steering, [Arc::clone(&waker)]).remove(0)
        };
        let listeners = ["192.0.2.1:443", "192.0.2.2:443", "[::]:8443"]
            .map(|address| (address.parse::<SocketAddr>().unwrap(), connect()));
        let inlets = listeners.iter().map(|(address, workers)| (*address, workers.inlet()));
        let (registry, metrics) = metrics();
        let receiver = NodeReceiver::new(socket(), shared(&[ONE]), metrics, inlets.collect());
        for (to, expected) in [
            ("192.0.2.2:443", 1),
            ("192.0.2.9:8443", 2),
            ("192.0.2.9:443", 0),
            ("192.0.2.1:443", 0),
        ] {
            let secrets = shared(&[ONE]).get();
            receiver.on_envelope(&envelope::seal(&secrets, arrival(to), SHORT));
            let taken = |(_, workers): &(_, Forwarding)| workers.next().is_some();
            assert_eq!(listeners.iter().position(taken), Some(expected), "{to}");
        }
        // Datagrams that nobody can answer.
        let unanswerable = arrival("224.0.0.1:443");
        receiver.on_envelope(&envelope::seal(&shared(&[ONE]).get(), unanswerable, SHORT));
        assert_eq!(count(&registry, "edge_server_node_datagrams_received_total"), 4);
        assert_eq!(
            count(&registry, "edge_server_node_datagrams_dropped_total{reason=\"forged\"}"),
            1
        );
    }

    #[test]
    fn server_answers_from_an_address_of_its_own() {
        for (from, to, listener, expected) in [
            ("127.0.0.1:9", "127.0.0.2:443", "0.0.0.0:443", "127.0.0.2:443"),
            ("127.0.0.1:9", "192.0.2.9:443", "0.0.0.0:443", "127.0.0.1:443"),
            ("[::1]:9", "[2001:db8::9]:443", "[::]:443", "[::1]:443"),
            (
                "[::ffff:127.0.0.1]:9",
                "[::ffff:192.0.2.9]:443",
                "[::]:443",
                "[::ffff:127.0.0.1]:443",
            ),
            ("127.0.0.1:9", "192.0.2.9:443", "127.0.0.7:443", "127.0.0.7:443"),
        ] {
            let info = RecvInfo { from: from.parse().unwrap(), to: to.parse().unwrap() };
            let own = own_address(info, listener.parse().unwrap());
            assert_eq!(own, expected.parse().unwrap(), "{to}, {listener}");
        }
    }
}
