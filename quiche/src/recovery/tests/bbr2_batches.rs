//! Batches of BBR2's packets: release times that several packets share.

use super::*;

const MDS: usize = 1200;
const EPOCH: packet::Epoch = packet::Epoch::Application;
const RTT: Duration = Duration::from_millis(50);
const MS: Duration = Duration::from_millis(1);

/// A sender whose window has room, without an RTT sample, at a rate of the window
/// an RTT and more.
struct BatchedSender {
    recovery: Recovery,
    next: u64,
    now: Instant,
}

impl BatchedSender {
    fn new(window_packets: usize, has_batches: bool) -> Self {
        Self::over(RTT, window_packets, has_batches)
    }

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn over(rtt: Duration, window_packets: usize, has_batches: bool) -> Self {
        let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm_name("bbr2_gcongestion").unwrap();
        config.set_initial_congestion_window_packets(window_packets);
        config.set_initial_rtt(rtt);
        config.set_bbr2_batches(has_batches);

        BatchedSender {
            recovery: Recovery::new(&config),
            next: 0,
            now: Instant::now(),
        }
    }

    fn send_one(&mut self, size: usize) {
        let (status, now) = (HandshakeStatus::default(), self.now);
        let packet = test_utils::helper_packet_sent(self.next, now, size);
        self.recovery.on_packet_sent(packet, EPOCH, status, now, "");
        self.next += 1;
    }

    /// Sends so many packets when they are due. Returns how many leave together.
    fn send(&mut self, packets: u64, size: usize) -> Vec<usize> {
        let mut batches = vec![];

        for _ in 0..packets {
            let release = self.recovery.get_next_release_time().time(self.now);
            self.now = release.unwrap_or(self.now);
            match batches.last_mut() {
                Some(batch) if release.is_none() => *batch += 1,
                _ => batches.push(1),
            }
            self.send_one(size);
        }

        batches
    }
}

/// Returns how long so many packets take.
fn time(has_batches: bool, packets: u64) -> Duration {
    let mut sender = BatchedSender::new(10_000, has_batches);
    sender.send(20, MDS);
    let start = sender.now;
    sender.send(packets, MDS);
    sender.now - start
}

#[test]
fn packets_of_half_a_millisecond_leave_together() {
    let mut sender = BatchedSender::new(1000, true);
    sender.send(20, MDS);
    let start = sender.now;
    let batches = sender.send(400, MDS);
    let batch = (sender.now - start) / batches.len() as u32;

    assert!(
        batches[1..batches.len() - 1].iter().all(|n| *n > 20),
        "{batches:?}"
    );
    assert!(batch > MS * 4 / 10 && batch < MS * 6 / 10, "{batch:?}");
}

#[test]
fn each_packet_has_its_time_without_batches() {
    let mut sender = BatchedSender::new(1000, false);
    sender.send(20, MDS);
    assert_eq!(sender.send(400, MDS).iter().max(), Some(&1));
}

#[test]
fn batches_keep_the_rate() {
    let (alone, together) = (time(false, 4000), time(true, 4000));
    assert!(
        together.abs_diff(alone) <= 2 * MS,
        "{together:?}, {alone:?}"
    );
}

// Bytes are what a batch has, however small its first packet is.
#[test]
fn small_packet_begins_no_larger_batch() {
    let mut sender = BatchedSender::new(1000, true);
    sender.send(20, MDS);
    let full = sender.send(400, MDS).into_iter().max().unwrap();
    sender.send(1, 40);
    let after = sender.send(400, MDS).into_iter().max().unwrap();
    assert!(after <= full + 1, "{after}, {full}");
}

#[test]
fn batch_is_at_most_64_kib_and_a_quarter_of_the_window() {
    let largest = |rtt, window| {
        let mut sender = BatchedSender::over(rtt, window, true);
        sender.send(window as u64 / 5, MDS);
        let sent = sender.send(window as u64 / 2, MDS);
        sent.into_iter().skip(1).max().unwrap()
    };
    assert!(largest(RTT, 10_000) == 64 * 1024 / MDS);
    // At this rate, half a millisecond is 27 packets.
    assert!(largest(2 * MS, 40) <= 10);
}
