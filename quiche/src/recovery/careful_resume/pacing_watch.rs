//! Pacing watchdog: notices packets that left long before their release times
//! (RFC 9959, 3.3).
//!
//! An application that does not wait for release times sends a jump as one
//! burst, and measures RTTs that are too short. That it builds packets early
//! proves nothing: it may hold them until they are due, or hand them to a queue
//! that does. What proves it is delivery. The RTT of the path is at most the
//! time from building a packet to its ACK, and a packet whose ACK comes less
//! than the RTT after its release time left before that.
//!
//! A packet is early if that difference exceeds an eighth of the RTT, and 8 ms.
//! So an application that looks ahead by less is never accused, whatever its
//! clock, its timers and the path do. One that looks further ahead may meet a
//! path that becomes shorter, which makes all packets early alike; what leaves
//! when it is built is earlier the longer it should have waited. So the verdict
//! takes a run of early packets that grow earlier with their lead.
//!
//! ACK delays count in favour of the application, and so does a queue of the
//! path. Packets that are due at once, and probes, prove nothing. On paths of
//! less than about 20 ms the watch sees no burst.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

/// Packets that are marked per RTT.
const MARKS_PER_RTT: u32 = 32;

/// Limit on the marked packets in flight.
const MARKS_MAX: usize = 64;

/// A packet is early by more than this share of the RTT, and this time.
const EARLY_RTT_DIVISOR: u32 = 8;
const EARLY_MIN: Duration = Duration::from_millis(8);

/// Marked packets in a row that are early.
const RUN_MIN: usize = 4;

/// Share of their lead by which the packets of a run become earlier.
const SLOPE_DIVISOR: u32 = 3;

/// A packet whose ACK is examined.
#[derive(Clone, Copy, Debug)]
struct WatchedPacket {
    pkt_num: u64,

    /// When it was built: it left no sooner.
    built: Instant,

    /// Time from then to its release.
    lead: Duration,
}

/// A packet that was early.
#[derive(Clone, Copy, Debug)]
struct Early {
    lead: Duration,
    by: Duration,
}

/// Early packets in a row: how many, and those with the shortest and the
/// longest lead.
#[derive(Clone, Copy, Debug)]
struct EarlyRun {
    packets: usize,
    shortest: Early,
    longest: Early,
}

impl EarlyRun {
    fn extended(run: Option<EarlyRun>, early: Early) -> Self {
        let Some(run) = run else {
            return EarlyRun {
                packets: 1,
                shortest: early,
                longest: early,
            };
        };

        let pick = |is_better: bool, held| if is_better { early } else { held };

        EarlyRun {
            packets: run.packets + 1,
            shortest: pick(early.lead < run.shortest.lead, run.shortest),
            longest: pick(early.lead > run.longest.lead, run.longest),
        }
    }

    /// Whether the packets left when they were built, not at their release.
    fn is_proof(&self, tolerance: Duration) -> bool {
        let leads = self.longest.lead - self.shortest.lead;
        let earlier = self.longest.by.saturating_sub(self.shortest.by);

        self.packets >= RUN_MIN
            && leads >= tolerance
            && earlier >= leads / SLOPE_DIVISOR
    }
}

/// Watchdog of one path.
#[derive(Debug, Default)]
pub(super) struct PacingWatch {
    marks: VecDeque<WatchedPacket>,

    /// Release time of the last marked packet.
    marked: Option<Instant>,

    /// Upper bound on the RTT: the shortest time from building a packet to its
    /// ACK, without the peer's delay.
    rtt: Option<Duration>,

    run: Option<EarlyRun>,

    /// Whether packets leave long before their release times.
    is_unpaced: bool,
}

impl PacingWatch {
    pub(super) fn is_unpaced(&self) -> bool {
        self.is_unpaced
    }

    /// Takes a packet that was built and released at these times.
    #[inline]
    pub(super) fn on_packet_sent(
        &mut self, pkt_num: u64, built: Instant, release: Instant,
    ) {
        // Most packets of an application that paces: `mark()` would not take
        // them either.
        if release == built && !self.marks.is_empty() {
            return;
        }

        self.mark(pkt_num, built, release);
    }

