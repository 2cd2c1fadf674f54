//! Window of Reno and CUBIC with a scalable response: in congestion avoidance it
//! grows by about a packet a round trip, also while marks arrive.
//!
//! Slow start and losses are those of the controller.

use super::Acked;
use super::Congestion;
use super::MarkResponse;
use crate::ecn::scalable::growth;
use crate::ecn::scalable::growth_beside_cubic;
use crate::recovery::congestion::cubic::CUBIC;
use crate::recovery::congestion::reno::RENO;
use crate::recovery::congestion::CongestionControlOps;
use crate::recovery::rtt::RttStats;
use crate::recovery::Sent;
use crate::recovery::MINIMUM_WINDOW_PACKETS;
use std::time::Instant;

static RENO_L4S: CongestionControlOps = CongestionControlOps {
    on_packets_acked: reno_on_packets_acked,
    congestion_event: reno_congestion_event,
    ..RENO
};

static CUBIC_L4S: CongestionControlOps = CongestionControlOps {
    on_packets_acked: cubic_on_packets_acked,
    congestion_event: cubic_congestion_event,
    ..CUBIC
};

impl Congestion {
    /// Changes between the window of the controller and this one.
    pub(super) fn set_scalable(&mut self, is_scalable: bool, now: Instant) {
        let is = |ops| std::ptr::eq(self.cc_ops, ops);

        match is_scalable {
            true if is(&RENO) => self.cc_ops = &RENO_L4S,
            true if is(&CUBIC) => self.cc_ops = &CUBIC_L4S,
            false if is(&RENO_L4S) => self.cc_ops = &RENO,
            false if is(&CUBIC_L4S) => {
                self.cc_ops = &CUBIC;
                // CUBIC grows from here.
                self.set_cubic_plateau(self.congestion_window as f64);
                self.congestion_recovery_start_time = Some(now);
            },
            _ => (),
        }
    }

    fn shrink(&mut self, factor: f64) {
        let window = (self.congestion_window as f64 * factor) as usize;
        let least = self.max_datagram_size * MINIMUM_WINDOW_PACKETS;

        self.congestion_window = window.max(least);
        self.ssthresh
            .update(self.congestion_window, self.hystart.in_css());

        if self.hystart.in_css() {
            self.hystart.congestion_event();
        }
    }

    /// Grows by `packets` for a window of acknowledged packets.
    fn grow(&mut self, pkt: &Acked, packets: f64) {
        if self.app_limited {
            return;
        }
        self.bytes_acked_ca += (pkt.size as f64 * packets) as usize;

        if self.bytes_acked_ca >= self.congestion_window {
            self.bytes_acked_ca -= self.congestion_window;
            self.congestion_window += self.max_datagram_size;
        }
    }

    /// Takes the packets that congestion avoidance answers, and leaves those
    /// of slow start or a recovery period to the controller.
    fn avoid_congestion(&mut self, packets: &mut Vec<Acked>, growth: f64) {
        if self.congestion_window < self.ssthresh.get() {
            return;
        }
        packets.retain(|pkt| {
            let is_left = self.in_congestion_recovery(pkt.time_sent);
            if !is_left {
                self.grow(pkt, growth);
            }
            is_left
        });
    }
}

fn reno_on_packets_acked(
    r: &mut Congestion, flight: usize, packets: &mut Vec<Acked>, now: Instant,
    rtt: &RttStats,
) {
    r.avoid_congestion(packets, growth(rtt.rtt()));
    (RENO.on_packets_acked)(r, flight, packets, now, rtt);
}

fn cubic_on_packets_acked(
    r: &mut Congestion, flight: usize, packets: &mut Vec<Acked>, now: Instant,
    rtt: &RttStats,
) {
    let window = r.congestion_window as f64 / r.max_datagram_size as f64;
    r.avoid_congestion(packets, growth_beside_cubic(rtt.rtt(), window));
    (CUBIC.on_packets_acked)(r, flight, packets, now, rtt);
}

fn reno_congestion_event(
    r: &mut Congestion, flight: usize, lost: usize, largest: &Sent, now: Instant,
) {
    match r.mark_response {
        MarkResponse::Scalable(factor) => r.shrink(factor),
        _ => (RENO.congestion_event)(r, flight, lost, largest, now),
    }
}

fn cubic_congestion_event(
    r: &mut Congestion, flight: usize, lost: usize, largest: &Sent, now: Instant,
) {
    match r.mark_response {
        MarkResponse::Scalable(factor) => r.shrink(factor),
        _ => (CUBIC.congestion_event)(r, flight, lost, largest, now),
    }
}
