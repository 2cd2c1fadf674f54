//! Careful Resume of one connection: takes saved path state from the store to the
//! transport, and observed path state from the transport to the store.

use std::net::IpAddr;
use std::time::Duration;
use std::time::Instant;

use ab_test::Arm;
use log::debug;
use path_store::claim_lifecycle::Action;
use path_store::claim_lifecycle::ResumeOutcome;
use quiche::careful_resume::Phase;
use quiche::clock;
use quiche::path_state::lease;
use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::path_state::LINGER;
use quiche::ActivePath;
use quiche::WireErrorCode;

use crate::connection::Connection;
use crate::h3::Session;
use crate::quic::INITIAL_WINDOW_BYTES;
use crate::resume::claimants::Failure;
use crate::resume::pending_claim::ClientProgress;
use crate::resume::pending_claim::PendingClaim;
use crate::resume::store::StoreClient;
use crate::telemetry::metrics::ConnectionSnapshot;
use crate::telemetry::metrics::WorkerMetrics;

quiche::stand_ins!();

impl Connection {
    /// Acts on phase changes, claim timeouts and observations that are due.
    pub(super) fn follow_resume(
        &mut self,
        store: &StoreClient,
        metrics: &WorkerMetrics,
        now: Instant,
    ) {
        while let Some(event) = self.quic.careful_resume_event_next() {
            metrics.resume.on_event(&event, &self.snapshot());
            if let Some(summary) = &mut self.resume_summary {
                let before = *summary;
                summary.on_event(&event, clock::wall_now());
                metrics.arms.on_change(&before, summary);
            }
            let outcome = match event.new {
                Phase::Unvalidated => {
                    self.claim_lifecycle.on_jump();
                    continue;
                }
                Phase::SafeRetreat => {
                    self.pending_claim = None;
                    if let Some(client) = self.client() {
                        self.note_failure(Failure::Retreat, client, store, now);
                    }
                    self.carried_state.on_retreat(clock::wall_now(), now);
                    ResumeOutcome::Retreat
                }
                Phase::Normal => ResumeOutcome::Normal,
                _ => continue,
            };
            let observed = self.observed();
            for action in self.claim_lifecycle.on_outcome(outcome, observed, now) {
                self.perform(action, store);
            }
        }
        let has_jumped = self.claim_lifecycle.is_lingering();
        let expired = self.claim_lifecycle.on_claim_timeout(now);
        if let Some(pending) = self.pending_claim.as_mut().filter(|_| expired.is_some()) {
            pending.until = if has_jumped { pending.until } else { now };
        }
        self.perform(expired, store);
        self.judge_claim(store, now);
        if self.claim_lifecycle.is_lingering() && self.http.as_ref().is_none_or(Session::is_idle) {
            let observed = self.observed();
            for action in self.claim_lifecycle.on_idle(observed, now) {
                self.perform(action, store);
            }
        }
        if self.stats_delta.is_due(now) {
            self.report_traffic(metrics, now);
        }
        self.follow_transport(store, now);
        if !self.lifecycle.is_active() {
            return;
        }
        let queued = self.http.as_ref().map_or(0, |http| http.sendable_bytes(now));
        let is_declined = self.resume_summary.is_some_and(|summary| summary.declined);
        if queued > INITIAL_WINDOW_BYTES && self.may_claim() && !is_declined {
            let action = self.claim_lifecycle.on_data_queued(now);
            self.perform(action, store);
        }
        if self.claim_lifecycle.next_observation().is_some_and(|at| at <= now) {
            self.record_observation(store, now);
        }
    }

    /// Returns whether the client has its address. A response to early data is sent before the
    /// handshake is complete, so that the jump has its claim when the initial window is acknowledged.
    fn may_claim(&self) -> bool {
        let is_early = self.quic.is_in_early_data() && self.lifetime.is_validated();
        self.quic.is_established() || is_early
    }

    /// Records what the connection has observed, if it is more than the last time.
    pub(super) fn record_observation(&mut self, store: &StoreClient, now: Instant) {
        let observed = self.observed();
        let record = self.claim_lifecycle.on_observation(observed, now);
        self.perform(record, store);
    }

    /// Counts what was sent and received since the last call.
    pub(super) fn report_traffic(&mut self, metrics: &WorkerMetrics, now: Instant) {
        let (stats, ecn) = (self.quic.stats(), self.quic.ecn_stats());
        let sent = self.stats_delta.report(&stats, &ecn, &metrics.traffic, now);
        if let Some(arm) = self.resume_summary.and_then(|summary| summary.compared_arm()) {
            metrics.arms.count_bytes(arm, sent);
        }
    }

