//! Application interface of Careful Resume.

use std::time::Instant;

use super::CarefulResume;
use super::CarefulResumeConfig;
use super::CarefulResumeEvent;
use super::Phase;
use super::SendLimit;
use crate::clock;
use crate::path::Path;
use crate::path_state::PathState;
use crate::recovery::Recovery;
use crate::recovery::RecoveryConfig;
use crate::recovery::RecoveryOps;
#[cfg(feature = "boringssl-boring-crate")]
use crate::tls::ExData;
use crate::BufFactory;
use crate::Config;
use crate::CongestionControlAlgorithm;
use crate::Connection;
use crate::Error;
use crate::Result;

impl RecoveryConfig {
    /// Enables Careful Resume, and the pacing it requires.
    fn set_careful_resume(&mut self, resume: CarefulResumeConfig) {
        self.careful_resume = Some(resume);
        self.reno_cubic_pacing = true;
    }
}

impl Recovery {
    /// Takes what Careful Resume knows, for the recovery that replaces this one.
    pub(crate) fn take_careful_resume(&mut self) -> Option<CarefulResume> {
        let resume = self.careful_resume_mut()?;
        let fresh = CarefulResume::new(resume.config);

        Some(std::mem::replace(resume, fresh))
    }

    /// Keeps what Careful Resume knew in the recovery that this one replaces,
    /// before anything is in flight: the handshake has chosen another
    /// controller, or other settings.
    pub(crate) fn keep_careful_resume(&mut self, former: Option<CarefulResume>) {
        if let Some((resume, former)) = self.careful_resume_mut().zip(former) {
            resume.inherit(former);
        }
    }
}

impl Config {
    /// Enables Careful Resume (RFC 9959), and the pacing it requires, with any
    /// congestion control algorithm.
    ///
    /// # Errors
    ///
    /// None now: every algorithm has Careful Resume.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    /// config.set_careful_resume(quiche::careful_resume::CarefulResumeConfig {
    ///     max_jump: 4 * 1024 * 1024,
    ///     ..Default::default()
    /// })?;
    /// # Ok::<(), quiche::Error>(())
    /// ```
    pub fn set_careful_resume(
        &mut self, resume: CarefulResumeConfig,
    ) -> Result<()> {
        self.careful_resume = Some(resume);
        self.set_reno_cubic_pacing(true);

        Ok(())
    }
}

impl<F: BufFactory> Connection<F> {
    /// Enables Careful Resume for this connection, and the pacing it requires,
    /// before it has sent application data: for applications that cannot change
    /// its [`Config`].
    ///
    /// See [`Config::set_careful_resume()`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if application data was sent.
    pub fn set_careful_resume(
        &mut self, resume: CarefulResumeConfig,
    ) -> Result<()> {
        let mut config = self.recovery_config;
        config.set_careful_resume(resume);

        let path = self.paths.get_active_mut()?;
        path.recovery.set_careful_resume(&config)?;

        self.recovery_config = config;
        Ok(())
    }

    /// Returns the congestion control algorithm, which a callback of the
    /// handshake may have chosen ([`set_cc_algorithm_in_handshake()`]).
    ///
    /// [`set_cc_algorithm_in_handshake()`]: Connection::set_cc_algorithm_in_handshake
    pub fn cc_algorithm(&self) -> CongestionControlAlgorithm {
        self.recovery_config.cc_algorithm
    }

    /// Enables Careful Resume, and the pacing it requires.
    ///
    /// This function can only be called inside one of BoringSSL's handshake
    /// callbacks, before any packet has been sent. Calling this function any
    /// other time will have no effect.
    ///
    /// See [`Config::set_careful_resume()`].
    ///
    /// # Errors
    ///
    /// [`Error::TlsFail`] if the handshake is not one of quiche's.
    #[cfg(feature = "boringssl-boring-crate")]
    #[cfg_attr(docsrs, doc(cfg(feature = "boringssl-boring-crate")))]
    pub fn set_careful_resume_in_handshake(
        ssl: &mut boring::ssl::SslRef, resume: CarefulResumeConfig,
    ) -> Result<()> {
        let ex_data = ExData::from_ssl_ref(ssl).ok_or(Error::TlsFail)?;
        ex_data.recovery_config.set_careful_resume(resume);

        Ok(())
    }

    /// Gives the active path saved parameters to jump with (RFC 9959, 3.2),
    /// before or during reconnaissance. The jump happens before `jump_before`
    /// or not at all: if connections share parameters, pass the time up to
    /// which the claim is good.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if Careful Resume is not enabled, is over, or
    /// has saved parameters already; the connection starts normally.
    pub fn careful_resume_from(
        &mut self, saved: PathState, jump_before: Instant,
    ) -> Result<()> {
        let now = clock::now();
        let path = self.paths.get_active_mut()?;

        if !path.recovery.careful_resume_from(saved, jump_before, now) {
            return Err(Error::InvalidState);
        }

        if path
            .recovery
            .careful_resume()
            .is_some_and(|resume| resume.has_just_jumped())
        {
            self.update_tx_cap();
        }

        Ok(())
    }

