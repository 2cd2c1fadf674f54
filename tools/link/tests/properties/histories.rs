//! Random links and arrivals, and the fates of the packets.

use link::Change;
use link::Ecn;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::Rate;
use link::Verdict;
use proptest::prelude::*;
use std::time::Duration;

/// One packet's arrival, after the one before it.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub gap: Duration,
    pub size_bytes: u32,
    pub ecn: Ecn,
}

pub fn ecns() -> impl Strategy<Value = Ecn> {
    prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect1), Just(Ecn::Ect0), Just(Ecn::Ce)]
}

pub fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    // Bursts, and pauses that let the buffer run empty.
    let gap_ns = prop_oneof![Just(0), 0..50_000_u64, 0..20_000_000_u64];
    let arrival = (gap_ns, 28..2_000_u32, ecns()).prop_map(|(gap_ns, size_bytes, ecn)| {
        let gap = Duration::from_nanos(gap_ns);
        Arrival { gap, size_bytes, ecn }
    });
    prop::collection::vec(arrival, 1..300)
}

pub fn rates() -> impl Strategy<Value = Rate> {
    (1_000_000..10_000_000_000_u64).prop_map(|bits| Rate::from_bits_per_s(bits).unwrap())
}

pub fn configs() -> impl Strategy<Value = LinkConfig> {
    (rates(), 0..700_000_000_u64, 0..60_000_u64, 0.0..0.3_f64, any::<u64>()).prop_map(
        |(rate, delay_ns, buffer_bytes, loss, seed)| {
            let delay = Duration::from_nanos(delay_ns);
            LinkConfig { loss, seed, ..LinkConfig::new(rate, delay, buffer_bytes) }
        },
    )
}

/// Generates changes in order, close enough to fall on packets of [`arrivals`].
pub fn changes() -> impl Strategy<Value = Vec<Change>> {
    let gap_ns = prop_oneof![Just(0), 0..20_000_u64, 0..50_000_000_u64];
    let delay = prop::option::of((0..100_000_000_u64).prop_map(Duration::from_nanos));
    let change = (gap_ns, prop::option::of(rates()), delay, prop::option::of(0.0..0.3_f64));
    prop::collection::vec(change, 0..20).prop_map(|changes| {
        let mut at = Duration::ZERO;
        let in_order = changes.into_iter().map(|(gap_ns, rate, delay, loss)| {
            at += Duration::from_nanos(gap_ns);
            Change { at, rate, delay, loss }
        });
        in_order.collect()
    })
}

/// Fate of one packet.
pub struct Passage {
    pub now: Duration,
    pub size_bytes: u32,
    pub ecn: Ecn,
    pub verdict: Verdict,
    pub backlog_before_bytes: u64,
    pub backlog_after_bytes: u64,
}

pub fn run(config: &LinkConfig, arrivals: &[Arrival]) -> Vec<Passage> {
    let mut link = Link::new(config.clone()).unwrap();
    let mut now = Duration::ZERO;
    let mut passages = Vec::new();
    for (arrival, number) in arrivals.iter().zip(1..) {
        now += arrival.gap;
        let backlog_before_bytes = link.backlog(now).bytes;
        let Arrival { size_bytes, ecn, .. } = *arrival;
        let verdict = link.offer(now, Packet { size_bytes, number, ecn });
        let backlog_after_bytes = link.backlog(now).bytes;
        passages.push(Passage {
            now,
            size_bytes,
            ecn,
            verdict,
            backlog_before_bytes,
            backlog_after_bytes,
        });
    }
    passages
}

pub fn verdicts(config: &LinkConfig, arrivals: &[Arrival]) -> Vec<Verdict> {
    run(config, arrivals).into_iter().map(|passage| passage.verdict).collect()
}

/// A packet that passed.
pub struct Sent {
    pub came: Duration,
    pub size_bytes: u32,
    /// When its last bit left, which is before the propagation delay.
    pub left: Duration,
    pub ecn: Ecn,
    pub left_with: Ecn,
}

/// Returns the packets that passed a link whose delay is constant.
pub fn sent(config: &LinkConfig, arrivals: &[Arrival]) -> Vec<Sent> {
    let passages = run(config, arrivals).into_iter();
    let passed = passages.filter_map(|Passage { now: came, size_bytes, ecn, verdict, .. }| {
        let Verdict::Delivered { at, ecn: left_with } = verdict else { return None };
        Some(Sent { came, size_bytes, left: at - config.delay, ecn, left_with })
    });
    passed.collect()
}
