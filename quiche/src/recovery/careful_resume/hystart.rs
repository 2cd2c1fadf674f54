//! HyStart++ beside Careful Resume (RFC 9959, 4.2.1).
//!
//! Its rounds around a jump, phase by phase; the rest of HyStart++ is
//! upstream's.
//!
//! - reconnaissance: as without Careful Resume. Entering conservative slow
//!   start, or leaving slow start, cancels the jump (`slow_start_exit`).
//! - unvalidated: it sees no ACKs, so that it decides nothing, and the window
//!   does not grow in conservative slow start either.
//! - validating: a new round starts with the next packet. As the last round saw
//!   the queue of the jump itself, the new one is compared with the
//!   connection's minimum.
//! - safe retreat, and afterwards: off. This is no longer the first slow start.

use std::time::Duration;

use super::Hystart;

impl Hystart {
    /// Begins a round with the next packet, and compares it with `min_rtt`, the
    /// minimum RTT of the connection.
    pub(crate) fn start_over(&mut self, min_rtt: Option<Duration>) {
        self.window_end = None;
        self.rtt_sample_count = 0;

        // Until then there is nothing to compare with; start_round() then uses
        // the current minimum as the last one.
        self.last_round_min_rtt = Duration::MAX;
        self.current_round_min_rtt = min_rtt.unwrap_or(Duration::MAX);
    }

    /// Switches HyStart++ off for the rest of the connection.
    pub(crate) fn switch_off(&mut self) {
        self.enabled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Acked;
    use super::super::N_RTT_SAMPLE;
    use super::*;
    use crate::clock;

    const MS: Duration = Duration::from_millis(1);

    /// Feeds `acks` ACKs of packet `pkt_num`.
    fn ack(hystart: &mut Hystart, pkt_num: u64, acks: usize, rtt: Duration) {
        let now = clock::now();
        let acked = Acked {
            pkt_num,
            time_sent: now,
            size: 1200,
            rtt,
            delivered: 0,
            delivered_time: now,
            first_sent_time: now,
            is_app_limited: false,
        };

        for _ in 0..acks {
            assert!(!hystart.on_packet_acked(&acked, rtt, now));
        }
    }

    /// HyStart++ after a round of 100 ms and one with the queue of a jump.
    fn jumped() -> Hystart {
        let mut hystart = Hystart::new(true);
        hystart.start_round(0);
        ack(&mut hystart, 0, 10, MS * 100);
        hystart.start_round(10);
        ack(&mut hystart, 9, N_RTT_SAMPLE - 1, MS * 200);
        hystart
    }

    /// B12: RTTs of the jump's own packets are not compared.
    #[test]
    fn restarted_hystart_compares_no_rtt_of_the_jump() {
        let mut hystart = jumped();
        hystart.start_over(Some(MS * 100));
        ack(&mut hystart, 11, 3 * N_RTT_SAMPLE, MS * 200);
        assert!(!hystart.in_css());

        // From here on, with the minimum of the connection.
        hystart.start_round(20);
        ack(&mut hystart, 12, N_RTT_SAMPLE - 1, MS * 113);
        assert!(!hystart.in_css());
        ack(&mut hystart, 12, 1, MS * 113);
        assert!(hystart.in_css());
    }

    #[test]
    fn restarted_hystart_ignores_a_steady_rtt() {
        let mut hystart = jumped();
        hystart.start_over(Some(MS * 100));
        hystart.start_round(20);
        ack(&mut hystart, 12, 10, MS * 112);
        assert!(!hystart.in_css());
    }

    /// B12: what is compared otherwise.
    #[test]
    fn hystart_without_restart_compares_the_jump() {
        let mut hystart = jumped();
        ack(&mut hystart, 9, 1, MS * 200);
        assert!(hystart.in_css());
    }

    #[test]
    fn switched_off_hystart_notices_nothing() {
        let mut hystart = jumped();
        hystart.switch_off();
        ack(&mut hystart, 9, 10, MS * 200);
        assert!(!hystart.in_css());
    }
}
