//! CoDel, decided at the offer, compared with a queue that decides at its head.

use crate::histories::ecns;
use link::DropReason;
use link::Ecn;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::Queue;
use link::Rate;
use link::Verdict;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const TARGET_NS: u64 = 5_000_000;
const INTERVAL_NS: u64 = 100_000_000;

/// 8 Mbit/s: a byte takes a microsecond.
const FAST_BYTE_NS: u64 = 1_000;

/// 0.5 Mbit/s: an MTU takes longer than the target.
const SLOW_BYTE_NS: u64 = 16_000;

const MTU_BYTES: u64 = 1_500;

/// Condition under which a packet of a short queue is spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spared {
    /// It found no more than an MTU.
    Ahead,
    /// It leaves no more than an MTU: RFC 8289.
    Behind,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    index: usize,
    came_ns: u64,
    size_bytes: u64,
    found_bytes: u64,
    ecn: Ecn,
}

/// One packet: when it comes, in ns, its size in bytes, and its codepoint.
type Offered = (u64, u64, Ecn);

/// The codepoint with which a packet leaves.
type Fate = Result<Ecn, DropReason>;

/// RFC 8289, 5.2 to 5.6: a queue from which a transmitter takes packets. Where it would drop an
/// ECN-capable packet, it marks and sends it.
#[derive(Debug)]
struct Router {
    spared: Spared,
    byte_ns: u64,
    buffer_bytes: u64,
    queue: VecDeque<Queued>,
    free_at_ns: u64,
    first_above_ns: u64,
    drop_next_ns: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
    fates: Vec<Fate>,
}

impl Router {
    fn new(spared: Spared, byte_ns: u64, buffer_bytes: u64) -> Self {
        Self {
            spared,
            byte_ns,
            buffer_bytes,
            queue: VecDeque::new(),
            free_at_ns: 0,
            first_above_ns: 0,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            dropping: false,
            fates: Vec::new(),
        }
    }

    fn fates(mut self, arrivals: &[Offered]) -> Vec<Fate> {
        for &arrival in arrivals {
            self.send_until(arrival.0);
            self.arrive(arrival);
        }
        self.send_until(u64::MAX);
        self.fates
    }

    fn arrive(&mut self, (now_ns, size_bytes, ecn): Offered) {
        let found_bytes = self.bytes();
        let starts = self.free_at_ns <= now_ns;
        if starts || found_bytes + size_bytes <= self.buffer_bytes {
            let index = self.fates.len();
            self.queue.push_back(Queued { index, came_ns: now_ns, size_bytes, found_bytes, ecn });
            self.fates.push(Ok(ecn));
        } else {
            self.fates.push(Err(DropReason::Buffer));
        }
    }

    fn bytes(&self) -> u64 {
        self.queue.iter().map(|packet| packet.size_bytes).sum()
    }

    fn send_until(&mut self, until_ns: u64) {
        while let Some(front) = self.queue.front() {
            let now_ns = front.came_ns.max(self.free_at_ns);
            if now_ns > until_ns {
                return;
            }
            if let Some(packet) = self.dequeue(now_ns) {
                self.free_at_ns = now_ns + packet.size_bytes * self.byte_ns;
            }
        }
    }

    /// Returns the next packet, and whether it may be dropped.
    fn take(&mut self, now_ns: u64) -> (Option<Queued>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above_ns = 0;
            return (None, false);
        };
        let short_bytes = match self.spared {
            Spared::Ahead => packet.found_bytes,
            Spared::Behind => self.bytes(),
        };
        if now_ns - packet.came_ns < TARGET_NS || short_bytes <= MTU_BYTES {
            self.first_above_ns = 0;
            return (Some(packet), false);
        }
        if self.first_above_ns == 0 {
            self.first_above_ns = now_ns + INTERVAL_NS;
            return (Some(packet), false);
        }
        (Some(packet), now_ns >= self.first_above_ns)
    }

    /// Returns whether the packet could be marked, and is to be sent.
    fn mark_or_drop(&mut self, packet: Option<Queued>) -> bool {
        let packet = packet.expect("only what is there may be dropped");
        let marked = packet.ecn != Ecn::NotEct;
        self.fates[packet.index] = if marked { Ok(Ecn::Ce) } else { Err(DropReason::CoDel) };
        marked
    }

    fn dequeue(&mut self, now_ns: u64) -> Option<Queued> {
        let (mut packet, mut may_drop) = self.take(now_ns);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now_ns >= self.drop_next_ns {
                self.count += 1;
                if self.mark_or_drop(packet) {
                    self.drop_next_ns = self.law(self.drop_next_ns);
                    break;
                }
                (packet, may_drop) = self.take(now_ns);
                if may_drop {
                    self.drop_next_ns = self.law(self.drop_next_ns);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            if !self.mark_or_drop(packet) {
                (packet, _) = self.take(now_ns);
            }
            self.dropping = true;
            let delta = self.count - self.last_count;
            let recent = now_ns < self.drop_next_ns + 16 * INTERVAL_NS;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next_ns = self.law(now_ns);
            self.last_count = self.count;
        }
        packet
    }

    fn law(&self, time_ns: u64) -> u64 {
        time_ns + (INTERVAL_NS as f64 / (self.count as f64).sqrt()) as u64
    }
}

