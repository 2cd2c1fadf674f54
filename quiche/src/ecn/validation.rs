//! Whether a path carries marks (RFC 9000, 13.4.2 and A.4).
//!
//! Owns the state of one path and the packets sent on it with ECT(0). The first
//! packets of a path are a test. Marks are sent again when an ACK has shown
//! that one of them arrived as ECT(0); a path that clears, changes or drops
//! marks goes on without. CE marks count from then on: a path on which every
//! packet arrives as CE says nothing about congestion.

use std::ops::Range;
use std::time::Instant;

use smallvec::SmallVec;

use super::jump_queue::JumpQueue;
use super::scalable::Scalable;
use super::Codepoint;
use super::EcnConfig;
use super::EcnState;
use super::Feedback;
use super::Marks;
use crate::packet::Epoch;
use crate::recovery::careful_resume::CarefulResume;

/// Packets of a test, and packets all of which arrive as CE before a path
/// counts as one that changes marks.
const TEST_PACKETS: u64 = 10;

/// Packets of a test with L4S: a handshake and an initial window. Over a dual
/// queue, the marked ones overtake the others, which would seem to be lost.
const L4S_TEST_PACKETS: u64 = 20;

/// Probe timeouts in a row after which a path that carried marks goes on
/// without: it may drop them now.
const TIMEOUTS_MAX: u32 = 2;

/// Runs of marked packets that are remembered. Validation is less strict for
/// the packets of others.
const RUNS_MAX: usize = 4;

/// Marks on one path.
#[derive(Debug)]
pub(crate) struct PathEcn {
    config: EcnConfig,
    state: EcnState,

    /// Packets that the test may still mark.
    test_left: u64,

    /// Acknowledged marked packets while all have arrived as CE.
    all_ce: u64,

    /// The codepoint of the datagram that is being written.
    codepoint: Codepoint,

    /// Marked packets, by packet number space.
    marked: [MarkedPackets; Epoch::count()],

    /// What the ACK that is being processed says.
    feedback: Feedback,

    /// The response to marks of L4S, while that is in use.
    scalable: Option<Scalable>,

    jump_queue: JumpQueue,

    #[cfg(feature = "qlog")]
    pub(super) logged: Option<EcnState>,
}

impl PathEcn {
    pub(crate) fn new(config: EcnConfig) -> Self {
        PathEcn {
            config,
            state: EcnState::Testing,
            test_left: if config.l4s {
                L4S_TEST_PACKETS
            } else {
                TEST_PACKETS
            },
            all_ce: 0,
            codepoint: Codepoint::NotEct,
            marked: Default::default(),
            feedback: Feedback::Stale,
            scalable: config.l4s.then(Scalable::default),
            jump_queue: JumpQueue::default(),
            #[cfg(feature = "qlog")]
            logged: None,
        }
    }

