//! Path between a client and a server: one link in each direction.

use std::time::Duration;

use link::ip_packet_bytes;
use link::Ecn;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::PacketNumbers;
use link::Rate;
use link::Verdict;
use link::MTU_BYTES_DEFAULT;

/// Settings of a path. Both directions have one rate and one buffer.
#[derive(Clone, Debug)]
pub struct Path {
    rate_mbit_per_s: f64,
    round_trip: Duration,
    buffer_bytes: u64,
    mtu_bytes: u32,
    loss: f64,
    dropped_down: PacketNumbers,
}

/// A path that no test has to think of.
impl Default for Path {
    fn default() -> Self {
        Self::new(1000.0, 10, 100_000_000)
    }
}

impl Path {
    /// A path that loses only what its buffer does not hold.
    pub fn new(rate_mbit_per_s: f64, round_trip_ms: u64, buffer_bytes: u64) -> Self {
        Self {
            rate_mbit_per_s,
            round_trip: Duration::from_millis(round_trip_ms),
            buffer_bytes,
            mtu_bytes: MTU_BYTES_DEFAULT,
            loss: 0.0,
            dropped_down: PacketNumbers::default(),
        }
    }

    /// Loses packets towards the client by their numbers, such as `50-54`.
    pub fn dropping(self, down: &str) -> Self {
        Self { dropped_down: down.parse().unwrap(), ..self }
    }

    /// Loses packets of both directions with this probability.
    pub fn losing(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// Passes IP packets of so many bytes at most.
    pub fn with_mtu(self, mtu_bytes: u32) -> Self {
        Self { mtu_bytes, ..self }
    }

    /// Both directions, up and down.
    pub fn lanes(&self, seed: u64) -> (Lane, Lane) {
        let rate = Rate::from_mbit_per_s(self.rate_mbit_per_s).unwrap();
        let config = LinkConfig {
            mtu_bytes: self.mtu_bytes,
            loss: self.loss,
            seed,
            ..LinkConfig::new(rate, self.round_trip / 2, self.buffer_bytes)
        };
        let down = LinkConfig {
            named_loss: self.dropped_down.clone(),
            // Not the draws of the other direction once more.
            seed: !seed,
            ..config.clone()
        };
        (Lane::new(config), Lane::new(down))
    }
}

/// A packet that was offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// When, since the start of the simulation.
    pub at: Duration,

    /// UDP payload.
    pub bytes: usize,

    /// It arrives, or has.
    pub arrives: bool,
}

/// One direction of a path.
pub struct Lane {
    link: Link,
    pub offered: Vec<Offered>,
}

impl Lane {
    fn new(config: LinkConfig) -> Self {
        Self { link: Link::new(config).unwrap(), offered: Vec::new() }
    }

    /// Offers a packet. Returns when it arrives, if it does.
    pub fn carry(
        &mut self,
        now: Duration,
        bytes: usize,
        peer: std::net::IpAddr,
    ) -> Option<Duration> {
        let number = self.offered.len() as u64 + 1;
        let size_bytes = ip_packet_bytes(bytes, peer);
        let packet = Packet { size_bytes, number, ecn: Ecn::NotEct };
        let arrival = match self.link.offer(now, packet) {
            Verdict::Delivered { at, .. } => Some(at),
            Verdict::Dropped(_) => None,
        };
        self.offered.push(Offered { at: now, bytes, arrives: arrival.is_some() });
        arrival
    }
}