fn link(byte_ns: u64, buffer_bytes: u64) -> Link {
    let rate = Rate::from_bits_per_s(8 * 1_000_000_000 / byte_ns).unwrap();
    let config = LinkConfig {
        queue: Queue::CoDel,
        mtu_bytes: MTU_BYTES as u32,
        ..LinkConfig::new(rate, Duration::ZERO, buffer_bytes)
    };
    Link::new(config).unwrap()
}

/// Returns the fates by the link of the same arrivals.
fn by_offer(byte_ns: u64, buffer_bytes: u64, arrivals: &[Offered]) -> Vec<Fate> {
    let mut link = link(byte_ns, buffer_bytes);
    arrivals.iter().map(|&arrival| fate(offer(&mut link, arrival))).collect()
}

fn offer(link: &mut Link, (now_ns, size_bytes, ecn): Offered) -> Verdict {
    let packet = Packet { size_bytes: size_bytes as u32, number: 1, ecn };
    link.offer(Duration::from_nanos(now_ns), packet)
}

fn fate(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Delivered { ecn, .. } => Ok(ecn),
        Verdict::Dropped(reason) => Err(reason),
    }
}

/// Gives the packets the codepoints, again and again.
fn with_ecn(arrivals: &[Offered], ecns: &[Ecn]) -> Vec<Offered> {
    let coded = arrivals.iter().zip(ecns.iter().cycle());
    coded.map(|(&(now_ns, size_bytes, _), &ecn)| (now_ns, size_bytes, ecn)).collect()
}

/// Phases of load between a third and four times the rate, with bursts.
fn arrivals(byte_ns: u64) -> impl Strategy<Value = Vec<Offered>> {
    let phase = (1..400_usize, 250 * byte_ns..3_000 * byte_ns, any::<bool>(), 100..=MTU_BYTES);
    prop::collection::vec(phase, 1..6).prop_map(|phases| {
        let mut arrivals = Vec::new();
        // Not at 0, which the algorithm of the RFC takes for no time at all.
        let mut now_ns = 1;
        for (count, gap_ns, in_pairs, size_bytes) in phases {
            for n in 0..count {
                now_ns += if in_pairs && n % 2 == 1 { 0 } else { gap_ns };
                arrivals.push((now_ns, size_bytes, Ecn::NotEct));
            }
        }
        arrivals
    })
}

/// Returns `count` arrivals of 1,000 bytes, twice as fast as they leave.
fn overload(count: u64) -> Vec<Offered> {
    (1..=count).map(|n| (n * 500 * FAST_BYTE_NS, 1_000, Ecn::NotEct)).collect()
}

