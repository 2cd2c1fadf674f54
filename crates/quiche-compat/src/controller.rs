//! Congestion controller of a connection.

use fork::BufFactory;
use fork::CongestionControlAlgorithm;
use fork::Connection;

/// Returns `Connection::cc_algorithm()`, if the library has it.
#[cfg(hook = "careful_resume")]
pub fn cc_algorithm<F: BufFactory>(quic: &Connection<F>) -> Option<CongestionControlAlgorithm> {
    Some(quic.cc_algorithm())
}

#[cfg(not(hook = "careful_resume"))]
pub fn cc_algorithm<F: BufFactory>(_: &Connection<F>) -> Option<CongestionControlAlgorithm> {
    None
}
