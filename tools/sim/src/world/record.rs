//! Record of one running connection, which checks the rules.

use std::time::Duration;

use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::Trigger;
use quiche::careful_resume_stats;
use quiche::path_state::PathState;
use quiche::slow_start::SlowStartStats;
use quiche::slow_start_stats;
use quiche::ActivePath;
use quiche::PathStats;

use super::packets::PACKET_BYTES_MAX;
use super::plan::FlowPlan;
use crate::invariants::Observation;
use crate::invariants::ResumeRules;
use crate::invariants::Violation;
use crate::scenario::Mode;

quiche::stand_ins!();

/// Round trips whose window is noted.
const ROUNDS_MAX: usize = 1000;

/// A change of phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseChange {
    pub at: Duration,
    pub phase: Phase,
    pub trigger: Option<Trigger>,
}

/// A jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    pub cwnd: usize,
    /// Packets dropped until the path had validated or refused it, and their bytes; None until then.
    validated: Option<(u64, u64)>,
}

/// Record of a connection at its server.
#[derive(Debug)]
pub struct Record {
    /// When the client's first packet arrived.
    pub accepted: Duration,
    rtt: Duration,
    resumes: bool,
    rules: ResumeRules,
    /// The last of what was seen.
    window: usize,
    phase: Phase,

    /// The window at the end of each round trip, in packets; when the first
    /// round trip began.
    pub rounds: Vec<u64>,
    first_round: Option<Duration>,

    pub changes: Vec<PhaseChange>,
    pub saved_cwnd: Option<u64>,
    pub jump: Option<Jump>,
    pub observed_cwnd: Option<u64>,

    sent_bytes: u64,
    /// Of these, at the client.
    pub arrived_bytes: u64,
    pub sent_packets: usize,
    pub lost_packets: usize,
    pub lost_bytes: u64,
    pub probe_timeouts: usize,
    pub dropped_packets: u64,
    pub dropped_bytes: u64,
    /// Packets that arrived as CE; None if it does not mark.
    pub marked_packets: Option<u64>,
    pub first_drop: Option<Duration>,

    bdp_bytes: u64,
    /// Time at which the window first held that much.
    pub full: Option<Duration>,
    pub slow_start: SlowStartStats,
}

impl Record {
    pub fn new(plan: &FlowPlan) -> Self {
        let resumes = plan.mode == Mode::CarefulResume;
        Self {
            accepted: Duration::ZERO,
            rtt: plan.rtt,
            resumes,
            rules: ResumeRules::new(PACKET_BYTES_MAX, plan.max_jump)
                .late(!plan.release_late.is_zero()),
            window: 0,
            phase: if resumes { Phase::Reconnaissance } else { Phase::Normal },
            rounds: vec![],
            first_round: None,
            changes: vec![],
            saved_cwnd: None,
            jump: None,
            observed_cwnd: None,
            sent_bytes: 0,
            arrived_bytes: 0,
            sent_packets: 0,
            lost_packets: 0,
            lost_bytes: 0,
            probe_timeouts: 0,
            dropped_packets: 0,
            dropped_bytes: 0,
            marked_packets: None,
            first_drop: None,
            bdp_bytes: plan.bdp_bytes,
            full: None,
            slow_start: SlowStartStats::default(),
        }
    }

    /// Notes that the request has arrived, and the response begins.
    pub fn on_request(&mut self, now: Duration) {
        self.first_round.get_or_insert(now);
    }

    /// Notes the state before an event of the connection at `now`.
    pub fn before(&mut self, now: Duration) {
        let Some(first) = self.first_round else { return };
        while self.rounds.len() < ROUNDS_MAX {
            if first + self.rtt * (self.rounds.len() as u32 + 1) > now {
                return;
            }
            self.rounds.push((self.window / PACKET_BYTES_MAX) as u64);
        }
    }

