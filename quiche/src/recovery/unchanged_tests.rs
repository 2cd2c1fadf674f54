//! With Careful Resume and pacing off, the window and what is measured besides are
//! upstream's, over five sequences of ACKs and losses. The figures were made by
//! this very file in the tree of the pristine release, where it compiles as it is.

use std::time::Duration;
use std::time::Instant;

use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

const MDS: usize = 1200;

struct Sender {
    recovery: Recovery,
    now: Instant,
    next: u64,
}

/// What happens to the packets of one round.
#[derive(Clone, Copy)]
enum Round {
    /// All arrive, after so many milliseconds.
    Arrive(u64),

    /// Every n-th is lost.
    Lose(u64),

    /// The first arrives after all others.
    Reorder,

    /// The application has a quarter of the window to send.
    Limited,

    /// Nothing arrives before the probe time-out.
    Silence,
}

use Round::*;

/// The delivery rate in kB/s, for how many milliseconds bytes have been in flight,
/// and of how many packets something is kept.
type Measured = (u64, u128, usize);

impl Sender {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn new(cc: CongestionControlAlgorithm) -> Self {
        let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(cc);
        config.set_max_send_udp_payload_size(MDS);

        Sender {
            recovery: Recovery::new(&config),
            now: Instant::now() + Duration::from_secs(1),
            next: 0,
        }
    }

    fn round(&mut self, round: Round) -> usize {
        let first = self.next;
        let in_flight = self.recovery.bytes_in_flight();
        let window = self.recovery.cwnd().saturating_sub(in_flight) / MDS;

        match round {
            Limited => self.send((window / 4).max(1), true),
            _ => self.send(window.max(1), false),
        }

        let packets: Vec<u64> = (first..self.next).collect();
        let wait = match round {
            Arrive(ms) => ms,
            _ => 100,
        };
        self.now += Duration::from_millis(wait);

        match round {
            Arrive(_) | Limited => self.ack(&packets),
            Lose(n) => {
                let kept = packets.iter().copied().filter(|p| p % n != 0);
                self.ack(&kept.collect::<Vec<_>>());
            },
            Reorder => {
                self.ack(&packets[1..]);
                self.ack(&packets[..1]);
            },
            Silence => {
                self.now += Duration::from_secs(2);
                let status = HandshakeStatus::default();
                self.recovery
                    .on_loss_detection_timeout(status, self.now, "");
                self.ack(&packets);
            },
        }

        self.recovery.cwnd()
    }

    fn measured(&self) -> Measured {
        (
            self.recovery.delivery_rate().to_bytes_per_second() / 1000,
            self.recovery.bytes_in_flight_duration().as_millis(),
            self.recovery.sent_packets_len(Epoch::Application),
        )
    }

    fn send(&mut self, packets: usize, is_app_limited: bool) {
        for _ in 0..packets {
            let sent = Sent {
                pkt_num: self.next,
                frames: Default::default(),
                time_sent: self.now,
                time_acked: None,
                time_lost: None,
                size: MDS,
                ack_eliciting: true,
                in_flight: true,
                delivered: 0,
                delivered_time: self.now,
                first_sent_time: self.now,
                is_app_limited: false,
                tx_in_flight: 0,
                lost: 0,
                has_data: true,
                is_pmtud_probe: false,
            };
            let (epoch, status) =
                (Epoch::Application, HandshakeStatus::default());

            self.recovery
                .on_packet_sent(sent, epoch, status, self.now, "");
            self.recovery.update_app_limited(is_app_limited);
            self.next += 1;
        }
    }

    /// One ACK for two packets.
    fn ack(&mut self, packets: &[u64]) {
        for pair in packets.chunks(2) {
            let mut ranges = RangeSet::default();
            for packet in pair {
                ranges.insert(*packet..*packet + 1);
            }
            let (epoch, status) =
                (Epoch::Application, HandshakeStatus::default());

            self.recovery
                .on_ack_received(&ranges, 0, epoch, status, self.now, None, "")
                .unwrap();
        }
    }
}

#[rstest]
#[case::slow_start(&[Arrive(100); 8], SLOW_START, SLOW_START_MEASURED)]
#[case::loss(
    &[Arrive(100), Arrive(100), Arrive(100), Lose(9), Arrive(100), Arrive(100),
      Arrive(100), Arrive(100), Arrive(100), Lose(50), Arrive(100), Arrive(100)],
    LOSS, LOSS_MEASURED
)]
#[case::spurious(
    &[Arrive(100), Arrive(100), Lose(30), Arrive(100), Reorder, Arrive(100),
      Reorder, Arrive(100), Arrive(100)],
    SPURIOUS, SPURIOUS_MEASURED
)]
#[case::limited(
    &[Arrive(100), Limited, Limited, Arrive(100), Lose(20), Limited, Silence,
      Arrive(100)],
    LIMITED, LIMITED_MEASURED
)]
#[case::rising_rtt(
    &[Arrive(100), Arrive(100), Arrive(120), Arrive(140), Arrive(160),
      Arrive(180), Arrive(200), Arrive(220), Arrive(240), Arrive(260)],
    RISING_RTT, RISING_RTT_MEASURED
)]
fn all_is_upstreams(
    #[case] rounds: &[Round], #[case] windows: [&[usize]; 2],
    #[case] measured: [&[Measured]; 2],
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::new(cc);
    let (windows_seen, measured_seen): (Vec<_>, Vec<_>) = rounds
        .iter()
        .map(|round| (sender.round(*round), sender.measured()))
        .unzip();

    assert_eq!(windows_seen, windows[cc as usize]);
    assert_eq!(measured_seen, measured[cc as usize]);
}

