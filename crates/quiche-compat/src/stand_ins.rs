//! Stand-ins: methods of the fork whose patches are not applied.
//!
//! A stand-in does what the library does without the patch, or refuses. It exists only
//! where the fork's own method does not, so that a call of neither is an error.
#![allow(unused_imports, reason = "what is used depends on the patches that are missing")]

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use crate::types::careful_resume::CarefulResumeConfig;
use crate::types::careful_resume::CarefulResumeEvent;
use crate::types::careful_resume::Phase;
use crate::types::careful_resume::SendLimit;
use crate::types::ecn::Codepoint;
use crate::types::ecn::EcnConfig;
use crate::types::ecn::EcnStats;
use crate::types::path_state::PathState;
use crate::types::slow_start::SlowStartExit;
use crate::types::TransmitBatch;
use fork::h3;
use fork::BufFactory;
use fork::Config;
use fork::Connection;
use fork::ConnectionId;
use fork::Error;
use fork::RecvInfo;
use fork::Result;
use fork::SendInfo;

/// Settings of a connection.
pub trait ConfigStandIns {
    /// Runts are sent.
    #[cfg(not(hook = "sws_avoidance"))]
    fn set_sws_avoidance(&mut self, _on: bool) {}

    /// CUBIC asks for no evidence.
    #[cfg(not(hook = "spurious_loss"))]
    fn set_spurious_loss_evidence(&mut self, _on: bool) {}

    /// Each packet is an RTT sample.
    #[cfg(not(hook = "hystart_samples"))]
    fn set_hystart_samples_per_ack(&mut self, _on: bool) {}

    /// Each packet of BBR2 has a release time of its own.
    #[cfg(not(hook = "bbr2_batches"))]
    fn set_bbr2_batches(&mut self, _on: bool) {}

    /// Nothing is marked.
    #[cfg(not(hook = "ecn"))]
    fn set_ecn(&mut self, _ecn: Option<EcnConfig>) {}

    /// A packet has one stream's data.
    #[cfg(not(hook = "coalesce_streams"))]
    fn set_coalesce_streams(&mut self, _on: bool) {}

    /// The path is probed at once.
    #[cfg(not(hook = "pmtud_start_after"))]
    fn set_pmtud_start_after(&mut self, _bytes: u64) {}

    /// Slow start ends as upstream's does, or never.
    ///
    /// # Errors
    ///
    /// The library does not have this exit.
    #[cfg(not(hook = "slow_start"))]
    fn set_slow_start_exit(&mut self, exit: SlowStartExit) -> Result<()>;

    /// # Errors
    ///
    /// The library has no Careful Resume.
    #[cfg(not(hook = "careful_resume"))]
    fn set_careful_resume(&mut self, _settings: CarefulResumeConfig) -> Result<()> {
        Err(Error::CongestionControl)
    }
}

impl ConfigStandIns for Config {
    #[cfg(not(hook = "slow_start"))]
    fn set_slow_start_exit(&mut self, exit: SlowStartExit) -> Result<()> {
        // What takes its place before its patch is upstream's.
        let is_upstreams = matches!(exit, SlowStartExit::HyStart | SlowStartExit::Queue);
        self.enable_hystart(is_upstreams);
        match exit {
            SlowStartExit::Search(_) | SlowStartExit::Rapid => Err(Error::CongestionControl),
            _ => Ok(()),
        }
    }
}

/// A connection.
pub trait ConnectionStandIns {
    /// The RTT before the first sample stays.
    #[cfg(not(hook = "initial_rtt"))]
    fn raise_initial_rtt(&mut self, _rtt: Duration) -> bool {
        false
    }

    /// Marks do not count.
    ///
    /// # Errors
    ///
    /// Those of `recv()`.
    #[cfg(not(hook = "ecn"))]
    fn recv_ecn(&mut self, buf: &mut [u8], info: RecvInfo, ecn: Codepoint) -> Result<usize>;

    /// Nothing is marked.
    #[cfg(not(hook = "ecn"))]
    fn sent_ecn(&self) -> Codepoint {
        Codepoint::NotEct
    }

    /// No marks are known.
    #[cfg(not(hook = "ecn"))]
    fn ecn_stats(&self) -> EcnStats {
        EcnStats::default()
    }

    /// The library reads the clock itself.
    ///
    /// # Errors
    ///
    /// Those of `send_on_path()`.
    #[cfg(not(hook = "send_at"))]
    fn send_on_path_at(
        &mut self,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
        now: Instant,
    ) -> Result<(usize, SendInfo)>;

    /// A batch is one packet.
    ///
    /// # Errors
    ///
    /// Those of `send()`.
    #[cfg(not(hook = "send_batch"))]
    fn send_batch(
        &mut self,
        out: &mut [u8],
        packets_max: usize,
        now: Instant,
    ) -> Result<TransmitBatch>;

    /// Nothing is known to be kept.
    #[cfg(not(hook = "unacknowledged"))]
    fn stream_unacknowledged(&self, _stream_id: u64) -> u64 {
        0
    }