    /// Takes the store's reply to the claim.
    pub fn on_claim(&mut self, claim: Option<Claim>, store: &StoreClient, metrics: &WorkerMetrics) {
        if self.carried_state.path().saved().is_some() {
            metrics.client_states.on_claim(claim.is_some());
            if claim.is_none() {
                self.carried_state.on_refusal();
            }
        }
        self.take_claim(claim, store);
    }

    fn take_claim(&mut self, claim: Option<Claim>, store: &StoreClient) {
        if let Some(summary) = self.resume_summary.as_mut().filter(|_| claim.is_some()) {
            summary.source = Some(self.carried_state.source());
        }
        let now = clock::now();
        self.pending_claim = claim.zip(self.client()).map(|(claim, client)| PendingClaim {
            client,
            until: now + claim.lease + LINGER,
            before: self.progress(now),
        });
        let action = self.claim_lifecycle.on_claim(claim);
        self.perform(action, store);
    }

    /// Notes whether the claim was of use, as soon as that is known.
    fn judge_claim(&mut self, store: &StoreClient, now: Instant) {
        let Some(pending) = &self.pending_claim else { return };
        let client = pending.client;
        let is_over = now >= pending.until || !self.lifecycle.is_active();
        match pending.is_used(&self.progress(now)) {
            Some(true) => store.claimants.on_use(client),
            Some(false) => self.note_failure(Failure::Disuse, client, store, now),
            None if is_over => self.note_failure(Failure::Disuse, client, store, now),
            None => return,
        }
        self.pending_claim = None;
    }

    /// Returns what the client has taken so far.
    fn progress(&self, now: Instant) -> ClientProgress {
        let http = self.http.as_ref();
        ClientProgress {
            acked_bytes: self.quic.stats().acked_bytes,
            unsent_bytes: http.map_or(0, |http| http.sendable_bytes(now)),
            kept_bytes: http.map_or(0, |http| http.kept_bytes(&self.quic)),
            cancelled: http.map_or(0, Session::cancelled),
            jump_bytes: self.resume_summary.and_then(|summary| summary.jump_bytes),
        }
    }

    /// Returns when the claim is due.
    pub(super) fn claim_deadline(&self) -> Option<Instant> {
        let judgement = self.pending_claim.as_ref().map(|pending| pending.until);
        judgement.into_iter().chain(self.claim_lifecycle.claim_timeout()).min()
    }

    pub(super) fn client(&self) -> Option<IpAddr> {
        self.quic.active_path().map(|path| path.peer_addr.ip())
    }

    fn note_failure(&self, failure: Failure, client: IpAddr, store: &StoreClient, now: Instant) {
        debug!("{}: {failure:?}: {client} may claim nothing for a while", self.trace_id());
        store.claimants.on_failure(client, failure, now);
    }

    fn snapshot(&self) -> ConnectionSnapshot {
        let active = self.quic.active_path();
        ConnectionSnapshot {
            min_rtt: active.and_then(|path| path.min_rtt),
            limit: self.quic.send_limit(),
            jump_bytes: self.resume_summary.and_then(|summary| summary.jump_bytes).unwrap_or(0),
            max_jump: self.resume_summary.map_or(0, |summary| summary.max_jump),
            source: self.resume_summary.and_then(|summary| summary.source),
            wall_now: clock::wall_now(),
        }
    }

    /// Returns the path state that may be recorded: where Careful Resume is on, the address
    /// is validated, and the client keeps to the protocol.
    pub(super) fn observed(&self) -> Option<PathState> {
        let is_on = self.resume_summary.is_some();
        let may_record = is_on && self.quic.is_established() && !is_fault(self.quic.local_error());
        may_record.then(|| self.quic.path_state()).flatten()
    }

    /// Returns whether the store keeps what the connection observes.
    fn may_record(&self, store: &StoreClient, now: Instant) -> bool {
        let is_believed = |client| store.claimants.is_believed(client, now);
        self.carried_state.path().is_recorded() && self.client().is_some_and(is_believed)
    }

    /// Returns whether the client acknowledged what it had not received, or broke the protocol as
    /// badly.
    pub(super) fn is_violated(&self) -> bool {
        is_violation(self.quic.local_error())
    }

