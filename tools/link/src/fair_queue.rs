//! Link with a queue for each flow, which take turns (RFC 8290, FQ-CoDel).
//!
//! Owns the packets in all queues and the order in which they leave. As in
//! [`DualQueueLink`](crate::DualQueueLink), a packet's fate is known when it gets to the head of its
//! queue, so that the caller leaves a value with each packet, and takes it back with the verdict.

use crate::codel::CoDel;
use crate::config::LinkConfig;
use crate::decision::Decision;
use crate::decision::Head;
use crate::drop_reason::DropReason;
use crate::dual_queue::Dequeued;
use crate::ecn::Ecn;
use crate::error::ConfigError;
use crate::link::Backlog;
use crate::link::Link;
use crate::link::LinkStats;
use crate::link::Packet;
use crate::link::Verdict;
use std::collections::VecDeque;
use std::time::Duration;

/// Number of queues, the default of RFC 8290: flows beyond share them.
const QUEUES: usize = 1024;

/// One direction of a link whose bottleneck is FQ-CoDel: each flow has a queue with a CoDel of its
/// own, queues take turns by a deficit round robin of one MTU, and flows that begin come first. All
/// share the buffer; when it is full, the longest queue loses its first packet. See [`LinkConfig`] for
/// the settings; [`LinkConfig::queue`] does not count.
///
/// A caller alternates: it takes what is due ([`take`](Self::take)) up to a time, and offers
/// the packets of that time.
#[derive(Clone, Debug)]
pub struct FairQueueLink<T> {
    link: Link,
    flows: Vec<FlowQueue<T>>,
    /// Queues of flows that have begun, and of those that have had a turn, by their index.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// Packets that a full buffer dropped, which have not been taken.
    dropped: VecDeque<Dequeued<T>>,
    packets: usize,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct FlowQueue<T> {
    packets: VecDeque<FlowPacket<T>>,
    bytes: u64,
    /// Bytes that it may still send in its turn.
    credit: i64,
    codel: CoDel,
    /// Whether it is in one of the lists.
    is_listed: bool,
}

#[derive(Clone, Debug)]
struct FlowPacket<T> {
    came_ns: u64,
    packet: Packet,
    /// Its codepoint in the queue.
    ecn: Ecn,
    jitter_ns: u64,
    value: T,
}

impl<T> FlowQueue<T> {
    fn new() -> Self {
        let codel = CoDel::default();
        Self { packets: VecDeque::new(), bytes: 0, credit: 0, codel, is_listed: false }
    }
}

impl<T> FairQueueLink<T> {
    /// Creates an idle, empty link.
    ///
    /// # Errors
    ///
    /// Those of [`Link::new`].
    pub fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            link: Link::new(config)?,
            flows: (0..QUEUES).map(|_| FlowQueue::new()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            dropped: VecDeque::new(),
            packets: 0,
            bytes: 0,
        })
    }

    /// Offers a packet of a flow that reaches the link at `now`, a time since the caller's origin.
    /// What is due until then has been taken.
    ///
    /// # Errors
    ///
    /// Why the packet is dropped at once, with `value`.
    pub fn offer(
        &mut self,
        now: Duration,
        packet: Packet,
        flow: usize,
        value: T,
    ) -> Result<(), (T, DropReason)> {
        self.link.advance(now);
        let jitter_ns = self.link.draw_jitter_ns();
        let ecn = match self.link.admit(packet) {
            Ok(Packet { ecn, .. }) => ecn,
            Err(reason) => {
                self.link.count(packet, Verdict::Dropped(reason));
                return Err((value, reason));
            }
        };
        let came_ns = self.link.now_ns();
        let starts = self.packets == 0 && self.link.first_bit_ns(0) <= came_ns;
        let index = flow % QUEUES;
        let queue = &mut self.flows[index];
        queue.packets.push_back(FlowPacket { came_ns, packet, ecn, jitter_ns, value });
        queue.bytes += u64::from(packet.size_bytes);
        self.packets += 1;
        self.bytes += u64::from(packet.size_bytes);
        if !std::mem::replace(&mut queue.is_listed, true) {
            queue.credit = i64::from(self.link.config().mtu_bytes);
            self.new.push_back(index);
        }
        while self.bytes > self.config().buffer_bytes && !starts {
            self.drop_from_longest();
        }
        Ok(())
    }

    /// Returns when the next packet gets out of a queue.
    pub fn next_due(&self) -> Option<Duration> {
        let due_ns = if self.dropped.is_empty() { self.next_due_ns()? } else { self.link.now_ns() };
        Some(Duration::from_nanos(due_ns))
    }

    /// Takes the next packet that gets out of a queue by `now`.
    pub fn take(&mut self, now: Duration) -> Option<Dequeued<T>> {
        if let Some(dropped) = self.dropped.pop_front() {
            return Some(dropped);
        }
        let due = self.next_due().filter(|due| *due <= now)?;
        self.link.advance(due);
        let index = self.turn()?;
        let (queued, decision) = self.dequeue(index)?;
        let verdict = match decision {
            Decision::Drop => Verdict::Dropped(DropReason::CoDel),
            Decision::Mark => self.send(&queued, Ecn::Ce),
            Decision::Send => self.send(&queued, queued.ecn),
        };
        self.link.count(queued.packet, verdict);
        let waited = Duration::from_nanos(self.link.now_ns() - queued.came_ns);
        Some(Dequeued { value: queued.value, verdict, waited })
    }

    /// Returns the packets in all queues.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: self.bytes }
    }

    /// Returns the settings.
    pub fn config(&self) -> &LinkConfig {
        self.link.config()
    }

    /// Totals since the link was made. Packets in the queues are not among those offered yet.
    pub fn stats(&self) -> LinkStats {
        self.link.stats()
    }

    fn next_due_ns(&self) -> Option<u64> {
        let came_ns = |index: &usize| Some(self.flows[*index].packets.front()?.came_ns);
        let oldest_ns = self.new.iter().chain(&self.old).filter_map(came_ns).min()?;
        Some(self.link.first_bit_ns(oldest_ns))
    }

    /// Returns the queue whose turn it is (RFC 8290, 4.2). It has a packet.
    fn turn(&mut self) -> Option<usize> {
        loop {
            let is_new = !self.new.is_empty();
            let index = *self.new.front().or(self.old.front())?;
            let quantum = i64::from(self.link.config().mtu_bytes);
            let queue = &mut self.flows[index];
            if queue.credit > 0 && !queue.packets.is_empty() {
                return Some(index);
            }
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            if queue.credit <= 0 {
                queue.credit += quantum;
                self.old.push_back(index);
            } else if is_new && !self.old.is_empty() {
                // An empty new queue goes behind the old ones, lest it come first again and again.
                self.old.push_back(index);
            } else {
                queue.is_listed = false;
            }
        }
    }

    /// Takes the first packet of a queue.
    fn dequeue(&mut self, index: usize) -> Option<(FlowPacket<T>, Decision)> {
        let now_ns = self.link.now_ns();
        let mtu_bytes = u64::from(self.link.config().mtu_bytes);
        let queued = self.remove(index)?;
        let queue = &mut self.flows[index];
        let decision = queue.codel.decide(Head {
            now_ns,
            waited_ns: now_ns - queued.came_ns,
            short_queue: queue.bytes <= mtu_bytes,
            capable: queued.ecn.is_capable(),
        });
        if decision != Decision::Drop {
            queue.credit -= i64::from(queued.packet.size_bytes);
        }
        Some((queued, decision))
    }

    fn remove(&mut self, index: usize) -> Option<FlowPacket<T>> {
        let queue = &mut self.flows[index];
        let queued = queue.packets.pop_front()?;
        let bytes = u64::from(queued.packet.size_bytes);
        queue.bytes -= bytes;
        self.bytes -= bytes;
        self.packets -= 1;
        Some(queued)
    }

    fn drop_from_longest(&mut self) {
        let listed = self.new.iter().chain(&self.old).copied();
        let Some(longest) = listed.max_by_key(|index| self.flows[*index].bytes) else { return };
        let Some(queued) = self.remove(longest) else { return };
        let verdict = Verdict::Dropped(DropReason::Buffer);
        self.link.count(queued.packet, verdict);
        let waited = Duration::from_nanos(self.link.now_ns() - queued.came_ns);
        self.dropped.push_back(Dequeued { value: queued.value, verdict, waited });
    }

    fn send(&mut self, queued: &FlowPacket<T>, ecn: Ecn) -> Verdict {
        let FlowPacket { came_ns, packet, jitter_ns, .. } = *queued;
        if ecn == Ecn::Ce && queued.ecn != Ecn::Ce {
            self.link.mark();
        }
        Verdict::Delivered { at: self.link.transmit(came_ns, packet, jitter_ns), ecn }
    }
}
