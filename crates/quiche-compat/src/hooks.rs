//! Functions of the fork that the release does not have, for the applications.

use std::time::Duration;
use std::time::Instant;

use crate::careful_resume::CarefulResumeConfig;
use crate::careful_resume::CarefulResumeEvent;
use crate::careful_resume::CarefulResumeStats;
use crate::careful_resume::Phase;
use crate::careful_resume::SendLimit;
use crate::h3;
use crate::path_state::PathState;
use crate::slow_start::SlowStartExit;
use crate::slow_start::SlowStartStats;
use crate::BufFactory;
use crate::Config;
use crate::Connection;
use crate::ConnectionId;
use crate::PathStats;
use crate::Result;

/// The library reads the time and draws random bytes where a simulation can
/// replace both.
pub const HAS_CLOCK: bool = cfg!(hook = "clock");

/// Connections can learn and resume.
pub const HAS_CAREFUL_RESUME: bool = cfg!(hook = "careful_resume");

/// See `Config::set_sws_avoidance()`; without it, small packets are sent.
#[cfg(hook = "sws_avoidance")]
pub fn set_sws_avoidance(config: &mut Config, on: bool) {
    config.set_sws_avoidance(on);
}

#[cfg(not(hook = "sws_avoidance"))]
pub fn set_sws_avoidance(_config: &mut Config, _on: bool) {}

/// See `Config::set_spurious_loss_evidence()`; without it, CUBIC asks for no evidence.
#[cfg(hook = "spurious_loss")]
pub fn set_spurious_loss_evidence(config: &mut Config, on: bool) {
    config.set_spurious_loss_evidence(on);
}

#[cfg(not(hook = "spurious_loss"))]
pub fn set_spurious_loss_evidence(_config: &mut Config, _on: bool) {}

/// See `Config::set_hystart_samples_per_ack()`; without it, each packet is an RTT sample.
#[cfg(hook = "hystart_samples")]
pub fn set_hystart_samples_per_ack(config: &mut Config, on: bool) {
    config.set_hystart_samples_per_ack(on);
}

#[cfg(not(hook = "hystart_samples"))]
pub fn set_hystart_samples_per_ack(_config: &mut Config, _on: bool) {}

/// See `Config::set_persistent_congestion()`; without it, a loss is a loss.
#[cfg(hook = "persistent_congestion")]
pub fn set_persistent_congestion(config: &mut Config, on: bool) {
    config.set_persistent_congestion(on);
}

#[cfg(not(hook = "persistent_congestion"))]
pub fn set_persistent_congestion(_config: &mut Config, _on: bool) {}

/// See `Connection::raise_initial_rtt()`; without it, nothing changes.
#[cfg(hook = "initial_rtt")]
pub fn raise_initial_rtt<F: BufFactory>(quic: &mut Connection<F>, rtt: Duration) -> bool {
    quic.raise_initial_rtt(rtt)
}

#[cfg(not(hook = "initial_rtt"))]
pub fn raise_initial_rtt<F: BufFactory>(_: &mut Connection<F>, _: Duration) -> bool {
    false
}

/// See `Config::set_coalesce_streams()`; without it, a packet has one stream's data.
#[cfg(hook = "coalesce_streams")]
pub fn set_coalesce_streams(config: &mut Config, on: bool) {
    config.set_coalesce_streams(on);
}

#[cfg(not(hook = "coalesce_streams"))]
pub fn set_coalesce_streams(_config: &mut Config, _on: bool) {}

/// See `Config::set_pmtud_start_after()`; without it, the path is probed at once.
#[cfg(hook = "packet_size")]
pub fn set_pmtud_start_after(config: &mut Config, bytes: u64) {
    config.set_pmtud_start_after(bytes);
}

#[cfg(not(hook = "packet_size"))]
pub fn set_pmtud_start_after(_config: &mut Config, _bytes: u64) {}

/// See `Connection::send_batch()`; without it, each batch is one packet.
#[cfg(hook = "send_batch")]
pub fn send_batch<F: BufFactory>(
    quic: &mut Connection<F>,
    out: &mut [u8],
    packets_max: usize,
    now: Instant,
) -> Result<TransmitBatch> {
    quic.send_batch(out, packets_max, now)
}

#[cfg(not(hook = "send_batch"))]
pub fn send_batch<F: BufFactory>(
    quic: &mut Connection<F>,
    out: &mut [u8],
    _packets_max: usize,
    now: Instant,
) -> Result<TransmitBatch> {
    let (len, info) = send_at(quic, out, now)?;
    Ok(TransmitBatch { len, packet_len: len, info })
}

#[cfg(hook = "send_batch")]
pub use crate::TransmitBatch;

#[cfg(not(hook = "send_batch"))]
pub struct TransmitBatch {
    pub len: usize,
    pub packet_len: usize,
    pub info: crate::SendInfo,
}

