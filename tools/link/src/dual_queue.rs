//! Link with two queues: one for L4S, one for all else (RFC 9332, DualPI2).
//!
//! Owns the packets in both queues and the order in which they leave. A packet that comes later may
//! leave earlier, so that a packet's fate is known when it gets to the head and not when it
//! comes, as in [`Link`]: the caller leaves a value with each packet, and takes it back
//! with the verdict.

use crate::config::LinkConfig;
use crate::decision::Decision;
use crate::drop_reason::DropReason;
use crate::dualpi2::DualPi2;
use crate::ecn::Ecn;
use crate::error::ConfigError;
use crate::link::Backlog;
use crate::link::Link;
use crate::link::LinkStats;
use crate::link::Packet;
use crate::link::Verdict;
use std::collections::VecDeque;
use std::time::Duration;

/// Shares of the link while both queues have packets, in parts of their sum (weighted round
/// robin, RFC 9332, 4.2.2): the defaults of Linux.
const CLASSIC_WEIGHT: i64 = 10;
const L4S_WEIGHT: i64 = 90;

/// One direction of a link whose bottleneck is a dual queue: packets with ECT(1) or CE wait in one
/// queue, all others in another one, and both share the buffer. See [`LinkConfig`] for the settings;
/// [`LinkConfig::queue`] does not count.
///
/// A caller alternates: it takes what is due ([`take`](Self::take)) up to a time, and offers
/// the packets of that time.
#[derive(Clone, Debug)]
pub struct DualQueueLink<T> {
    link: Link,
    pi2: DualPi2,
    l4s: VecDeque<QueuedPacket<T>>,
    classic: VecDeque<QueuedPacket<T>>,
    bytes: u64,
    /// What the classic queue is owed: above 0, its next packet goes first.
    classic_credit: i64,
}

#[derive(Clone, Debug)]
struct QueuedPacket<T> {
    came_ns: u64,
    packet: Packet,
    /// Its codepoint in the queue.
    ecn: Ecn,
    jitter_ns: u64,
    value: T,
}

/// A packet that has left its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dequeued<T> {
    /// What the caller left with it.
    pub value: T,
    /// What becomes of it.
    pub verdict: Verdict,
    /// How long it was in its queue.
    pub waited: Duration,
}

impl<T> DualQueueLink<T> {
    /// Creates an idle, empty link.
    ///
    /// # Errors
    ///
    /// Those of [`Link::new`].
    pub fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            pi2: DualPi2::new(config.seed),
            link: Link::new(config)?,
            l4s: VecDeque::new(),
            classic: VecDeque::new(),
            bytes: 0,
            classic_credit: 0,
        })
    }

    /// Offers a packet that reaches the link at `now`, a time since the caller's origin. What is
    /// due until then has been taken.
    ///
    /// # Errors
    ///
    /// Why the packet is dropped at once, with `value`.
    pub fn offer(
        &mut self,
        now: Duration,
        packet: Packet,
        value: T,
    ) -> Result<(), (T, DropReason)> {
        self.advance(now);
        let jitter_ns = self.link.draw_jitter_ns();
        let admitted = self.link.admit(packet).and_then(|admitted| {
            self.has_room(packet).then_some(admitted).ok_or(DropReason::Buffer)
        });
        match admitted {
            Ok(Packet { ecn, .. }) => {
                let came_ns = self.link.now_ns();
                self.bytes += u64::from(packet.size_bytes);
                let queued = QueuedPacket { came_ns, packet, ecn, jitter_ns, value };
                match ecn {
                    Ecn::Ect1 | Ecn::Ce => self.l4s.push_back(queued),
                    Ecn::NotEct | Ecn::Ect0 => self.classic.push_back(queued),
                }
                Ok(())
            }
            Err(reason) => {
                self.link.count(packet, Verdict::Dropped(reason));
                Err((value, reason))
            }
        }
    }

    /// Returns when the next packet gets out of a queue.
    pub fn next_due(&self) -> Option<Duration> {
        self.next_due_ns().map(Duration::from_nanos)
    }

    /// Takes the next packet that gets out of a queue by `now`.
    pub fn take(&mut self, now: Duration) -> Option<Dequeued<T>> {
        let due = self.next_due().filter(|due| *due <= now)?;
        self.advance(due);
        let (queued, decision) = self.dequeue()?;
        let verdict = self.leave(&queued, decision);
        self.link.count(queued.packet, verdict);
        let waited = Duration::from_nanos(self.link.now_ns() - queued.came_ns);
        Some(Dequeued { value: queued.value, verdict, waited })
    }

    /// Returns the packets in both queues.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.l4s.len() + self.classic.len(), bytes: self.bytes }
    }

    /// Returns the settings.
    pub fn config(&self) -> &LinkConfig {
        self.link.config()
    }

    /// Totals since the link was made. Packets in the queues are not among those offered yet.
    pub fn stats(&self) -> LinkStats {
        self.link.stats()
    }

    fn advance(&mut self, now: Duration) {
        self.link.advance(now);
        self.pi2.update(self.link.now_ns(), self.oldest_ns());
    }

    /// A packet that can start at once needs no room.
    fn has_room(&self, packet: Packet) -> bool {
        let needed_bytes = self.bytes.saturating_add(u64::from(packet.size_bytes));
        let starts = self.bytes == 0 && self.link.first_bit_ns(0) <= self.link.now_ns();
        starts || needed_bytes <= self.config().buffer_bytes
    }

    fn oldest_ns(&self) -> Option<u64> {
        let came_ns =
            |queue: &VecDeque<QueuedPacket<T>>| queue.front().map(|queued| queued.came_ns);
        let heads = [came_ns(&self.l4s), came_ns(&self.classic)];
        heads.into_iter().flatten().min()
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.oldest_ns().map(|came_ns| self.link.first_bit_ns(came_ns))
    }

    /// Takes the packet whose turn it is.
    fn dequeue(&mut self) -> Option<(QueuedPacket<T>, Decision)> {
        let both = !self.l4s.is_empty() && !self.classic.is_empty();
        let is_classic = self.l4s.is_empty() || (both && self.classic_credit > 0);
        let queue = if is_classic { &mut self.classic } else { &mut self.l4s };
        let queued = queue.pop_front()?;
        let size_bytes = i64::from(queued.packet.size_bytes);
        self.bytes -= u64::from(queued.packet.size_bytes);
        let decision = if is_classic {
            self.pi2.decide_classic(queued.ecn.is_capable())
        } else {
            self.pi2.decide_l4s(self.link.now_ns() - queued.came_ns, self.l4s.is_empty())
        };
        if both && decision != Decision::Drop {
            self.classic_credit += match is_classic {
                true => -L4S_WEIGHT * size_bytes,
                false => CLASSIC_WEIGHT * size_bytes,
            };
        }
        Some((queued, decision))
    }

    fn leave(&mut self, queued: &QueuedPacket<T>, decision: Decision) -> Verdict {
        let QueuedPacket { came_ns, packet, jitter_ns, .. } = *queued;
        if decision == Decision::Drop {
            return Verdict::Dropped(DropReason::Pi2);
        }
        let ecn = if decision == Decision::Mark { self.link.mark() } else { queued.ecn };
        Verdict::Delivered { at: self.link.transmit(came_ns, packet, jitter_ns), ecn }
    }
}
