//! Explicit Congestion Notification (RFC 9000, 13.4; RFC 3168).
//!
//! A sender marks its datagrams ECT(0), or ECT(1) for L4S. A router may mark them
//! CE instead of dropping them, the receiver counts marks in its ACKs, and the
//! sender answers new CE marks as congestion (RFC 9002, 7.1), or as L4S asks
//! (`scalable`), once the path is known to carry marks. Sockets belong to the application: it passes the codepoint of each
//! datagram to [`Connection::recv_ecn()`], and sends with that of
//! [`Connection::sent_ecn()`].
//!
//! Counts are those of a packet number space. Whether marks pass is a matter of
//! a path: `validation` decides it. `reno_cubic`, `bbr` and `bbr_model` are hooks
//! in the recoveries, and `scalable_window` is the window of L4S.

mod codepoint;
mod counts;
mod jump_queue;
#[cfg(feature = "qlog")]
mod qlog;
pub(crate) mod scalable;
mod stats;
mod validation;

pub(crate) use self::counts::Feedback;
pub(crate) use self::counts::MarkCounters;
pub(crate) use self::scalable::AckedMarks;
pub(crate) use self::validation::PathEcn;

pub use self::codepoint::Codepoint;
pub use self::codepoint::EcnConfig;
pub use self::stats::EcnState;
pub use self::stats::EcnStats;
pub use self::stats::Marks;

use std::collections::VecDeque;

use crate::frame::EcnCounts;
use crate::packet;
use crate::recovery::Recovery;
use crate::recovery::RecoveryConfig;
use crate::recovery::RecoveryOps;
use crate::BufFactory;
use crate::Config;
use crate::CongestionControlAlgorithm;
use crate::Connection;
use crate::RecvInfo;
use crate::Result;

/// What is answered now, as a controller sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum MarkResponse {
    /// A loss, or a mark that counts as one.
    #[default]
    Loss,

    /// A mark that RFC 8511 answers less.
    Alternative,

    /// A mark of L4S, with the factor of the window.
    Scalable(f64),
}

/// Codepoints of a connection's datagrams.
#[derive(Debug, Default)]
pub(crate) struct Codepoints {
    /// Of the datagram that is being received.
    received: Codepoint,

    /// Of those that wait for keys, in order.
    deferred: VecDeque<Codepoint>,

    /// Of the datagram or batch that was written last.
    pub(crate) sent: Codepoint,
}

impl Codepoints {
    /// Keeps the codepoint of a datagram whose keys are missing.
    pub(crate) fn defer(&mut self) {
        self.deferred.push_back(self.received);
    }

    /// Receives the first of those datagrams again.
    pub(crate) fn resume(&mut self) {
        self.received = self.deferred.pop_front().unwrap_or_default();
    }
}

impl RecoveryConfig {
    /// Returns the state of a new path.
    pub(crate) fn path_ecn(&self) -> Option<Box<PathEcn>> {
        self.ecn.map(|ecn| {
            let l4s = ecn.l4s && self.is_reno_or_cubic();
            Box::new(PathEcn::new(EcnConfig { l4s, ..ecn }))
        })
    }

    fn is_reno_or_cubic(&self) -> bool {
        self.cc_algorithm != CongestionControlAlgorithm::Bbr2Gcongestion
    }
}

/// Hooks that all recoveries have alike.
pub(crate) trait EcnHooks: RecoveryOps {
    #[inline]
    fn ecn_on_packet_sent(&mut self, epoch: packet::Epoch, pkt_num: u64) {
        if let Some(ecn) = self.ecn_mut() {
            ecn.on_packet_sent(epoch, pkt_num);
        }
    }

    fn ecn_on_timeout(&mut self) {
        let timeouts = self.pto_count();

        if let Some(ecn) = self.ecn_mut() {
            ecn.on_timeout(timeouts);
        }
    }
}

impl<R: RecoveryOps> EcnHooks for R {}

impl Recovery {
    /// Begins a datagram. Returns its codepoint.
    #[inline]
    pub(crate) fn begin_ecn_datagram(&mut self) -> Codepoint {
        let ecn = self.ecn_mut();
        ecn.map_or(Codepoint::NotEct, PathEcn::begin_datagram)
    }

    /// Returns the codepoint of the next datagram.
    pub(crate) fn next_ecn(&self) -> Codepoint {
        let ecn = self.ecn();
        ecn.map_or(Codepoint::NotEct, PathEcn::next_codepoint)
    }

    /// Gives what the ACK says that is processed next.
    pub(crate) fn set_ecn_feedback(&mut self, feedback: Feedback) {
        if let Some(ecn) = self.ecn_mut() {
            ecn.set_feedback(feedback);
        }
    }
}

impl Config {
    /// Marks datagrams on every path that carries marks, and answers CE marks as
    /// congestion (RFC 9000, 13.4; RFC 9002, 7.1). None, the default,
    /// marks nothing.
    ///
    /// The application has to send each datagram with the codepoint of
    /// [`Connection::sent_ecn()`], and to receive with
    /// [`Connection::recv_ecn()`]. Received marks are counted and reported
    /// regardless of this setting.
    ///
    /// [`EcnConfig::l4s`] also paces Reno and CUBIC, since L4S needs that
    /// (RFC 9331, 4.3).
    pub fn set_ecn(&mut self, ecn: Option<EcnConfig>) {
        self.reno_cubic_pacing |= ecn.is_some_and(|ecn| ecn.l4s);
        self.ecn = ecn;
    }
}

impl<F: BufFactory> Connection<F> {
    /// Does as [`recv()`] with a datagram that arrived with `ecn`.
    ///
    /// # Errors
    ///
    /// Those of [`recv()`].
    ///
    /// [`recv()`]: Connection::recv
    pub fn recv_ecn(
        &mut self, buf: &mut [u8], info: RecvInfo, ecn: Codepoint,
    ) -> Result<usize> {
        self.codepoints.received = ecn;
        let received = self.recv(buf, info);
        self.codepoints.received = Codepoint::NotEct;
        received
    }

    /// Returns the codepoint with which the datagram that was written last must
    /// leave, or each datagram of the batch.
    pub fn sent_ecn(&self) -> Codepoint {
        self.codepoints.sent
    }

    pub(crate) fn count_mark(&mut self, epoch: packet::Epoch) {
        let received = self.codepoints.received;
        self.pkt_num_spaces[epoch].ecn.on_received(received);
    }

    /// Takes the counts of an ACK. Returns what they mean.
    pub(crate) fn on_ecn_counts(
        &mut self, epoch: packet::Epoch, largest_acked: u64,
        counts: &Option<EcnCounts>,
    ) -> Feedback {
        let space = &mut self.pkt_num_spaces[epoch].ecn;
        space.on_ack(largest_acked, counts.as_ref())
    }

    /// Returns the marks that the connection has seen.
    pub fn ecn_stats(&self) -> EcnStats {
        let path = self.paths.get_active().ok();
        let path = path.and_then(|path| path.recovery.ecn());
        let spaces = || {
            let epochs = packet::Epoch::epochs(
                packet::Epoch::Initial..=packet::Epoch::Application,
            );
            epochs.iter().map(|epoch| &self.pkt_num_spaces[*epoch].ecn)
        };

        EcnStats {
            state: path.map(PathEcn::state),
            sent: spaces()
                .map(|space| space.sent.ect0 + space.sent.ect1)
                .sum(),
            received: spaces().map(|space| space.received).sum(),
            reported: spaces().map(|space| space.reported).sum(),
        }
    }
}

#[cfg(all(test, feature = "internal"))]
mod connection_tests;
#[cfg(test)]
mod recovery_tests;