/// Without it, the library reads the clock itself.
#[cfg(all(hook = "send_at", not(hook = "send_batch")))]
fn send_at<F: BufFactory>(
    quic: &mut Connection<F>,
    out: &mut [u8],
    now: Instant,
) -> Result<(usize, crate::SendInfo)> {
    quic.send_on_path_at(out, None, None, now)
}

#[cfg(not(hook = "send_at"))]
fn send_at<F: BufFactory>(
    quic: &mut Connection<F>,
    out: &mut [u8],
    _now: Instant,
) -> Result<(usize, crate::SendInfo)> {
    quic.send(out)
}

/// See `Connection::stream_unacknowledged()`; without it, nothing is known to be kept.
#[cfg(hook = "unacknowledged")]
pub fn stream_unacknowledged<F: BufFactory>(quic: &Connection<F>, stream: u64) -> u64 {
    quic.stream_unacknowledged(stream)
}

#[cfg(not(hook = "unacknowledged"))]
pub fn stream_unacknowledged<F: BufFactory>(_: &Connection<F>, _: u64) -> u64 {
    0
}

/// See `Connection::stream_bytes_unsent()`; without it, nothing is known to wait.
#[cfg(hook = "unacknowledged")]
pub fn stream_bytes_unsent<F: BufFactory>(quic: &Connection<F>) -> usize {
    quic.stream_bytes_unsent()
}

#[cfg(not(hook = "unacknowledged"))]
pub fn stream_bytes_unsent<F: BufFactory>(_: &Connection<F>) -> usize {
    0
}

#[cfg(hook = "shrink")]
mod shrink {
    use super::*;

    /// See `Connection::shrink_to_fit()`; without it, the library keeps its memory.
    pub fn shrink_to_fit<F: BufFactory>(quic: &mut Connection<F>) {
        quic.shrink_to_fit();
    }

    /// See `h3::Connection::shrink_to_fit()`; likewise.
    pub fn shrink_http_to_fit(http: &mut h3::Connection) {
        http.shrink_to_fit();
    }
}

#[cfg(not(hook = "shrink"))]
mod shrink {
    use super::*;

    pub fn shrink_to_fit<F: BufFactory>(_: &mut Connection<F>) {}

    pub fn shrink_http_to_fit(_: &mut h3::Connection) {}
}

pub use shrink::*;

/// See `h3::Connection::send_response_with_body()`; without it, a response is sent in parts.
///
/// # Errors
///
/// `StreamBlocked` if it cannot be sent at once.
#[cfg(hook = "response_fast_path")]
pub fn send_response_with_body<T: h3::NameValue, F: BufFactory>(
    http: &mut h3::Connection,
    quic: &mut Connection<F>,
    stream: u64,
    headers: &[T],
    priority: &h3::Priority,
    body: &[u8],
) -> h3::Result<()> {
    http.send_response_with_body(quic, stream, headers, priority, body)
}

#[cfg(not(hook = "response_fast_path"))]
pub fn send_response_with_body<T: h3::NameValue, F: BufFactory>(
    _: &mut h3::Connection,
    _: &mut Connection<F>,
    _: u64,
    _: &[T],
    _: &h3::Priority,
    _: &[u8],
) -> h3::Result<()> {
    Err(h3::Error::StreamBlocked)
}

#[cfg(hook = "slow_start")]
mod slow_start {
    use super::*;

    /// See `Config::set_slow_start_exit()`.
    ///
    /// # Errors
    ///
    /// Settings that make no sense, or that the library does not have.
    pub fn set_slow_start_exit(config: &mut Config, exit: SlowStartExit) -> Result<()> {
        config.set_slow_start_exit(exit)
    }

    /// See `PathStats::slow_start`.
    pub fn slow_start_stats(stats: &PathStats) -> SlowStartStats {
        stats.slow_start.unwrap_or_default()
    }
}

#[cfg(not(hook = "slow_start"))]
mod slow_start {
    use super::*;

    pub fn set_slow_start_exit(config: &mut Config, exit: SlowStartExit) -> Result<()> {
        // What takes its place before its patch is upstream's.
        let is_upstreams = matches!(exit, SlowStartExit::HyStart | SlowStartExit::Queue);
        config.enable_hystart(is_upstreams);
        match exit {
            SlowStartExit::Search(_) | SlowStartExit::Rapid => Err(crate::Error::CongestionControl),
            _ => Ok(()),
        }
    }

    pub fn slow_start_stats(_: &PathStats) -> SlowStartStats {
        SlowStartStats::default()
    }
}

pub use slow_start::*;

#[cfg(hook = "careful_resume")]
mod careful_resume {
    use super::*;

    /// See `Config::set_careful_resume()`.
    ///
    /// # Errors
    ///
    /// The controller has no Careful Resume, or the library has none.
    pub fn set_careful_resume(config: &mut Config, resume: CarefulResumeConfig) -> Result<()> {
        config.set_careful_resume(resume)
    }

