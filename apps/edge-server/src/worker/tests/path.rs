//! Path between a client and a server: one link in each direction.

use std::time::Duration;

use link::ip_packet_bytes;
use link::Ecn;
use link::EcnHandling;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::PacketNumbers;
use link::Queue;
use link::Rate;
use link::Verdict;
use link::MTU_BYTES_DEFAULT;
use quiche::ecn::Codepoint;

/// Settings of a path. Both directions have one rate and one buffer.
#[derive(Clone, Debug)]
pub struct Path {
    rate_mbit_per_s: f64,
    round_trip: Duration,
    buffer_bytes: u64,
    mtu_bytes: u32,
    loss: f64,
    dropped_down: PacketNumbers,
    queue: Queue,
    ecn: EcnHandling,
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
            queue: Queue::default(),
            ecn: EcnHandling::default(),
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

    /// Has this queue in both directions.
    pub fn with_queue(self, queue: Queue) -> Self {
        Self { queue, ..self }
    }

    /// Does this to the codepoints of both directions.
    pub fn with_ecn(self, ecn: EcnHandling) -> Self {
        Self { ecn, ..self }
    }

    /// Both directions, up and down.
    pub fn lanes(&self, seed: u64) -> (Lane, Lane) {
        let rate = Rate::from_mbit_per_s(self.rate_mbit_per_s).unwrap();
        let config = LinkConfig {
            mtu_bytes: self.mtu_bytes,
            loss: self.loss,
            queue: self.queue,
            ecn: self.ecn,
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

/// A UDP payload and its codepoint.
#[derive(Clone)]
pub struct Datagram {
    pub bytes: Vec<u8>,
    pub ecn: Codepoint,
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

    /// Its codepoint, and the one with which it leaves the link.
    pub ecn: Codepoint,
    pub ecn_out: Codepoint,
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

    /// Offers a packet. Returns when it arrives, and with which codepoint, if it does.
    pub fn carry(
        &mut self,
        now: Duration,
        datagram: &Datagram,
        peer: std::net::IpAddr,
    ) -> Option<(Duration, Codepoint)> {
        let number = self.offered.len() as u64 + 1;
        let (bytes, ecn) = (datagram.bytes.len(), datagram.ecn);
        let packet = Packet { size_bytes: ip_packet_bytes(bytes, peer), number, ecn: of_link(ecn) };
        let arrival = match self.link.offer(now, packet) {
            Verdict::Delivered { at, ecn } => Some((at, from_link(ecn))),
            Verdict::Dropped(_) => None,
        };
        let ecn_out = arrival.map_or(ecn, |(_, ecn)| ecn);
        self.offered.push(Offered { at: now, bytes, arrives: arrival.is_some(), ecn, ecn_out });
        arrival
    }
}

fn of_link(ecn: Codepoint) -> Ecn {
    match ecn {
        Codepoint::NotEct => Ecn::NotEct,
        Codepoint::Ect0 => Ecn::Ect0,
        Codepoint::Ect1 => Ecn::Ect1,
        Codepoint::Ce => Ecn::Ce,
    }
}

fn from_link(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::NotEct => Codepoint::NotEct,
        Ecn::Ect0 => Codepoint::Ect0,
        Ecn::Ect1 => Codepoint::Ect1,
        Ecn::Ce => Codepoint::Ce,
    }
}
