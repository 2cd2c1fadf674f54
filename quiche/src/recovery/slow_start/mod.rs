//! Slow-start exits: HyStart++ (RFC 9406, upstream's), a standing queue,
//! SEARCH, or loss alone; and Rapid Start.
//!
//! The choice and its names, and the exit as an application and a log see it.
//! The rules of SEARCH are in [`search`], those of a standing queue in
//! [`overshoot`]. What Careful Resume changes about HyStart++ is in
//! `careful_resume/hystart.rs`, and about SEARCH in `hooks.rs`.
//!
//! [`search`]: crate::recovery::search
//! [`overshoot`]: crate::recovery::overshoot

mod exit;
#[cfg(feature = "ffi")]
mod ffi;
#[cfg(feature = "qlog")]
mod qlog;
pub(super) mod rapid;

use std::time::Instant;

pub use self::exit::*;

use self::rapid::Convergence;
use super::overshoot::room::Gone;
use super::overshoot::room::Room;
use super::overshoot::AckSample;
use super::overshoot::Doubling;
use super::overshoot::Growth;
use super::overshoot::PathHistory;
#[cfg(feature = "qlog")]
use super::search::Evaluation;
use super::search::Search;
use super::RecoveryConfig;
use crate::Config;
use crate::Result;

impl Config {
    /// Chooses what ends slow start of Reno and CUBIC, besides congestion. BBR2
    /// has a startup phase of its own. [`SlowStartExit::Queue`] and
    /// [`SlowStartExit::Rapid`] turn pacing on: bursts would queue at every
    /// RTT.
    ///
    /// The later call of this and [`enable_hystart()`] decides: enabling
    /// HyStart++ replaces any other exit.
    ///
    /// The default value is [`SlowStartExit::HyStart`].
    ///
    /// # Errors
    ///
    /// [`Error::CongestionControl`] for invalid settings of SEARCH:
    /// a window outside 1 to 16 RTTs, bins outside 2 to 64, or a threshold that
    /// is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use quiche::slow_start::SlowStartExit;
    ///
    /// let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    /// config.set_slow_start_exit(SlowStartExit::Search(Default::default()))?;
    /// # Ok::<(), quiche::Error>(())
    /// ```
    ///
    /// [`enable_hystart()`]: Config::enable_hystart
    /// [`Error::CongestionControl`]: crate::Error::CongestionControl
    pub fn set_slow_start_exit(&mut self, exit: SlowStartExit) -> Result<()> {
        self.search = match exit {
            SlowStartExit::Search(search) => {
                search.check()?;
                Some(search)
            },
            _ => None,
        };
        self.rapid_start = exit == SlowStartExit::Rapid;
        self.queue_exit = exit == SlowStartExit::Queue || self.rapid_start;
        self.enable_hystart(exit == SlowStartExit::HyStart);

        Ok(())
    }
}

impl RecoveryConfig {
    // HyStart++ may have been enabled after the choice of another exit.
    fn has_queue_exit(&self) -> bool {
        self.queue_exit && !self.hystart
    }

    pub(super) fn paces_reno_cubic(&self) -> bool {
        self.reno_cubic_pacing || self.has_queue_exit()
    }
}

/// Watch for a standing queue.
#[derive(Debug, Default)]
pub(super) struct QueueWatch {
    pub(super) path: PathHistory,
    pub(super) doubling: Doubling,
    /// Whether this is Rapid Start.
    is_rapid: bool,
    /// Slow start goes on after the queue of other flows had ended it.
    is_again: bool,
}

impl QueueWatch {
    /// Returns the growth of the window if no queue shows.
    pub(super) fn growth(&self, ack: &AckSample) -> Growth {
        let excess = self.path.excess(ack).unwrap_or_default();

        match self.is_rapid && rapid::may_triple(excess, ack.min_rtt) {
            true => Growth::Twice,
            false if self.is_again => Growth::Half,
            false => Growth::Full,
        }
    }
}

/// State of one path until its first slow start is over.
#[derive(Debug)]
pub(crate) struct SlowStart {
    pub(super) search: Option<Box<Search>>,
    pub(super) queue: Option<Box<QueueWatch>>,
    /// The watch for the end of the queue that ended slow start.
    pub(super) room: Option<Box<Room>>,
    /// The window after the end of Rapid Start.
    pub(super) convergence: Option<Convergence>,
    /// The window to which SEARCH drains, in bytes.
    pub(super) drain: Option<usize>,
    /// The window before the latest event, in bytes.
    pub(super) window: usize,
    pub(super) stats: SlowStartStats,
    /// The part of the statistics that the log has.
    #[cfg(feature = "qlog")]
    logged: SlowStartStats,
    /// The latest evaluation that the log does not have.
    #[cfg(feature = "qlog")]
    evaluation: Option<Evaluation>,
}

impl SlowStart {
    pub(crate) fn new(config: &RecoveryConfig) -> Self {
        let search = config.search.filter(|_| !config.hystart);

        SlowStart {
            search: search.map(|search| Box::new(Search::new(search))),
            queue: config.has_queue_exit().then(|| {
                Box::new(QueueWatch {
                    is_rapid: config.rapid_start,
                    ..Default::default()
                })
            }),
            room: None,
            convergence: None,
            drain: None,
            window: 0,
            stats: Default::default(),
            #[cfg(feature = "qlog")]
            logged: Default::default(),
            #[cfg(feature = "qlog")]
            evaluation: None,
        }
    }

    pub(crate) fn stats(&self) -> SlowStartStats {
        self.stats
    }

    /// Whether nothing more happens here.
    pub(super) fn is_over(&self) -> bool {
        let is_settled = self.drain.is_none() && self.convergence.is_none();
        self.stats.end.is_some() && is_settled
    }

    /// Continues slow start after a queue that is gone: more carefully beside
    /// other flows.
    pub(super) fn go_on(&mut self, gone: Gone) {
        let mut watch = QueueWatch::default();

        match gone {
            Gone::Others => watch.is_again = true,
            Gone::Variation(excess) => watch.doubling = Doubling::varying(excess),
        }
        self.room = None;
        self.stats.end = None;
        self.queue = Some(Box::new(watch));
    }

    pub(super) fn is_rapid(&self) -> bool {
        self.queue.as_ref().is_some_and(|watch| watch.is_rapid)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Ends slow start, for `reason` and with `ssthresh` in bytes. Returns
    /// false if it was over already.
    pub(super) fn on_end(
        &mut self, reason: SlowStartEndReason, ssthresh: usize, now: Instant,
    ) -> bool {
        self.search = None;
        self.queue = None;

        if self.stats.end.is_some() {
            return false;
        }

        self.stats.end = Some(SlowStartEnd {
            time: now,
            reason,
            congestion_window: self.window,
            ssthresh,
        });
        true
    }
}

#[cfg(test)]
mod path_tests;
#[cfg(test)]
pub(crate) mod test_path;
#[cfg(test)]
mod tests;
