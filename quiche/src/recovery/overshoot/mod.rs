//! Overshoot detection in slow start, from RTT and delivery.
//!
//! A doubling that begins to queue has two windows in flight before a round ends:
//! the sender notices at once, or too late. The detection therefore judges each
//! ACK, not each round.
//!
//! [`PathHistory`] keeps what the ACKs of the last round trips showed: RTTs
//! above the minimum, and bytes delivered. [`Doubling`] judges it on an unknown
//! path, `careful_resume::after_jump` on one whose capacity is known. Both are
//! pure: an ACK goes in, a [`Verdict`] comes out, which the recovery applies.

mod doubling;
mod history;
mod path;
#[allow(dead_code)] // until the patch of slow-start exits
pub(crate) mod room;

use std::time::Duration;
use std::time::Instant;

pub(crate) use self::doubling::is_doubtful;
pub(crate) use self::doubling::Doubling;
pub(crate) use self::path::PathHistory;

/// An ACK in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub(crate) now: Instant,
    /// The latest RTT sample.
    pub(crate) rtt: Duration,
    /// The minimum RTT of the connection.
    pub(crate) min_rtt: Duration,
    /// Bytes newly acknowledged.
    pub(crate) bytes: usize,
    /// The largest packet number acknowledged so far.
    pub(crate) largest_acked: u64,
    /// The largest packet number sent so far.
    pub(crate) largest_sent: u64,
    /// The congestion window before the ACK, in bytes.
    pub(crate) cwnd: usize,
    /// Bytes by which the controller has grown the window.
    pub(crate) grown: usize,
    pub(crate) max_datagram_size: usize,
}

/// Decision on an ACK in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Grow by this number of bytes.
    Grow(usize),

    /// End slow start: a queue stands. The window stays as it is: if the RTT
    /// has risen by itself, a smaller one would be too small.
    Exit,
}

/// The part of a doubling by which the window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Nothing,
    Quarter,
    Half,
    Full,
    /// The window triples.
    #[allow(dead_code)] // until the patch of slow-start exits
    Twice,
}

/// Allowed growth, handed out in full packets: a part of a packet would leave
/// as a small packet.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// Allowed bytes that do not fill a packet yet.
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