    pub(crate) fn config(&self) -> EcnConfig {
        self.config
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Returns the codepoint of the next datagram.
    pub(crate) fn next_codepoint(&self) -> Codepoint {
        let is_testing = self.state == EcnState::Testing && self.test_left > 0;

        match self.state == EcnState::Capable || is_testing {
            true if self.scalable.is_some() => Codepoint::Ect1,
            true => Codepoint::Ect0,
            false => Codepoint::NotEct,
        }
    }

    /// Returns the response to marks of L4S, unless the path is one of classic
    /// queues, or not known to carry marks.
    pub(crate) fn scalable(&mut self) -> Option<&mut Scalable> {
        self.scalable.take_if(|scalable| scalable.is_over());

        let scalable = self.scalable.as_mut();
        scalable.filter(|_| self.state == EcnState::Capable)
    }

    /// Whether the queue that a jump has left has marked a packet, by its number
    /// and when it was sent.
    pub(crate) fn is_of_jump(
        &mut self, resume: Option<&CarefulResume>, packet: (u64, Instant),
        now: Instant,
    ) -> bool {
        let last_before = resume.and_then(CarefulResume::last_before_retreat);
        last_before
            .is_some_and(|last| self.jump_queue.has_marked(packet, last, now))
    }

    /// Begins a datagram. Returns its codepoint.
    #[inline]
    pub(crate) fn begin_datagram(&mut self) -> Codepoint {
        self.codepoint = self.next_codepoint();

        if self.state == EcnState::Testing && self.test_left == 0 {
            self.state = EcnState::Unknown;
        }

        self.codepoint
    }

    /// Takes a packet of the datagram. Returns whether it is marked.
    #[inline]
    pub(crate) fn on_packet_sent(&mut self, epoch: Epoch, pkt_num: u64) -> bool {
        let is_marked = self.codepoint != Codepoint::NotEct;
        if self.state == EcnState::Testing && is_marked {
            self.test_left = self.test_left.saturating_sub(1);
        }
        self.marked[epoch].on_sent(pkt_num, is_marked);
        is_marked
    }

    /// Takes a probe timeout, with the number of them in a row: what is marked
    /// may be dropped for it.
    pub(crate) fn on_timeout(&mut self, timeouts: u32) {
        let is_suspected = match self.state {
            EcnState::Testing => true,
            EcnState::Capable => timeouts >= TIMEOUTS_MAX,
            EcnState::Unknown | EcnState::Failed => false,
        };

        if is_suspected {
            self.state = EcnState::Unknown;
        }
    }

    /// Gives what the ACK says that is processed next.
    pub(crate) fn set_feedback(&mut self, feedback: Feedback) {
        self.feedback = feedback;
    }

    /// Takes an ACK that newly acknowledges `acked` packets of the path,
    /// `acked_below(n)` of them with numbers below n. Returns the new marks to be
    /// answered.
    #[inline]
    pub(crate) fn on_acked(
        &mut self, epoch: Epoch, acked: usize, acked_below: impl Fn(u64) -> usize,
    ) -> Marks {
        match std::mem::take(&mut self.feedback) {
            Feedback::New(new) if self.is_as_expected(&new, acked) => {
                Marks::default()
            },

            feedback => self.validate(epoch, feedback, acked_below),
        }
    }

    /// Returns whether an ACK of so many packets changes nothing: if all of them
    /// were marked, all the marks arrived, none of them as CE. Most ACKs.
    fn is_as_expected(&self, new: &Marks, acked: usize) -> bool {
        self.state == EcnState::Capable
            && self.scalable.is_none()
            && new.ce == 0
            && new.ect0 + new.ect1 >= acked as u64
    }

    #[inline(never)]
    fn validate(
        &mut self, epoch: Epoch, feedback: Feedback,
        acked_below: impl Fn(u64) -> usize,
    ) -> Marks {
        let marked = self.marked[epoch].count(acked_below);

        if marked == 0 || self.state == EcnState::Failed {
            return Marks::default();
        }

        match feedback {
            Feedback::Stale => Marks::default(),

            Feedback::New(new) if new.ect0 + new.ect1 + new.ce >= marked => {
                self.on_valid(new, marked)
            },

            // RFC 9000, 13.4.2.1: counts are missing, or too small.
            _ => {
                self.state = EcnState::Failed;
                Marks::default()
            },
        }
    }

    fn on_valid(&mut self, new: Marks, marked: u64) -> Marks {
        if new.ect0 + new.ect1 > 0 {
            self.state = EcnState::Capable;
        }

        if self.state == EcnState::Capable {
            return new;
        }

        self.all_ce += marked;

        if self.all_ce >= TEST_PACKETS {
            self.state = EcnState::Failed;
        }

        Marks::default()
    }
}

/// Numbers of the packets of a space that were marked, in runs: packets of other
/// paths, and numbers that are skipped, do not end one.
#[derive(Debug, Default)]
struct MarkedPackets {
    /// The last run; empty before the first marked packet.
    last: Range<u64>,

    /// Those before it.
    earlier: SmallVec<[Range<u64>; 1]>,

    /// Whether the last packet is of the last run.
    is_marking: bool,
}

impl MarkedPackets {
    #[inline]
    fn on_sent(&mut self, pkt_num: u64, is_marked: bool) {
        if is_marked && !self.is_marking {
            self.begin_run(pkt_num);
        }
        if is_marked {
            self.last.end = pkt_num + 1;
        }
        self.is_marking = is_marked;
    }

    #[inline(never)]
    fn begin_run(&mut self, pkt_num: u64) {
        let before = std::mem::replace(&mut self.last, pkt_num..pkt_num + 1);

        if self.earlier.len() + 1 == RUNS_MAX {
            self.earlier.remove(0);
        }
        if !before.is_empty() {
            self.earlier.push(before);
        }
    }

    /// Returns how many packets were marked, of those of which `below(n)` have
    /// numbers below n.
    fn count(&self, below: impl Fn(u64) -> usize) -> u64 {
        let count = |run: &Range<u64>| (below(run.end) - below(run.start)) as u64;

        count(&self.last) + self.earlier.iter().map(count).sum::<u64>()
    }
}

#[cfg(test)]
#[path = "validation_tests.rs"]
mod tests;