// Reno, CUBIC.
const SLOW_START: [&[usize]; 2] = [
    &[
        24000, 48000, 96000, 192000, 384000, 768000, 1536000, 3072000,
    ],
    &[
        24000, 48000, 96000, 192000, 384000, 768000, 1536000, 3072000,
    ],
];
const LOSS: [&[usize]; 2] = [
    &[
        24000, 48000, 96000, 50400, 50400, 51600, 52800, 54000, 55200, 28200,
        28200, 29400,
    ],
    &[
        24000, 48000, 96000, 70560, 70560, 74160, 76560, 78960, 81360, 57791,
        57791, 84960,
    ],
];
const SPURIOUS: [&[usize]; 2] = [
    &[
        24000, 48000, 25200, 25200, 12600, 12600, 13800, 15000, 16200,
    ],
    &[
        24000, 48000, 35280, 35280, 35280, 37680, 40080, 41280, 42480,
    ],
];
const LIMITED: [&[usize]; 2] = [
    &[24000, 24000, 24000, 48000, 25200, 25200, 26400, 27600],
    &[24000, 24000, 24000, 48000, 35280, 35280, 43680, 47280],
];
const RISING_RTT: [&[usize]; 2] = [
    &[
        24000, 48000, 67200, 84000, 105000, 131100, 163800, 164100, 165300,
        166500,
    ],
    &[
        24000, 48000, 67200, 84000, 105000, 131100, 163800, 165300, 166500,
        167700,
    ],
];
const SLOW_START_MEASURED: [&[Measured]; 2] = [
    &[
        (120, 100, 0),
        (240, 200, 0),
        (480, 300, 0),
        (960, 400, 0),
        (1920, 500, 0),
        (3840, 600, 0),
        (7680, 700, 0),
        (15360, 800, 0),
    ],
    &[
        (120, 100, 0),
        (240, 200, 0),
        (480, 300, 0),
        (960, 400, 0),
        (1920, 500, 0),
        (3840, 600, 0),
        (7680, 700, 0),
        (15360, 800, 0),
    ],
];
const LOSS_MEASURED: [&[Measured]; 2] = [
    &[
        (120, 100, 0),
        (240, 200, 0),
        (480, 300, 0),
        (852, 400, 78),
        (504, 500, 0),
        (504, 600, 0),
        (516, 700, 0),
        (528, 800, 0),
        (540, 900, 0),
        (540, 1000, 12),
        (276, 1100, 0),
        (276, 1200, 0),
    ],
    &[
        (120, 100, 0),
        (240, 200, 0),
        (480, 300, 0),
        (852, 400, 78),
        (696, 500, 0),
        (696, 600, 0),
        (732, 700, 0),
        (756, 800, 0),
        (780, 900, 0),
        (792, 1000, 22),
        (576, 1100, 0),
        (576, 1200, 0),
    ],
];
const SPURIOUS_MEASURED: [&[Measured]; 2] = [
    &[
        (120, 100, 0),
        (240, 200, 0),
        (456, 300, 40),
        (252, 400, 0),
        (240, 500, 21),
        (120, 600, 0),
        (120, 700, 0),
        (132, 800, 0),
        (144, 900, 0),
    ],
    &[
        (120, 100, 0),
        (240, 200, 0),
        (456, 300, 40),
        (348, 400, 0),
        (336, 500, 29),
        (348, 600, 0),
        (360, 700, 31),
        (396, 800, 0),
        (408, 900, 0),
    ],
];
const LIMITED_MEASURED: [&[Measured]; 2] = [
    &[
        (120, 100, 0),
        (60, 200, 0),
        (60, 300, 0),
        (240, 400, 0),
        (456, 500, 40),
        (60, 600, 0),
        (12, 2700, 0),
        (264, 2800, 0),
    ],
    &[
        (120, 100, 0),
        (60, 200, 0),
        (60, 300, 0),
        (240, 400, 0),
        (456, 500, 40),
        (84, 600, 0),
        (16, 2700, 0),
        (432, 2800, 0),
    ],
];
const RISING_RTT_MEASURED: [&[Measured]; 2] = [
    &[
        (120, 100, 0),
        (240, 200, 0),
        (400, 320, 0),
        (479, 460, 0),
        (525, 620, 0),
        (580, 800, 0),
        (654, 1000, 0),
        (741, 1220, 0),
        (680, 1460, 0),
        (632, 1720, 0),
    ],
    &[
        (120, 100, 0),
        (240, 200, 0),
        (400, 320, 0),
        (479, 460, 0),
        (525, 620, 0),
        (580, 800, 0),
        (654, 1000, 0),
        (741, 1220, 0),
        (685, 1460, 0),
        (636, 1720, 0),
    ],
];