    /// Records the last observation, and releases the claim. What a client made known that
    /// broke the protocol is forgotten.
    pub(super) fn end_claim(&mut self, store: &StoreClient, now: Instant) {
        let observed = self.observed();
        if self.is_violated() {
            let action = self.claim_lifecycle.on_violation(self.may_record(store, now));
            self.perform(action, store);
            if let Some(client) = self.client() {
                self.note_failure(Failure::Violation, client, store, now);
            }
        }
        for action in self.claim_lifecycle.on_close(observed, now) {
            self.perform(action, store);
        }
        self.judge_claim(store, now);
        self.keep_last_state(observed, store);
    }

    /// Keeps what the client's next connection may use, of which no token could tell any more.
    fn keep_last_state(&mut self, observed: Option<PathState>, store: &StoreClient) {
        if is_fault(self.quic.local_error()) {
            return;
        }
        self.carried_state.on_observation(observed, clock::wall_now());
        if let Some(last) = self.carried_state.last() {
            store.last_states.keep(self.carried_state.issuer(), last);
        }
    }

    /// Makes the transport tell whether it could jump with the parameters that were read. Both arms
    /// do so, at the same moment and without regard to claims, so that a connection is compared or
    /// not whatever its arm.
    fn start_dry_run(&mut self, rtt: Duration) {
        let Some(saved) = self.found else { return };
        let jump_before = clock::now() + lease(saved.saved_rtt, rtt) / 2;
        // Fails once Careful Resume is over, when nothing is left to decide.
        let _ = self.quic.careful_resume_dry_run(saved, jump_before);
    }

    fn send_claim(&self, store: &StoreClient, rtt: Duration) -> bool {
        match self.carried_state.path().saved() {
            Some(own) => store.claim_own(self.handle, &self.endpoint, &own, rtt),
            None => store.claim(self.handle, &self.endpoint, rtt),
        }
    }

    pub(super) fn perform(&mut self, action: Option<Action>, store: &StoreClient) {
        match action {
            None => (),
            Some(Action::Claim) => {
                let rtt = self.quic.active_path().map(|path| path.rtt).unwrap_or_default();
                let arm = self.resume_summary.and_then(|summary| summary.arm);
                if arm.is_some() {
                    self.start_dry_run(rtt);
                }
                let now = clock::now();
                let waits = |client| !store.claimants.may_claim(client, now);
                let may_claim = arm != Some(Arm::Control) && !self.client().is_none_or(waits);
                if !may_claim || !self.send_claim(store, rtt) {
                    self.take_claim(None, store);
                }
            }
            Some(Action::Resume { saved, jump_before }) => {
                debug!("{}: resumes from {saved:?}", self.quic.trace_id());
                if self.quic.careful_resume_from(saved, jump_before).is_err() {
                    let action = self.claim_lifecycle.on_refusal();
                    self.perform(action, store);
                }
            }
            Some(Action::Release(token)) => store.release(&self.endpoint, token),
            Some(Action::Forget { token, used }) => store.forget(&self.endpoint, token, used),
            Some(Action::Record(_)) if !self.may_record(store, clock::now()) => (),
            Some(Action::Record(observed)) => {
                debug!("{}: records {observed:?}", self.quic.trace_id());
                store.record(&self.endpoint, &observed);
            }
        }
    }
}

/// Returns whether the transport closed the connection, as a rule because the client broke
/// the protocol: one that acknowledges packets it has not received tells nothing of the path.
fn is_fault(error: Option<&quiche::ConnectionError>) -> bool {
    error.is_some_and(|error| !error.is_app)
}

fn is_violation(error: Option<&quiche::ConnectionError>) -> bool {
    let code = WireErrorCode::ProtocolViolation as u64;
    error.is_some_and(|error| !error.is_app && error.error_code == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3;

    #[test]
    fn transport_error_is_a_fault_and_no_other_close_is() {
        let error =
            |is_app, error_code| quiche::ConnectionError { is_app, error_code, reason: Vec::new() };
        assert!(!is_fault(None));
        assert!(!is_fault(Some(&error(true, h3::WireErrorCode::NoError as u64))));
        for (code, violates) in
            [(WireErrorCode::ProtocolViolation, true), (WireErrorCode::InternalError, false)]
        {
            let error = error(false, code as u64);
            assert!(is_fault(Some(&error)));
            assert_eq!(is_violation(Some(&error)), violates);
        }
        assert!(!is_violation(Some(&error(true, WireErrorCode::ProtocolViolation as u64))));
    }
}
