//! Link: a packet and a time in, a verdict out.

use crate::aggregation::Aggregation;
use crate::burst::GilbertElliott;
use crate::config::LinkConfig;
use crate::decision::Decision;
use crate::decision::Head;
use crate::discipline::Discipline;
use crate::drop_reason::DropReason;
use crate::ecn::Ecn;
use crate::error::ConfigError;
use crate::jitter::Jitter;
use crate::loss::RandomLoss;
use crate::policer::TokenBucket;
use crate::schedule::ns;
use crate::schedule::Timeline;
use crate::transmitter::Transmitter;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// What the link knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Size of the whole IP packet, in bytes; see
    /// [`ip_packet_bytes`](crate::ip_packet_bytes).
    pub size_bytes: u32,

    /// Which packet of its flow this is, counted from 1. The caller counts,
    /// because only the caller knows what a flow is (in `link-emulator`: one
    /// direction of one client address and port).
    pub number: u64,

    /// The codepoint with which it reaches the link.
    pub ecn: Ecn,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its last bit arrives at the other end at `at`.
    Delivered {
        /// Time since the caller's origin.
        at: Duration,
        /// The codepoint with which it leaves the link.
        ecn: Ecn,
    },
    /// It never arrives.
    Dropped(DropReason),
}

/// Content of a link's buffer, with the packets that CoDel will drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of packets.
    pub packets: usize,
    /// Sum of their sizes, in bytes of IP packets.
    pub bytes: u64,
}

/// Totals since a link was made. Bytes are those of IP packets; an offered
/// packet is either accepted or dropped, for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct LinkStats {
    pub offered_packets: u64,
    pub offered_bytes: u64,
    pub accepted_packets: u64,
    pub accepted_bytes: u64,
    pub dropped_ecn_packets: u64,
    pub dropped_mtu_packets: u64,
    pub dropped_named_packets: u64,
    pub dropped_random_packets: u64,
    pub dropped_buffer_packets: u64,
    pub dropped_codel_packets: u64,
    pub dropped_pie_packets: u64,
    pub dropped_policer_packets: u64,
    /// None but in a [`DualQueueLink`](crate::DualQueueLink).
    #[serde(skip)]
    pub dropped_pi2_packets: u64,
    /// Accepted packets that the queue marked, those included that came with CE.
    pub marked_packets: u64,
    /// Accepted packets whose codepoint a faulty path changed before the queue.
    pub remarked_packets: u64,
}

/// One direction of a link. Packets leave in the order in which they came.
///
/// Time never runs backwards: a packet offered with an earlier time than the
/// one before it counts as arriving together with that one.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    loss: RandomLoss,
    burst: Option<GilbertElliott>,
    bucket: Option<TokenBucket>,
    jitter: Jitter,
    transmitter: Transmitter,
    aggregation: Aggregation,
    /// Asked about the time when a packet's last bit leaves, or its grant comes.
    delay_ns: Timeline<u64>,
    discipline: Discipline,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    now_ns: u64,
    last_delivery_ns: u64,
    stats: LinkStats,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    first_bit_ns: u64,
    size_bytes: u32,
}