    /// Gives the active path saved parameters for a dry run: the connection
    /// decides about a jump as after [`careful_resume_from()`], and starts
    /// slowly all the same. If it would have jumped, Careful Resume ends with
    /// [`Trigger::DryRun`]; a connection of a control group is known by it.
    /// Parameters that [`careful_resume_from()`] gives, before or later, take
    /// precedence.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if Careful Resume is not enabled or is over.
    ///
    /// [`careful_resume_from()`]: Connection::careful_resume_from
    /// [`Trigger::DryRun`]: crate::careful_resume::Trigger::DryRun
    pub fn careful_resume_dry_run(
        &mut self, saved: PathState, jump_before: Instant,
    ) -> Result<()> {
        let (now, wall_now) = (clock::now(), clock::wall_now());
        let path = self.paths.get_active_mut()?;

        let is_taken = path.recovery.careful_resume_mut().is_some_and(|resume| {
            resume.offer_dry_run(saved, jump_before, wall_now, now)
        });

        match is_taken {
            true => Ok(()),
            false => Err(Error::InvalidState),
        }
    }

    /// Returns what was observed of the active path and is worth saving now
    /// (RFC 9959, 3.1). None if that is nothing or too little, and after a safe
    /// retreat (RFC 9959, 3.5).
    pub fn path_state(&self) -> Option<PathState> {
        self.paths
            .get_active()
            .ok()?
            .recovery
            .path_state(clock::now())
    }

    /// Returns the changes of phase since the last call, those of an abandoned
    /// path included.
    ///
    /// On a change to [`Phase::SafeRetreat`] the application deletes the saved
    /// parameters (RFC 9959, 3.5).
    pub fn careful_resume_events(&mut self) -> Vec<CarefulResumeEvent> {
        std::iter::from_fn(|| self.careful_resume_event_next()).collect()
    }

    /// Returns the first event that [`careful_resume_events()`] would, or None.
    ///
    /// [`careful_resume_events()`]: Connection::careful_resume_events
    pub fn careful_resume_event_next(&mut self) -> Option<CarefulResumeEvent> {
        self.paths
            .iter_mut()
            .filter_map(|(_, path)| path.recovery.careful_resume_mut())
            .find_map(|resume| resume.next_event())
    }

    /// Follows a packet that was sent on a path.
    #[inline]
    pub(crate) fn careful_resume_after_packet(&mut self, send_pid: usize) {
        let path = self.paths.get(send_pid).ok();
        let Some(resume) = path.and_then(|p| p.recovery.careful_resume()) else {
            return;
        };
        if resume.is_over() {
            return;
        }

        let (needs_ack, has_just_jumped) =
            (resume.needs_prompt_ack(), resume.has_just_jumped());

        if needs_ack {
            self.elicit_prompt_ack();
        }

        // A jump that comes with an ACK needs nothing more.
        if has_just_jumped {
            self.update_tx_cap();
        }
    }

    /// Makes the peer acknowledge the packet that fills the initial window at
    /// once.
    ///
    /// A peer that acknowledges every second or tenth packet may delay the ACK
    /// that brings the jump (RFC 9959, 3.2). A gap in packet numbers makes it
    /// send an ACK (RFC 9000, 13.2.1): so the packet follows a number that is
    /// skipped. As for any skipped number, an ACK for it is an attack (RFC
    /// 9000, 21.4).
    fn elicit_prompt_ack(&mut self) {
        // At most one skipped number is outstanding.
        if self.pkt_num_manager.skip_pn().is_none() {
            self.pkt_num_manager.skip_pn_counter = Some(0);
        }
    }

    /// Tells the active path, before the connection changes to another one, if
    /// only the peer's port differs.
    pub(crate) fn careful_resume_on_rebinding(
        &mut self, path_id: usize, now: Instant,
    ) {
        let addresses = |path: &Path| {
            (path.local_addr(), path.peer_addr().ip().to_canonical())
        };
        let Ok(new) = self.paths.get(path_id).map(addresses) else {
            return;
        };

        let old = self.paths.get_active_mut().ok();

        if let Some(old) = old.filter(|old| addresses(old) == new) {
            old.recovery.careful_resume_on_rebinding(now);
        }
    }

    /// Returns what limits the sender now: a jump helps only against the
    /// congestion window (RFC 9959, 4.7).
    pub fn send_limit(&self) -> SendLimit {
        let is_window_full = self.paths.get_active().is_ok_and(|path| {
            let available = path.recovery.cwnd_available();
            available < path.recovery.max_datagram_size()
        });

        if is_window_full {
            return SendLimit::CongestionWindow;
        }

        let is_blocked = self.max_tx_data > 0 && self.tx_data >= self.max_tx_data;

        match is_blocked || self.streams.has_blocked() {
            true => SendLimit::FlowControl,
            false => SendLimit::Application,
        }
    }

    /// Returns the phase of Careful Resume on the active path.
    pub fn careful_resume_phase(&self) -> Phase {
        self.paths
            .get_active()
            .ok()
            .and_then(|path| path.recovery.careful_resume())
            .map_or(Phase::Normal, |resume| resume.phase())
    }
}

#[cfg(all(test, feature = "internal"))]
#[path = "connection_tests.rs"]
mod tests;
