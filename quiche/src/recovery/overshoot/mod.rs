//! Overshoot of slow start: how much of a doubling the path still takes.
//!
//! A doubling that begins to queue has two windows under way before the sender
//! hears of it: at once, or too late. So each ACK is looked at, not each round.
//!
//! [`PathHistory`] owns what the ACKs of the last round trips showed: RTTs above the
//! minimum, and bytes delivered. [`Doubling`] judges it where nothing else is
//! known of the path; `careful_resume::after_jump` where its capacity is. Both are
//! pure: an ACK goes in, a [`Verdict`] comes out, which the recovery applies.

mod doubling;
mod history;
mod path;
pub(crate) mod room;

use std::time::Duration;
use std::time::Instant;

pub(crate) use self::doubling::is_doubtful;
pub(crate) use self::doubling::Doubling;
pub(crate) use self::path::PathHistory;

/// What an ACK tells, in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub(crate) now: Instant,
    /// The latest sample.
    pub(crate) rtt: Duration,
    /// The minimum of the connection.
    pub(crate) min_rtt: Duration,
    /// Newly acknowledged.
    pub(crate) bytes: usize,
    /// The largest packet number acknowledged so far.
    pub(crate) largest_acked: u64,
    /// The largest packet number sent so far.
    pub(crate) largest_sent: u64,
    /// The congestion window before the ACK, in bytes.
    pub(crate) cwnd: usize,
    /// By so many bytes the controller has grown it.
    pub(crate) grown: usize,
    pub(crate) max_datagram_size: usize,
}

/// What slow start may do on an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Grow by so many bytes.
    Grow(usize),

    /// End: a queue stands. The window stays as it is: where the RTT has risen
    /// by itself, less would be too little.
    Exit,
}

/// The part of a doubling that the window grows by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Nothing,
    Quarter,
    Half,
    Full,
    /// The window triples.
    Twice,
}

/// Counts the growth that is allowed, in whole packets: a part of a packet
/// would leave as a small packet.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// Bytes that are allowed and no whole packet yet.
    credit: usize,
}

impl Allowance {
    pub(crate) fn grow(&mut self, ack: &AckSample, growth: Growth) -> Verdict {
        let divisor = match growth {
            Growth::Twice => return Verdict::Grow(2 * ack.grown),
            Growth::Full => return Verdict::Grow(ack.grown),
            Growth::Half => 2,
            Growth::Quarter => 4,
            Growth::Nothing => return Verdict::Grow(0),
        };

        self.credit += ack.grown / divisor;
        let allowed = self.credit - self.credit % ack.max_datagram_size.max(1);
        self.credit -= allowed;
        Verdict::Grow(allowed)
    }
}

#[cfg(test)]
pub(crate) mod test_path;
#[cfg(test)]
mod tests;