    /// Nothing is known to be missing.
    #[cfg(not(hook = "unacknowledged"))]
    fn stream_missing(&self, _stream_id: u64) -> u64 {
        0
    }

    /// Nothing is known to be kept.
    #[cfg(not(hook = "unacknowledged"))]
    fn packets_kept(&self) -> usize {
        0
    }

    /// No chunks are known.
    #[cfg(not(hook = "unacknowledged"))]
    fn stream_chunks_unread(&self) -> usize {
        0
    }

    /// Nothing is known to be unread.
    #[cfg(not(hook = "unacknowledged"))]
    fn stream_bytes_unread(&self) -> u64 {
        0
    }

    /// Nothing is known to wait.
    #[cfg(not(hook = "unacknowledged"))]
    fn stream_bytes_unsent(&self) -> usize {
        0
    }

    /// The library keeps its memory.
    #[cfg(not(hook = "shrink"))]
    fn shrink_to_fit(&mut self) {}

    /// # Errors
    ///
    /// The library has no Careful Resume.
    #[cfg(not(hook = "careful_resume"))]
    fn careful_resume_from(&mut self, _saved: PathState, _jump_before: Instant) -> Result<()> {
        Err(Error::InvalidState)
    }

    /// # Errors
    ///
    /// The library has no Careful Resume.
    #[cfg(not(hook = "careful_resume"))]
    fn careful_resume_dry_run(&mut self, _saved: PathState, _jump_before: Instant) -> Result<()> {
        Err(Error::InvalidState)
    }

    /// Nothing is observed.
    #[cfg(not(hook = "careful_resume"))]
    fn path_state(&self) -> Option<PathState> {
        None
    }

    /// No phase changes.
    #[cfg(not(hook = "careful_resume"))]
    fn careful_resume_event_next(&mut self) -> Option<CarefulResumeEvent> {
        None
    }

    /// There is one phase.
    #[cfg(not(hook = "careful_resume"))]
    fn careful_resume_phase(&self) -> Phase {
        Phase::Normal
    }

    /// What limits the sender is not known.
    #[cfg(not(hook = "careful_resume"))]
    fn send_limit(&self) -> SendLimit {
        SendLimit::Application
    }

    /// # Errors
    ///
    /// The library has no such frames.
    #[cfg(not(hook = "address_validation"))]
    fn send_new_token(&mut self, _token: Vec<u8>) -> Result<()> {
        Err(Error::InvalidState)
    }

    /// No token is known to have come.
    #[cfg(not(hook = "address_validation"))]
    fn new_token(&self) -> Option<&[u8]> {
        None
    }

    /// # Errors
    ///
    /// The library cannot.
    #[cfg(not(hook = "address_validation"))]
    fn set_token(&mut self, _token: &[u8]) -> Result<()> {
        Err(Error::InvalidState)
    }

    /// The library validates the address itself.
    ///
    /// # Errors
    ///
    /// None.
    #[cfg(not(hook = "address_validation"))]
    fn set_peer_address_validated(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<F: BufFactory> ConnectionStandIns for Connection<F> {
    #[cfg(not(hook = "ecn"))]
    fn recv_ecn(&mut self, buf: &mut [u8], info: RecvInfo, _ecn: Codepoint) -> Result<usize> {
        self.recv(buf, info)
    }

    #[cfg(not(hook = "send_at"))]
    fn send_on_path_at(
        &mut self,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
        _now: Instant,
    ) -> Result<(usize, SendInfo)> {
        self.send_on_path(out, from, to)
    }

    #[cfg(not(hook = "send_batch"))]
    fn send_batch(
        &mut self,
        out: &mut [u8],
        _packets_max: usize,
        now: Instant,
    ) -> Result<TransmitBatch> {
        let (len, info) = self.send_on_path_at(out, None, None, now)?;
        Ok(TransmitBatch { len, packet_len: len, info })
    }
}

/// An HTTP/3 connection.
pub trait HttpStandIns {
    /// A response is sent in parts.
    ///
    /// # Errors
    ///
    /// `StreamBlocked`: it cannot be sent at once.
    #[cfg(not(hook = "response_fast_path"))]
    fn send_response_with_body<T: h3::NameValue, F: BufFactory>(
        &mut self,
        _quic: &mut Connection<F>,
        _stream_id: u64,
        _headers: &[T],
        _priority: &h3::Priority,
        _body: &[u8],
    ) -> h3::Result<()> {
        Err(h3::Error::StreamBlocked)
    }

    /// Nothing is known to be kept.
    #[cfg(not(hook = "unacknowledged"))]
    fn unfinished_frame_bytes(&self) -> usize {
        0
    }

    /// The library keeps its memory.
    #[cfg(not(hook = "shrink"))]
    fn shrink_to_fit(&mut self) {}
}

impl HttpStandIns for h3::Connection {}

/// Refuses nobody.
///
/// # Errors
///
/// The library cannot.
#[cfg(not(hook = "address_validation"))]
pub fn refuse(
    _scid: &ConnectionId,
    _dcid: &ConnectionId,
    _version: u32,
    _error_code: u64,
    _out: &mut [u8],
) -> Result<usize> {
    Err(Error::InvalidState)
}
