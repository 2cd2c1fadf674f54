//! Bottleneck of one direction: a queue for all clients, or one for each.
//!
//! Owns the packets whose fate is not known when they come, because later ones may leave earlier.

use link::ConfigError;
use link::Dequeued;
use link::FairQueueLink;
use link::Link;
use link::LinkConfig;
use link::LinkStats;
use link::Packet;
use link::Verdict;
use std::collections::VecDeque;
use std::time::Duration;

/// How clients share the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// All are in one queue: see [`link::Queue`].
    Shared(link::Queue),
    /// FQ-CoDel: each client, by address and port, has a queue of its own.
    PerClient,
}

/// The queues and the transmitter of one direction.
#[derive(Debug)]
pub enum Bottleneck {
    One(Box<Link>),
    Fair(Box<FairBottleneck>),
}

/// A packet that waits, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPacket {
    pub arrival: Duration,
    pub packet: Packet,
    pub client: usize,
    pub payload: Vec<u8>,
}

#[derive(Debug)]
pub struct FairBottleneck {
    link: FairQueueLink<WaitingPacket>,
    departed: VecDeque<Dequeued<WaitingPacket>>,
}

impl Bottleneck {
    /// Creates an idle bottleneck.
    ///
    /// # Errors
    ///
    /// If the model refuses its settings.
    pub fn new(queueing: Queueing, config: LinkConfig) -> Result<Self, ConfigError> {
        Ok(match queueing {
            Queueing::Shared(queue) => {
                Self::One(Box::new(Link::new(LinkConfig { queue, ..config })?))
            }
            Queueing::PerClient => Self::Fair(Box::new(FairBottleneck {
                link: FairQueueLink::new(config)?,
                departed: VecDeque::new(),
            })),
        })
    }

    /// Offers a packet of a client. Returns what becomes of it; `None` if
    /// [`take_departed`](Self::take_departed) will.
    pub fn offer(
        &mut self,
        arrival: Duration,
        packet: Packet,
        client: usize,
        payload: &[u8],
    ) -> Option<Verdict> {
        match self {
            Self::One(link) => Some(link.offer(arrival, packet)),
            Self::Fair(fair) => {
                // Those that leave before it comes do not wait for its turn.
                fair.depart(arrival);
                let waiting = WaitingPacket { arrival, packet, client, payload: payload.to_vec() };
                let refused = fair.link.offer(arrival, packet, client, waiting).err();
                refused.map(|(_, reason)| Verdict::Dropped(reason))
            }
        }
    }

    /// Returns when the next packet that waits leaves its queue.
    pub fn next_due(&self) -> Option<Duration> {
        match self {
            Self::One(_) => None,
            Self::Fair(fair) if fair.departed.is_empty() => fair.link.next_due(),
            Self::Fair(_) => Some(Duration::ZERO),
        }
    }

    /// Takes the next packet that has left its queue by `now`, in the order in which they left.
    pub fn take_departed(&mut self, now: Duration) -> Option<Dequeued<WaitingPacket>> {
        match self {
            Self::One(_) => None,
            Self::Fair(fair) => {
                fair.depart(now);
                fair.departed.pop_front()
            }
        }
    }

    /// Returns how many packets wait whose fate is not known.
    pub fn undecided_packets(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Fair(fair) => fair.departed.len() + fair.link.backlog().packets,
        }
    }

    /// Totals since the start.
    pub fn stats(&self) -> LinkStats {
        match self {
            Self::One(link) => link.stats(),
            Self::Fair(fair) => fair.link.stats(),
        }
    }
}

impl FairBottleneck {
    fn depart(&mut self, now: Duration) {
        while let Some(dequeued) = self.link.take(now) {
            self.departed.push_back(dequeued);
        }
    }
}