    /// Notes the state after an event of the connection at `now`.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn after(&mut self, now: Duration, quic: &quiche::Connection) -> Result<(), Violation> {
        let Some(stats) = quic.active_path() else {
            return Ok(());
        };
        self.window = stats.cwnd;
        if stats.cwnd as u64 >= self.bdp_bytes {
            self.full.get_or_insert(now);
        }
        let was_over = self.phase == Phase::Normal;
        self.phase = careful_resume_stats(&stats).map_or(Phase::Normal, |resume| resume.phase);
        if was_over && self.phase == Phase::Normal {
            self.rules.on_window(stats.cwnd)?;
        } else {
            self.check(now, &stats)?;
        }
        self.slow_start = slow_start_stats(&stats);
        self.note_jump(&stats);
        Ok(())
    }

    /// Counts a packet of `bytes` that the bottleneck drops.
    pub fn on_dropped(&mut self, now: Duration, bytes: usize) {
        self.dropped_packets += 1;
        self.dropped_bytes += bytes as u64;
        self.first_drop.get_or_insert(now);
    }

    fn check(&mut self, now: Duration, stats: &PathStats) -> Result<(), Violation> {
        let Some(resume) = careful_resume_stats(stats) else {
            return Ok(());
        };
        self.rules.on_state(&Observation {
            now,
            phase: resume.phase,
            window: stats.cwnd,
            pipe_size: resume.pipe_size,
            jump_cwnd: resume.jump_cwnd,
            min_rtt: stats.min_rtt.unwrap_or(stats.rtt),
            slow_start: slow_start_stats(stats),
            sent_bytes: self.sent_bytes,
            arrived_bytes: self.arrived_bytes,
            probe_timeouts: stats.total_pto_count,
        })
    }

    /// Notes the jump, and its end: packets that leave later go at a rate that the path has shown.
    fn note_jump(&mut self, stats: &PathStats) {
        let jump_cwnd = careful_resume_stats(stats).and_then(|resume| resume.jump_cwnd);
        if let (None, Some(cwnd)) = (self.jump, jump_cwnd) {
            self.jump = Some(Jump { cwnd, validated: None });
        }
        if matches!(self.phase, Phase::SafeRetreat | Phase::Normal) {
            let dropped = (self.dropped_packets, self.dropped_bytes);
            if let Some(jump) = &mut self.jump {
                jump.validated.get_or_insert(dropped);
            }
        }
    }

    /// Returns the packets that were dropped until the path had validated or refused the jump, and
    /// their bytes; None without a jump.
    pub fn dropped_before_validated(&self) -> Option<(u64, u64)> {
        let all = (self.dropped_packets, self.dropped_bytes);
        self.jump.map(|jump| jump.validated.unwrap_or(all))
    }

    /// Notes a packet that leaves, made in `phase`.
    ///
    /// # Errors
    ///
    /// It leaves too early.
    pub fn on_sent(&mut self, now: Duration, bytes: usize, phase: Phase) -> Result<(), Violation> {
        self.sent_bytes += bytes as u64;
        match phase {
            Phase::Unvalidated => self.rules.on_sent(bytes, now),
            _ => Ok(()),
        }
    }

    /// Notes that the connection was given saved parameters.
    pub fn on_given(&mut self, saved_cwnd: u64) {
        self.saved_cwnd = Some(saved_cwnd);
        self.rules.on_given(saved_cwnd);
    }

    /// Notes a change of phase.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_event(&mut self, at: Duration, event: &CarefulResumeEvent) -> Result<(), Violation> {
        self.changes.push(PhaseChange { at, phase: event.new, trigger: event.trigger });
        self.rules.on_event(event)
    }

    /// Notes the end of the connection at `now`.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn finish(
        &mut self,
        now: Duration,
        quic: &quiche::Connection,
        observed: Option<PathState>,
    ) -> Result<(), Violation> {
        self.before(now);
        if let Some(stats) = quic.active_path() {
            self.sent_packets = stats.sent;
            self.lost_packets = stats.lost;
            self.probe_timeouts = stats.total_pto_count;
        }
        self.lost_bytes = quic.stats().lost_bytes;
        let ecn = quic.ecn_stats();
        self.marked_packets = ecn.state.map(|_| ecn.reported.ce);
        self.observed_cwnd = observed.filter(|_| self.resumes).map(|state| state.saved_cwnd);
        self.after(now, quic)
    }

    /// Leaves out the round trips that ended later than `end`.
    pub fn end_rounds(&mut self, end: Duration) {
        let first = self.first_round.unwrap_or(end);
        let rounds = end.saturating_sub(first).as_nanos() / self.rtt.as_nanos().max(1);
        self.rounds.truncate(usize::try_from(rounds).unwrap_or(usize::MAX));
    }
}