    #[inline(never)]
    fn mark(&mut self, pkt_num: u64, built: Instant, release: Instant) {
        // Without a lead, a packet tells the RTT only: one in flight is enough.
        let has_lead = release > built + EARLY_MIN;
        let marks_max = if has_lead { MARKS_MAX } else { 1 };

        if self.is_unpaced || self.marks.len() >= marks_max {
            return;
        }

        let gap = self.rtt.unwrap_or_default() / MARKS_PER_RTT;
        // A jump starts a new schedule, perhaps before the end of the old one.
        let is_next = |marked| release < marked || release - marked >= gap;

        if self.marked.is_none_or(is_next) {
            self.marked = Some(release);
            self.marks.push_back(WatchedPacket {
                pkt_num,
                built,
                lead: release.saturating_duration_since(built),
            });
        }
    }

    /// Returns whether an ACK of packets up to `largest` is to be examined.
    #[inline]
    pub(super) fn awaits(&self, largest: u64) -> bool {
        self.marks
            .front()
            .is_some_and(|mark| mark.pkt_num <= largest)
    }

    /// Takes the newly acknowledged packets of an ACK, in order, and how long
    /// the peer says that it delayed it. Returns whether the ACK completes the
    /// proof that packets leave early.
    pub(super) fn on_acked(
        &mut self, pkt_nums: impl Iterator<Item = u64>, ack_delay: Duration,
        now: Instant,
    ) -> bool {
        for pkt_num in pkt_nums {
            // Those before it are lost, or late: nobody waits for them.
            while let Some(mark) = self.pop_mark_up_to(pkt_num) {
                if mark.pkt_num == pkt_num {
                    self.examine(&mark, ack_delay, now);
                }
            }

            if self.marks.is_empty() {
                break;
            }
        }

        let is_found = self.run_is_proof();

        if is_found {
            *self = PacingWatch {
                is_unpaced: true,
                ..Default::default()
            };
        }

        is_found
    }

    fn pop_mark_up_to(&mut self, pkt_num: u64) -> Option<WatchedPacket> {
        let first = self.marks.front()?;
        (first.pkt_num <= pkt_num).then(|| self.marks.pop_front())?
    }

    fn examine(
        &mut self, mark: &WatchedPacket, ack_delay: Duration, now: Instant,
    ) {
        let delivered = now.saturating_duration_since(mark.built);
        let sample = delivered.saturating_sub(ack_delay);
        let rtt = self.rtt.map_or(sample, |rtt| rtt.min(sample));
        self.rtt = Some(rtt);

        let tolerance = tolerance(rtt);

        if mark.lead <= tolerance {
            return;
        }

        let by = (rtt + mark.lead).saturating_sub(delivered);

        self.run = (by > tolerance).then(|| {
            let early = Early {
                lead: mark.lead,
                by,
            };
            EarlyRun::extended(self.run, early)
        });
    }

    fn run_is_proof(&self) -> bool {
        let run = self.run.zip(self.rtt);
        run.is_some_and(|(run, rtt)| run.is_proof(tolerance(rtt)))
    }
}

/// Says once in the log of the process that the application does not pace.
/// Returns whether this was the first time.
pub(crate) fn warn_not_paced() -> bool {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);

    let is_first = !HAS_WARNED.swap(true, Ordering::Relaxed);

    if is_first {
        warn!(
            "packets leave long before their release times: connections neither jump nor save; \
             call get_next_release_time() before send(), or delay packets to SendInfo::at"
        );
    }

    is_first
}

/// Returns by how much a packet may be early.
fn tolerance(rtt: Duration) -> Duration {
    (rtt / EARLY_RTT_DIVISOR).max(EARLY_MIN)
}

#[cfg(all(test, feature = "internal"))]
#[path = "pacing_watch_tests.rs"]
mod tests;
