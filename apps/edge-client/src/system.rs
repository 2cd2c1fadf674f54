//! Clock of this program.

use std::time::Instant;

/// Returns the time on the transport's clock.
pub fn now() -> Instant {
    quiche::clock::now()
}
