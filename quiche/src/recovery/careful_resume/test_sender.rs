//! A sender for tests: one controller's recovery with Careful Resume, packets
//! of one size, and time that moves when told.

use super::*;
use crate::clock;
use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::HandshakeStatus;
use crate::recovery::LegacyRecovery;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::CongestionControlAlgorithm;
use std::ops::Range;

pub(crate) const MDS: usize = 1200;
pub(crate) const IW: usize = 10;
pub(crate) const RTT: Duration = Duration::from_millis(100);

pub(crate) fn legacy(recovery: &mut Recovery) -> &mut LegacyRecovery {
    match recovery {
        Recovery::Legacy(legacy) => legacy,
        _ => unreachable!("Reno and CUBIC"),
    }
}

/// Returns a packet of stream data, sent `now`.
pub(crate) fn packet(pkt_num: u64, size: usize, now: Instant) -> Sent {
    Sent {
        time_sent: now,
        delivered_time: now,
        first_sent_time: now,
        pkt_num,
        size,
        in_flight: true,
        ack_eliciting: true,
        has_data: true,
        time_acked: None,
        time_lost: None,
        delivered: 0,
        lost: 0,
        tx_in_flight: 0,
        is_app_limited: false,
        is_pmtud_probe: false,
        frames: Default::default(),
    }
}

impl CarefulResume {
    pub(super) fn unvalidated_packets(&self) -> (Option<u64>, Option<u64>) {
        let jump = self.state.jump().unwrap();
        (jump.first_unvalidated, jump.last_unvalidated)
    }
}

/// A sender that always has data queued, and time that moves when told.
pub(crate) struct Sender {
    pub(crate) recovery: Recovery,
    pub(crate) now: Instant,
    /// The number of the next packet.
    pub(crate) next: u64,
}

impl Sender {
    pub(super) fn new(cc: CongestionControlAlgorithm) -> Self {
        Self::with_pacing(cc, false)
    }

    pub(super) fn with_pacing(
        cc: CongestionControlAlgorithm, paced: bool,
    ) -> Self {
        Self::with_config(cc, Some(CarefulResumeConfig::default()), paced)
    }

    pub(crate) fn with_config(
        cc: CongestionControlAlgorithm, resume: Option<CarefulResumeConfig>,
        paced: bool,
    ) -> Self {
        let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(cc);
        config.set_max_send_udp_payload_size(MDS);
        config.set_initial_congestion_window_packets(IW);
        if let Some(resume) = resume {
            config.set_careful_resume(resume).unwrap();
            config.set_reno_cubic_pacing(paced);
        }

        Self::of(&config)
    }

    /// Returns a sender whose packets `config` allows to have [`MDS`] bytes.
    pub(crate) fn of(config: &crate::Config) -> Self {
        Sender {
            recovery: Recovery::new(config),
            now: clock::now() + Duration::from_secs(1),
            next: 0,
        }
    }

    /// Returns a sender with a saved capacity of `saved` packets.
    pub(super) fn resumed(cc: CongestionControlAlgorithm, saved: usize) -> Self {
        let mut sender = Self::new(cc);
        assert!(sender.careful_resume_from(saved));
        sender
    }

    pub(crate) fn careful_resume_from(&mut self, saved: usize) -> bool {
        let (state, jump_before) = self.saved(saved);

        self.recovery
            .careful_resume_from(state, jump_before, self.now)
    }

    pub(super) fn careful_resume_dry_run(&mut self, saved: usize) -> bool {
        let (state, jump_before) = self.saved(saved);
        let resume = self.recovery.careful_resume_mut().unwrap();

        resume.offer_dry_run(state, jump_before, clock::wall_now(), self.now)
    }

    /// Returns a saved capacity of so many packets, and until when it is good.
    fn saved(&self, packets: usize) -> (PathState, Instant) {
        let observed = clock::wall_now();
        let state = PathState {
            saved_cwnd: (packets * MDS) as u64,
            saved_rtt: RTT,
            observed,
            expires: observed + Duration::from_secs(3600),
            limited: false,
            validated: false,
        };

        (state, self.now + Duration::from_secs(10))
    }

    pub(crate) fn send(&mut self, packets: usize) {
        for _ in 0..packets {
            self.send_packet(false);
        }
    }