impl Link {
    /// Creates an idle, empty link.
    ///
    /// # Errors
    ///
    /// If the MTU is 0, a loss not a probability, or the changes not in
    /// order.
    pub fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let (changes, period, from) = (&config.changes, config.period, config.changes_from);
        let loss = Timeline::new(config.loss, changes, period, |change| change.loss);
        let rate = Timeline::new(config.rate, changes, period, |change| change.rate);
        let delay_ns =
            Timeline::new(ns(config.delay), changes, period, |change| change.delay.map(ns));
        Ok(Self {
            loss: RandomLoss::new(loss.since(from), config.seed),
            burst: config.burst.map(|burst| GilbertElliott::new(burst, config.seed)),
            bucket: config.policer.map(TokenBucket::new),
            jitter: Jitter::new(config.jitter, config.seed),
            transmitter: Transmitter::new(rate.since(from)),
            aggregation: Aggregation::new(config.aggregation, config.seed),
            delay_ns: delay_ns.since(from),
            discipline: Discipline::new(config.queue, config.seed),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            now_ns: 0,
            last_delivery_ns: 0,
            stats: LinkStats::default(),
            config,
        })
    }

    /// Offers a packet that reaches the link at `now`, a time since the
    /// caller's origin, and returns what becomes of it.
    pub fn offer(&mut self, now: Duration, packet: Packet) -> Verdict {
        self.advance(now);
        let jitter_ns = self.jitter.draw_ns();
        let admitted = self.admit(packet).and_then(|admitted| {
            self.has_room(packet).then_some(admitted).ok_or(DropReason::Buffer)
        });
        let passed = admitted.and_then(|admitted| self.enqueue(admitted));
        let verdict = match passed {
            Ok(ecn) => {
                Verdict::Delivered { at: self.transmit(self.now_ns, packet, jitter_ns), ecn }
            }
            Err(reason) => Verdict::Dropped(reason),
        };
        self.count(packet, verdict);
        verdict
    }

    /// Returns the queue at `now`: packets accepted whose transmission has not begun,
    /// and those that CoDel will drop when they would begin.
    pub fn backlog(&mut self, now: Duration) -> Backlog {
        self.advance(now);
        Backlog { packets: self.waiting.len(), bytes: self.waiting_bytes }
    }

    /// Returns the settings.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Totals since the link was made.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns when the transmitter sends a packet that comes at `now_ns`.
    pub(crate) fn first_bit_ns(&self, now_ns: u64) -> u64 {
        self.transmitter.first_bit_ns(now_ns)
    }

    pub(crate) fn draw_jitter_ns(&mut self) -> u64 {
        self.jitter.draw_ns()
    }

    /// Lets the packets go whose transmission has begun by `now`.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.now_ns = self.now_ns.max(ns(now));
        while let Some(front) = self.waiting.front() {
            if front.first_bit_ns > self.now_ns {
                break;
            }
            self.waiting_bytes -= u64::from(front.size_bytes);
            self.waiting.pop_front();
        }
    }

    /// Returns the packet as it comes to the buffer.
    pub(crate) fn admit(&mut self, packet: Packet) -> Result<Packet, DropReason> {
        let bursts = self.burst.as_mut().is_some_and(GilbertElliott::draw);
        let unlucky = self.loss.draw(self.now_ns) || bursts;
        let ecn = self.config.ecn.apply(packet.ecn).ok_or(DropReason::Ecn)?;
        if packet.size_bytes > self.config.mtu_bytes {
            Err(DropReason::Mtu)
        } else if self.config.named_loss.contains(packet.number) {
            Err(DropReason::Named)
        } else if unlucky {
            Err(DropReason::Random)
        } else if !self.conforms(packet) {
            Err(DropReason::Policer)
        } else {
            Ok(Packet { ecn, ..packet })
        }
    }

    /// Returns whether the policer lets a packet pass.
    fn conforms(&mut self, packet: Packet) -> bool {
        let now_ns = self.now_ns;
        self.bucket.as_mut().is_none_or(|bucket| bucket.admit(now_ns, packet.size_bytes))
    }

    /// Returns whether the buffer has room. A packet that can start at once needs none.
    fn has_room(&self, packet: Packet) -> bool {
        let needed_bytes = self.waiting_bytes.saturating_add(u64::from(packet.size_bytes));
        self.transmitter.is_free(self.now_ns) || needed_bytes <= self.config.buffer_bytes
    }

    /// Puts a packet into the buffer until it can start; it may be dropped or marked
    /// then. Returns the codepoint with which it starts.
    fn enqueue(&mut self, packet: Packet) -> Result<Ecn, DropReason> {
        let first_bit_ns = self.transmitter.first_bit_ns(self.now_ns);
        let waited_ns = first_bit_ns - self.now_ns;
        let ahead_bytes = self.waiting_bytes;
        let head = Head {
            now_ns: first_bit_ns,
            waited_ns,
            short_queue: ahead_bytes <= u64::from(self.config.mtu_bytes),
            capable: packet.ecn.is_capable(),
        };
        let decision = self.discipline.decide(head, self.transmitter.first_bit_ns(0));
        let (reason, at_once) = self.discipline.drop_reason();
        if waited_ns > 0 && !(at_once && decision == Decision::Drop) {
            let size_bytes = packet.size_bytes;
            self.waiting_bytes += u64::from(size_bytes);
            self.waiting.push_back(Waiting { first_bit_ns, size_bytes });
        }
        match decision {
            Decision::Send => Ok(packet.ecn),
            Decision::Mark => Ok(self.mark()),
            Decision::Drop => Err(reason),
        }
    }

    /// Counts a mark. Returns the codepoint.
    pub(crate) fn mark(&mut self) -> Ecn {
        self.stats.marked_packets += 1;
        Ecn::Ce
    }

    /// Returns when a packet arrives that came at `came_ns` and is next.
    pub(crate) fn transmit(&mut self, came_ns: u64, packet: Packet, jitter_ns: u64) -> Duration {
        let last_bit_ns = self.transmitter.send(came_ns, packet.size_bytes);
        let left_ns = self.aggregation.next_grant_ns(last_bit_ns);
        let delay_ns = self.delay_ns.at(left_ns).saturating_add(jitter_ns);
        // Neither jitter nor a shorter delay changes the order.
        self.last_delivery_ns = self.last_delivery_ns.max(left_ns.saturating_add(delay_ns));
        Duration::from_nanos(self.last_delivery_ns)
    }

    pub(crate) fn count(&mut self, packet: Packet, verdict: Verdict) {
        let stats = &mut self.stats;
        stats.offered_packets += 1;
        stats.offered_bytes += u64::from(packet.size_bytes);
        match verdict {
            Verdict::Delivered { .. } => {
                stats.accepted_packets += 1;
                stats.accepted_bytes += u64::from(packet.size_bytes);
                let remarked = self.config.ecn.apply(packet.ecn) != Some(packet.ecn);
                stats.remarked_packets += u64::from(remarked);
            }
            Verdict::Dropped(DropReason::Ecn) => stats.dropped_ecn_packets += 1,
            Verdict::Dropped(DropReason::Mtu) => stats.dropped_mtu_packets += 1,
            Verdict::Dropped(DropReason::Named) => stats.dropped_named_packets += 1,
            Verdict::Dropped(DropReason::Random) => stats.dropped_random_packets += 1,
            Verdict::Dropped(DropReason::Buffer) => stats.dropped_buffer_packets += 1,
            Verdict::Dropped(DropReason::CoDel) => stats.dropped_codel_packets += 1,
            Verdict::Dropped(DropReason::Pie) => stats.dropped_pie_packets += 1,
            Verdict::Dropped(DropReason::Policer) => stats.dropped_policer_packets += 1,
            Verdict::Dropped(DropReason::Pi2) => stats.dropped_pi2_packets += 1,
        }
    }
}
