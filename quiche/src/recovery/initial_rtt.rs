//! The RTT that a path is taken to have until its first sample: the one that an
//! earlier connection saw (RFC 9002, 6.2.2).

use std::time::Duration;

use super::rtt::RttStats;
use super::RecoveryOps;
use crate::clock;
use crate::BufFactory;
use crate::Connection;

/// A probe timeout is three times the initial RTT: one of nine seconds is late
/// for any path.
const INITIAL_RTT_MAX: Duration = Duration::from_secs(3);

impl RttStats {
    /// Returns whether there is no sample yet, and the RTT is longer than the one
    /// so far.
    pub(super) fn raise_initial_rtt(&mut self, rtt: Duration) -> bool {
        let rtt = rtt.min(INITIAL_RTT_MAX);

        if self.has_first_rtt_sample || rtt <= self.smoothed_rtt {
            return false;
        }

        *self = RttStats::new(rtt, self.max_ack_delay);
        true
    }
}

impl<F: BufFactory> Connection<F> {
    /// Takes the active path to have this RTT, at most three seconds, until its
    /// first sample (RFC 9002, 6.2.2), so that the handshake is not sent again
    /// before the peer can have answered. Only probe timeouts follow it.
    ///
    /// Returns whether it does. It does not after the first sample, nor if the
    /// RTT is not longer than that of [`Config::set_initial_rtt()`]: what was
    /// seen of others in the peer's network may be too short for the peer.
    ///
    /// [`Config::set_initial_rtt()`]: crate::Config::set_initial_rtt
    pub fn raise_initial_rtt(&mut self, rtt: Duration) -> bool {
        let status = self.handshake_status();

        self.paths.get_active_mut().is_ok_and(|path| {
            path.recovery.raise_initial_rtt(rtt, status, clock::now())
        })
    }
}

#[cfg(feature = "ffi")]
#[no_mangle]
pub extern "C" fn quiche_conn_raise_initial_rtt(
    conn: &mut Connection, rtt_us: u64,
) -> bool {
    conn.raise_initial_rtt(Duration::from_micros(rtt_us))
}

#[cfg(all(test, feature = "internal"))]
#[path = "initial_rtt_tests.rs"]
mod tests;