proptest! {
    /// The whole point of deciding early: nothing changes.
    #[test]
    fn verdict_at_offer_is_that_at_the_head(
        buffer_bytes in 0..400_000_u64,
        fast in arrivals(FAST_BYTE_NS),
        slow in arrivals(SLOW_BYTE_NS),
    ) {
        for (byte_ns, arrivals) in [(FAST_BYTE_NS, fast), (SLOW_BYTE_NS, slow)] {
            let at_head = Router::new(Spared::Ahead, byte_ns, buffer_bytes).fates(&arrivals);
            prop_assert_eq!(by_offer(byte_ns, buffer_bytes, &arrivals), at_head);
        }
    }

    /// The same for marks, whatever is between them.
    #[test]
    fn mark_at_offer_is_that_at_the_head(
        buffer_bytes in 50_000..400_000_u64,
        fast in arrivals(FAST_BYTE_NS),
        slow in arrivals(SLOW_BYTE_NS),
        ecns in prop::collection::vec(ecns(), 1..50),
    ) {
        for (byte_ns, arrivals) in [(FAST_BYTE_NS, fast), (SLOW_BYTE_NS, slow)] {
            let arrivals = with_ecn(&arrivals, &ecns);
            let at_head = Router::new(Spared::Ahead, byte_ns, buffer_bytes).fates(&arrivals);
            prop_assert_eq!(by_offer(byte_ns, buffer_bytes, &arrivals), at_head);
        }
    }

    /// After any history, CoDel marks a packet that can be marked exactly where it would drop one
    /// that cannot. The histories differ only afterwards: a marked packet takes its time to send.
    #[test]
    fn packet_is_marked_exactly_where_it_would_be_dropped(
        buffer_bytes in 50_000..400_000_u64,
        arrivals in arrivals(FAST_BYTE_NS),
        ecns in prop::collection::vec(ecns(), 1..50),
    ) {
        let mut link = link(FAST_BYTE_NS, buffer_bytes);
        for (now_ns, size_bytes, ecn) in with_ecn(&arrivals, &ecns) {
            let verdict_with = |ecn| offer(&mut link.clone(), (now_ns, size_bytes, ecn));
            let plain = verdict_with(Ecn::NotEct);
            for capable in [Ecn::Ect0, Ecn::Ect1] {
                match (plain, verdict_with(capable)) {
                    (Verdict::Dropped(DropReason::CoDel), with) => {
                        prop_assert_eq!(fate(with), Ok(Ecn::Ce));
                    }
                    (Verdict::Delivered { at, .. }, with) => {
                        prop_assert_eq!(with, Verdict::Delivered { at, ecn: capable });
                    }
                    (dropped, with) => prop_assert_eq!(with, dropped),
                }
            }
            offer(&mut link, (now_ns, size_bytes, ecn));
        }
    }
}

#[test]
fn standing_queue_of_capable_packets_loses_none() {
    let arrivals = with_ecn(&overload(2_000), &[Ecn::Ect0, Ecn::Ect1, Ecn::Ce]);
    let mut link = link(FAST_BYTE_NS, u64::MAX);
    let fates: Vec<Fate> =
        arrivals.iter().map(|&arrival| fate(offer(&mut link, arrival))).collect();
    assert_eq!(fates.iter().filter(|fate| fate.is_err()).count(), 0);
    let marked = arrivals.iter().zip(&fates).filter(|((.., came), fate)| **fate != Ok(*came));
    let marked = marked.count() as u64;
    // Of the marked packets a third had CE, and are counted, too.
    let counted = link.stats().marked_packets;
    assert!(marked > 4 && counted > marked && counted < 2 * marked, "{marked} {counted}");
    assert_eq!(link.stats().accepted_packets, 2_000);
}

#[test]
fn standing_queue_is_treated_as_by_rfc_8289() {
    for count in [500, 1_000, 1_999, 2_000, 2_001, 2_002] {
        let arrivals = overload(count);
        let offered = by_offer(FAST_BYTE_NS, u64::MAX, &arrivals);
        let real = Router::new(Spared::Behind, FAST_BYTE_NS, u64::MAX).fates(&arrivals);
        assert!(offered.iter().filter(|fate| fate.is_err()).count() > 4, "{count}");
        let but_the_last_two = arrivals.len() - 2;
        assert_eq!(offered[..but_the_last_two], real[..but_the_last_two], "{count}");
    }
}

#[test]
fn doomed_packet_keeps_its_place_in_the_buffer() {
    let mut link = link(FAST_BYTE_NS, u64::MAX);
    let mut waiting = 0;
    for arrival in overload(1_000) {
        let now = Duration::from_nanos(arrival.0);
        waiting = link.backlog(now).packets;
        if offer(&mut link, arrival) == Verdict::Dropped(DropReason::CoDel) {
            // 1 ms a packet, and one on the wire.
            let at_head = now + Duration::from_millis(waiting as u64 + 1);
            assert_eq!(link.backlog(now).packets, waiting + 1);
            assert_eq!(link.backlog(at_head).packets, 0);
            return;
        }
    }
    panic!("{waiting} wait, and none was dropped");
}