    /// See `Connection::careful_resume_from()`.
    ///
    /// # Errors
    ///
    /// It is too late, Careful Resume is off, or the library has none.
    pub fn careful_resume_from<F: BufFactory>(
        quic: &mut Connection<F>,
        saved: PathState,
        before: Instant,
    ) -> Result<()> {
        quic.careful_resume_from(saved, before)
    }

    /// See `Connection::path_state()`.
    pub fn path_state<F: BufFactory>(quic: &Connection<F>) -> Option<PathState> {
        quic.path_state()
    }

    /// See `Connection::careful_resume_event_next()`.
    pub fn careful_resume_event_next<F: BufFactory>(
        quic: &mut Connection<F>,
    ) -> Option<CarefulResumeEvent> {
        quic.careful_resume_event_next()
    }

    /// See `Connection::careful_resume_phase()`.
    pub fn careful_resume_phase<F: BufFactory>(quic: &Connection<F>) -> Phase {
        quic.careful_resume_phase()
    }

    /// See `PathStats::careful_resume`.
    pub fn careful_resume_stats(stats: &PathStats) -> Option<CarefulResumeStats> {
        stats.careful_resume
    }

    /// See `Connection::send_limit()`.
    pub fn send_limit<F: BufFactory>(quic: &Connection<F>) -> SendLimit {
        quic.send_limit()
    }
}

#[cfg(not(hook = "careful_resume"))]
mod careful_resume {
    use super::*;

    pub fn set_careful_resume(_: &mut Config, _: CarefulResumeConfig) -> Result<()> {
        Err(crate::Error::CongestionControl)
    }

    pub fn careful_resume_from<F: BufFactory>(
        _: &mut Connection<F>,
        _: PathState,
        _: Instant,
    ) -> Result<()> {
        Err(crate::Error::InvalidState)
    }

    pub fn path_state<F: BufFactory>(_: &Connection<F>) -> Option<PathState> {
        None
    }

    pub fn careful_resume_event_next<F: BufFactory>(
        _: &mut Connection<F>,
    ) -> Option<CarefulResumeEvent> {
        None
    }

    pub fn careful_resume_phase<F: BufFactory>(_: &Connection<F>) -> Phase {
        Phase::Normal
    }

    pub fn careful_resume_stats(_: &PathStats) -> Option<CarefulResumeStats> {
        None
    }

    pub fn send_limit<F: BufFactory>(_: &Connection<F>) -> SendLimit {
        SendLimit::Application
    }
}

pub use careful_resume::*;

#[cfg(hook = "address_validation")]
mod address_validation {
    use super::*;

    /// See `Connection::send_new_token()`.
    ///
    /// # Errors
    ///
    /// It is a client, or the library has no such frames.
    pub fn send_new_token<F: BufFactory>(quic: &mut Connection<F>, token: Vec<u8>) -> Result<()> {
        quic.send_new_token(token)
    }

    /// See `Connection::new_token()`.
    pub fn new_token<F: BufFactory>(quic: &Connection<F>) -> Option<&[u8]> {
        quic.new_token()
    }

    /// See `Connection::set_token()`.
    ///
    /// # Errors
    ///
    /// It is a server, or too late, or the library cannot.
    pub fn set_token<F: BufFactory>(quic: &mut Connection<F>, token: &[u8]) -> Result<()> {
        quic.set_token(token)
    }

    /// See `Connection::set_peer_address_validated()`; without it, nothing changes.
    ///
    /// # Errors
    ///
    /// It is a client.
    pub fn set_peer_address_validated<F: BufFactory>(quic: &mut Connection<F>) -> Result<()> {
        quic.set_peer_address_validated()
    }

    /// See `quiche::refuse()`.
    ///
    /// # Errors
    ///
    /// The version is not known, or the library cannot.
    pub fn refuse(
        scid: &ConnectionId,
        dcid: &ConnectionId,
        version: u32,
        error_code: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        crate::refuse(scid, dcid, version, error_code, out)
    }
}

#[cfg(not(hook = "address_validation"))]
mod address_validation {
    use super::*;

    pub fn send_new_token<F: BufFactory>(_: &mut Connection<F>, _: Vec<u8>) -> Result<()> {
        Err(crate::Error::InvalidState)
    }

    pub fn new_token<F: BufFactory>(_: &Connection<F>) -> Option<&[u8]> {
        None
    }

    pub fn set_token<F: BufFactory>(_: &mut Connection<F>, _: &[u8]) -> Result<()> {
        Err(crate::Error::InvalidState)
    }

    pub fn set_peer_address_validated<F: BufFactory>(_: &mut Connection<F>) -> Result<()> {
        Ok(())
    }

    pub fn refuse(
        _: &ConnectionId,
        _: &ConnectionId,
        _: u32,
        _: u64,
        _: &mut [u8],
    ) -> Result<usize> {
        Err(crate::Error::InvalidState)
    }
}

pub use address_validation::*;
