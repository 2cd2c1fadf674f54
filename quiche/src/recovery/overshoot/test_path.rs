//! Test path: one bottleneck with an unlimited queue.
//!
//! The path sends one ACK per packet; the sender doubles as fast as ACKs come.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use super::AckSample;
use super::Verdict;
use crate::clock;

pub(crate) const MDS: usize = 1350;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TestPath {
    /// Packets that the path holds without a queue.
    pub(crate) bdp: usize,
    pub(crate) rtt: Duration,
    /// By this part of itself the RTT swings, in 3.3 RTTs.
    pub(crate) swing: f64,
}

/// Outcome of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// The window at the end, in packets.
    pub(crate) window: usize,
    /// The longest queue, in packets.
    pub(crate) queue: usize,
    /// Slow start ended.
    pub(crate) is_exit: bool,
    /// Round trips until then, or until the end.
    pub(crate) rtts: f64,
}

impl TestPath {
    pub(crate) fn new(bdp: usize, rtt_ms: u64) -> Self {
        TestPath {
            bdp,
            rtt: Duration::from_millis(rtt_ms),
            swing: 0.0,
        }
    }

    fn rtt_at(&self, elapsed: Duration) -> Duration {
        let rtts = elapsed.as_secs_f64() / self.rtt.as_secs_f64();
        let swing = (std::f64::consts::TAU * rtts / 3.3).sin();
        self.rtt.mul_f64(1.0 + self.swing * swing)
    }

    /// Sends from a window of `from` packets until slow start ends, or the
    /// window has `most`. `judge` says how far it grows.
    pub(crate) fn send(
        &self, from: usize, most: usize,
        mut judge: impl FnMut(&AckSample) -> Verdict,
    ) -> Sent {
        let mut sender = PacedSender::new(*self, from);

        while !sent_all(&sender, most) {
            let Some(ack) = sender.step() else {
                continue;
            };

            match judge(&ack) {
                Verdict::Grow(bytes) => sender.window += bytes,
                Verdict::Exit => sender.sent.is_exit = true,
            }
        }

        let elapsed = sender.now - sender.start;
        sender.sent.window = sender.window / MDS;
        sender.sent.rtts = elapsed.as_secs_f64() / self.rtt.as_secs_f64();
        sender.sent
    }
}

fn sent_all(sender: &PacedSender, most: usize) -> bool {
    sender.sent.is_exit || sender.window >= most * MDS
}

#[derive(Clone, Copy, Debug)]
struct InFlightPacket {
    number: u64,
    sent: Instant,
    acked: Instant,
}

/// A sender that is paced at two windows an RTT.
struct PacedSender {
    path: TestPath,
    start: Instant,
    now: Instant,
    window: usize,
    flight: VecDeque<InFlightPacket>,
    next_number: u64,
    next_release: Instant,
    /// When the bottleneck has sent what it has.
    free: Instant,
    min_rtt: Duration,
    sent: Sent,
}

impl PacedSender {
    fn new(path: TestPath, from: usize) -> Self {
        let start = clock::now();

        PacedSender {
            path,
            start,
            now: start,
            window: from * MDS,
            flight: VecDeque::new(),
            next_number: 0,
            next_release: start,
            free: start,
            min_rtt: Duration::MAX,
            sent: Sent::default(),
        }
    }

    /// Sends a packet, or takes an ACK.
    fn step(&mut self) -> Option<AckSample> {
        let next_ack = self.flight.front().map(|packet| packet.acked);
        let release = self.now.max(self.next_release);
        let has_room = self.flight.len() < self.window / MDS;

        if has_room && next_ack.is_none_or(|ack| release <= ack) {
            self.now = release;
            self.transmit();
            return None;
        }

        self.flight.pop_front().map(|packet| self.ack(packet))
    }

    fn transmit(&mut self) {
        let service = self.path.rtt / self.path.bdp as u32;
        let queued = self.free.saturating_duration_since(self.now);
        let queued = queued.as_secs_f64() / service.as_secs_f64();
        self.sent.queue = self.sent.queue.max(queued as usize);

        self.free = self.free.max(self.now) + service;
        let acked = self.free + self.path.rtt_at(self.now - self.start);
        self.flight.push_back(InFlightPacket {
            number: self.next_number,
            sent: self.now,
            acked,
        });
        self.next_number += 1;
        let packets = (self.window / MDS) as u32;
        self.next_release = self.now + self.path.rtt / (2 * packets);
    }

    fn ack(&mut self, packet: InFlightPacket) -> AckSample {
        self.now = self.now.max(packet.acked);
        let rtt = self.now - packet.sent;
        self.min_rtt = self.min_rtt.min(rtt);

        AckSample {
            now: self.now,
            rtt,
            min_rtt: self.min_rtt,
            bytes: MDS,
            largest_acked: packet.number,
            largest_sent: self.next_number - 1,
            cwnd: self.window,
            grown: MDS,
            max_datagram_size: MDS,
        }
    }
}