    pub(super) fn send_sized(&mut self, size: usize) {
        let sent = packet(self.next, size, self.now);
        self.on_sent(sent, Epoch::Application);
    }

    /// Sends a packet that asks for no ACK.
    pub(super) fn send_ack_only(&mut self) {
        let sent = Sent {
            in_flight: false,
            ack_eliciting: false,
            has_data: false,
            ..packet(self.next, 0, self.now)
        };
        self.on_sent(sent, Epoch::Application);
    }

    pub(super) fn send_mtu_probe(&mut self) {
        self.send_packet(true);
    }

    fn send_packet(&mut self, is_pmtud_probe: bool) {
        let sent = Sent {
            has_data: !is_pmtud_probe,
            is_pmtud_probe,
            ..packet(self.next, MDS, self.now)
        };
        self.on_sent(sent, Epoch::Application);
    }

    /// Sends one packet of a packet number space.
    pub(crate) fn send_in(&mut self, epoch: Epoch) {
        self.on_sent(packet(self.next, MDS, self.now), epoch);
    }

    fn on_sent(&mut self, sent: Sent, epoch: Epoch) {
        let status = HandshakeStatus::default();

        self.recovery
            .on_packet_sent(sent, epoch, status, self.now, "");
        self.recovery.update_app_limited(false);
        self.next += 1;
    }

    /// Sends until the window is full. Returns how many packets that took.
    pub(crate) fn fill(&mut self) -> usize {
        let packets = self.recovery.cwnd_available() / MDS;
        self.send(packets);
        packets
    }

    pub(crate) fn ack(&mut self, packets: Range<u64>) {
        self.ack_in(Epoch::Application, packets, Duration::ZERO);
    }

    /// Takes an ACK of a packet number space, which the peer has delayed.
    pub(crate) fn ack_in(
        &mut self, epoch: Epoch, packets: Range<u64>, ack_delay: Duration,
    ) {
        let mut ranges = RangeSet::default();
        ranges.insert(packets);

        self.recovery
            .on_ack_received(
                &ranges,
                ack_delay.as_micros() as u64,
                epoch,
                HandshakeStatus::default(),
                self.now,
                None,
                "",
            )
            .unwrap();
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Sends the initial window, and acknowledges it.
    pub(super) fn reconnoitre(&mut self) {
        self.fill();
        self.wait(RTT);
        self.ack(0..IW as u64);
    }

    pub(crate) fn window(&self) -> usize {
        self.recovery.cwnd() / MDS
    }

    pub(super) fn careful_resume(&self) -> &CarefulResume {
        self.recovery.careful_resume().unwrap()
    }

    /// Returns the current RTT; None also after reconnaissance.
    pub(super) fn current_rtt(&self) -> Option<Duration> {
        match &self.careful_resume().state {
            State::Reconnaissance(phase) => phase.current_rtt.get(),
            _ => None,
        }
    }

    /// Returns the first and the last unvalidated packet.
    pub(super) fn unvalidated_packets(&self) -> (Option<u64>, Option<u64>) {
        self.careful_resume().unvalidated_packets()
    }

    /// Returns the soft limit of slow start after a jump.
    pub(super) fn soft_growth(&self) -> Option<&SoftGrowth> {
        self.careful_resume().growth_limit.soft()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.careful_resume().phase()
    }

    pub(super) fn pipe_size(&self) -> usize {
        self.careful_resume().stats().pipe_size / MDS
    }

    pub(super) fn triggers(&mut self) -> Vec<(Phase, Option<Trigger>)> {
        let resume = self.recovery.careful_resume_mut().unwrap();
        std::iter::from_fn(|| resume.next_event())
            .map(|event| (event.new, event.trigger))
            .collect()
    }

    /// Returns the conditions of the state machine now.
    pub(super) fn conditions(&self) -> Conditions {
        Conditions {
            now: self.now,
            cwnd: self.recovery.cwnd(),
            ssthresh: usize::MAX,
            flight_size: self.recovery.bytes_in_flight(),
            initial_window: IW * MDS,
            max_datagram_size: MDS,
            rtt: self.recovery.rtt(),
            min_rtt: self.recovery.min_rtt(),
            window_limited: true,
            has_left_slow_start: false,
        }
    }
}
