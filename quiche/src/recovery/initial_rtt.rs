//! Initial RTT of a path, until its first sample: that of an earlier connection
//! (RFC 9002, 6.2.2).

use std::time::Duration;

use super::rtt::RttStats;
use super::HandshakeStatus;
use super::Recovery;
use super::RecoveryOps;
use crate::clock;
use crate::BufFactory;
use crate::Connection;

/// The longest initial RTT. A probe timeout is three times that: nine seconds
/// are late for any path.
const INITIAL_RTT_MAX: Duration = Duration::from_secs(3);

impl RttStats {
    /// Raises the initial RTT. Returns false after the first sample, and for an
    /// RTT that is not longer.
    pub(super) fn raise_initial_rtt(&mut self, rtt: Duration) -> bool {
        let rtt = rtt.min(INITIAL_RTT_MAX);

        if self.has_first_rtt_sample || rtt <= self.smoothed_rtt {
            return false;
        }

        *self = RttStats::new(rtt, self.max_ack_delay);
        true
    }
}

impl Recovery {
    /// Keeps the initial RTT of the recovery that this one replaces, before
    /// anything is in flight: the handshake has chosen another controller.
    pub(crate) fn keep_initial_rtt(&mut self, rtt: Duration) {
        // No timer is set that would depend on it.
        let status = HandshakeStatus {
            has_handshake_keys: false,
            peer_verified_address: false,
            completed: false,
        };
        self.raise_initial_rtt(rtt, status, clock::now());
    }
}

impl<F: BufFactory> Connection<F> {
    /// Raises the RTT of the active path until its first sample (RFC 9002,
    /// 6.2.2), to three seconds at most, so that the handshake is not sent
    /// again before the peer can have answered. Only probe timeouts depend on
    /// it.
    ///
    /// Returns false, and changes nothing, after the first sample, and for an
    /// RTT that is not longer than that of [`Config::set_initial_rtt()`]: an
    /// RTT of others in the peer's network may be too short for the peer.
    ///
    /// [`Config::set_initial_rtt()`]: crate::Config::set_initial_rtt
    pub fn raise_initial_rtt(&mut self, rtt: Duration) -> bool {
        let status = self.handshake_status();

        self.paths.get_active_mut().is_ok_and(|path| {
            path.recovery.raise_initial_rtt(rtt, status, clock::now())
        })
    }
}

#[cfg(all(test, feature = "internal"))]
#[path = "initial_rtt_tests.rs"]
mod tests;
