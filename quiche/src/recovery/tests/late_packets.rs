//! Packets that leave after their release time: the timer of the sender was late
//! (RFC 9002, 7.7).

use super::*;

const MDS: usize = 1200;
const EPOCH: packet::Epoch = packet::Epoch::Application;
const MS: Duration = Duration::from_millis(1);

/// A sender of BBR whose window has room, without an RTT sample.
struct LateSender {
    recovery: Recovery,
    next: u64,
    now: Instant,
}

impl LateSender {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn new() -> Self {
        let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm_name("bbr2_gcongestion").unwrap();
        config.set_initial_congestion_window_packets(1000);

        LateSender {
            recovery: Recovery::new(&config),
            next: 0,
            now: Instant::now(),
        }
    }

    /// Sends so many packets, each `late` after its release time. Returns how
    /// long that takes.
    fn send(&mut self, packets: u64, late: Duration) -> Duration {
        let start = self.now;

        for _ in 0..packets {
            let release = self.recovery.get_next_release_time();
            if let Some(release) = release.time(self.now) {
                self.now = release + late;
            }
            let (status, now) = (HandshakeStatus::default(), self.now);
            let packet = test_utils::helper_packet_sent(self.next, now, MDS);
            self.recovery.on_packet_sent(packet, EPOCH, status, now, "");
            self.next += 1;
        }

        self.now.duration_since(start)
    }

    /// Returns how many packets leave at once.
    fn burst(&mut self) -> u64 {
        let before = self.next;
        while self
            .recovery
            .get_next_release_time()
            .time(self.now)
            .is_none()
        {
            self.send(1, Duration::ZERO);
        }
        self.next - before
    }
}

#[test]
fn lateness_does_not_lower_the_rate() {
    let in_time = LateSender::new().send(200, Duration::ZERO);
    assert!(in_time > 10 * MS);

    for late in [MS / 10, MS, 5 * MS] {
        let took = LateSender::new().send(200, late);
        assert!(
            took <= in_time + 2 * late,
            "{late:?}: {took:?}, {in_time:?}"
        );
    }
}

#[test]
fn an_eighth_of_an_rtt_is_made_up_for() {
    let mut sender = LateSender::new();
    sender.send(100, Duration::ZERO);
    let interval = sender.send(100, Duration::ZERO) / 100;

    sender.now += Duration::from_secs(1);
    let burst = interval * sender.burst() as u32;
    let expected = sender.recovery.rtt() / 8;
    assert!(burst.abs_diff(expected) <= 2 * interval, "{burst:?}");
}

#[test]
fn time_without_data_is_not_made_up_for() {
    let mut sender = LateSender::new();
    sender.send(100, Duration::ZERO);

    sender.recovery.on_app_limited();
    sender.now += Duration::from_secs(1);
    assert!(sender.burst() <= 2);
}
