//! Unchanged behaviour: with Careful Resume and pacing off, the window, the
//! delivery rate and the records of packets are upstream's: per round, over
//! five sequences of ACKs and losses. The figures were made by this very file
//! in the tree of the pristine release, where it compiles as it is.

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

struct PlainSender {
    recovery: Recovery,
    now: Instant,
    next: u64,
}

/// Fate of the packets of one round.
#[derive(Clone, Copy)]
enum RoundFate {
    /// All arrive, after a number of milliseconds.
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

use RoundFate::*;

impl PlainSender {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn new(cc: CongestionControlAlgorithm) -> Self {
        let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(cc);
        config.set_max_send_udp_payload_size(MDS);

        PlainSender {
            recovery: Recovery::new(&config),
            now: Instant::now() + Duration::from_secs(1),
            next: 0,
        }
    }

    fn round(&mut self, round: RoundFate) -> usize {
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
#[case::slow_start(&[Arrive(100); 8], SLOW_START, SLOW_START_RATES, [0, 0])]
#[case::loss(
    &[Arrive(100), Arrive(100), Arrive(100), Lose(9), Arrive(100), Arrive(100),
      Arrive(100), Arrive(100), Arrive(100), Lose(50), Arrive(100), Arrive(100)],
    LOSS, LOSS_RATES, [90, 100]
)]
#[case::spurious(
    &[Arrive(100), Arrive(100), Lose(30), Arrive(100), Reorder, Arrive(100),
      Reorder, Arrive(100), Arrive(100)],
    SPURIOUS, SPURIOUS_RATES, [61, 100]
)]
#[case::limited(
    &[Arrive(100), Limited, Limited, Arrive(100), Lose(20), Limited, Silence,
      Arrive(100)],
    LIMITED, LIMITED_RATES, [40, 40]
)]
#[case::rising_rtt(
    &[Arrive(100), Arrive(100), Arrive(120), Arrive(140), Arrive(160),
      Arrive(180), Arrive(200), Arrive(220), Arrive(240), Arrive(260)],
    RISING_RTT, RISING_RTT_RATES, [0, 0]
)]
fn all_is_upstreams(
    #[case] rounds: &[RoundFate], #[case] windows: [&[usize]; 2],
    #[case] rates: [&[u64]; 2], #[case] kept: [usize; 2],
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = PlainSender::new(cc);
    let start = sender.now;
    let (mut windows_seen, mut rates_seen, mut kept_seen) = (vec![], vec![], 0);
    for round in rounds {
        windows_seen.push(sender.round(*round));
        let recovery = &sender.recovery;
        rates_seen.push(recovery.delivery_rate().to_bytes_per_second() / 1000);
        kept_seen += recovery.sent_packets_len(Epoch::Application);
        assert_eq!(recovery.bytes_in_flight_duration(), sender.now - start);
    }

    assert_eq!(windows_seen, windows[cc as usize]);
    assert_eq!(rates_seen, rates[cc as usize]);
    assert_eq!(kept_seen, kept[cc as usize]);
}

// Reno, CUBIC. Windows are in bytes, rates in kB/s, and packets are kept when
// those before or after them are lost, here summed over the rounds.
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
const SLOW_START_RATES: [&[u64]; 2] = [
    &[120, 240, 480, 960, 1920, 3840, 7680, 15360],
    &[120, 240, 480, 960, 1920, 3840, 7680, 15360],
];
const LOSS_RATES: [&[u64]; 2] = [
    &[120, 240, 480, 852, 504, 504, 516, 528, 540, 540, 276, 276],
    &[120, 240, 480, 852, 696, 696, 732, 756, 780, 792, 576, 576],
];
const SPURIOUS_RATES: [&[u64]; 2] = [
    &[120, 240, 456, 252, 240, 120, 120, 132, 144],
    &[120, 240, 456, 348, 336, 348, 360, 396, 408],
];
const LIMITED_RATES: [&[u64]; 2] = [
    &[120, 60, 60, 240, 456, 60, 12, 264],
    &[120, 60, 60, 240, 456, 84, 16, 432],
];
const RISING_RTT_RATES: [&[u64]; 2] = [
    &[120, 240, 400, 479, 525, 580, 654, 741, 680, 632],
    &[120, 240, 400, 479, 525, 580, 654, 741, 685, 636],
];
