//! Lifecycle of a claim in one connection: read early, claim late, resume, release.
//!
//! It also decides when the connection records what it observes. A pure state machine:
//! events and `now` in, actions out. It knows neither the store nor the transport.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::LINGER;

/// How often a connection records what it observes.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// Request to the store or to the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Claim the record; the answer goes to [`ClaimLifecycle::on_claim`].
    Claim,

    /// Hand the saved parameters to the transport; if it refuses them, call
    /// [`ClaimLifecycle::on_refusal`].
    Resume { saved: PathState, jump_before: Instant },

    /// Release the claim.
    Release(ClaimToken),

    /// Delete the record if it was observed at `used` or before: the path did not carry it.
    Forget { token: ClaimToken, used: SystemTime },

    /// Record what was observed.
    Record(PathState),
}

/// The phase of Careful Resume that ends the use of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// Safe retreat began (RFC 9959, 3.5).
    Retreat,

    /// Careful Resume is over, with or without a jump (RFC 9959, 3.6).
    Normal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    /// No answer to the read yet, or no reason to claim yet.
    Unclaimed,

    Requested {
        at: Instant,
    },
    /// The transport does not jump after `jump_before`.
    Held {
        token: ClaimToken,
        used: SystemTime,
        jump_before: Instant,
    },

    /// The jump has begun.
    Jumping {
        token: ClaimToken,
        used: SystemTime,
    },

    /// Careful Resume is over, and data that the jump began still fills the path.
    Lingering {
        token: ClaimToken,
        until: Instant,
    },

    /// Nothing is claimed and nothing will be.
    Ended,
}

/// Claim and observations of one connection.
#[derive(Clone, Debug)]
pub struct ClaimLifecycle {
    record_exists: bool,
    claim: ClaimState,

    /// The path did not carry the saved parameters, or is no longer the one they are of:
    /// nothing that is observed is recorded.
    suppressed: bool,

    recorded: Option<PathState>,

    /// When the next observation is due, if `has_sent`.
    observe_at: Instant,
    has_sent: bool,
}

impl ClaimLifecycle {
    /// Creates the lifecycle of a connection that begins `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            record_exists: false,
            claim: ClaimState::Unclaimed,
            suppressed: false,
            recorded: None,
            observe_at: now + RECORD_INTERVAL,
            has_sent: false,
        }
    }

    /// Handles the store's answer to the read.
    pub fn on_read(&mut self, found: Option<PathState>) {
        self.record_exists = found.is_some();
    }

    /// Requests the claim, once: the client's address is validated and more than the initial
    /// window is queued, so that saved parameters are of use.
    pub fn on_data_queued(&mut self, now: Instant) -> Option<Action> {
        if !self.record_exists || self.claim != ClaimState::Unclaimed {
            return None;
        }
        self.claim = ClaimState::Requested { at: now };
        Some(Action::Claim)
    }

    /// Handles the store's answer to the claim.
    pub fn on_claim(&mut self, claim: Option<Claim>) -> Option<Action> {
        let (ClaimState::Requested { at }, Some(claim)) = (self.claim, claim) else {
            self.claim = ClaimState::Ended;
            return claim.map(|claim| Action::Release(claim.token));
        };
        // A later jump could overlap the next holder's.
        let jump_before = at + claim.lease / 2;
        let (token, used) = (claim.token, claim.state.observed);
        self.claim = ClaimState::Held { token, used, jump_before };
        Some(Action::Resume { saved: claim.state, jump_before })
    }

    /// Notes that the transport jumps.
    pub fn on_jump(&mut self) {
        if let ClaimState::Held { token, used, .. } = self.claim {
            self.claim = ClaimState::Jumping { token, used };
        }
    }

    /// Returns when [`on_claim_timeout`](Self::on_claim_timeout) is due, if nothing happens
    /// before.
    pub fn claim_timeout(&self) -> Option<Instant> {
        match self.claim {
            ClaimState::Held { jump_before: at, .. } | ClaimState::Lingering { until: at, .. } => {
                Some(at)
            }
            _ => None,
        }
    }

    /// Releases the claim: no jump came in time, or the jump is so long ago that others may
    /// claim the record. A silent client keeps it from others of its subnet no longer.
    pub fn on_claim_timeout(&mut self, now: Instant) -> Option<Action> {
        self.claim_timeout().filter(|at| *at <= now).and_then(|_| self.release())
    }

    /// Releases the claim: the transport refused the saved parameters.
    pub fn on_refusal(&mut self) -> Option<Action> {
        self.release()
    }

    /// Handles the end of Careful Resume. Records what was observed before it releases the
    /// claim. After a retreat it records nothing of this connection (RFC 9959, 3.5). After a
    /// jump it releases the claim later, so that nobody jumps while this connection still
    /// fills the path. The caller performs the actions in order.
    pub fn on_outcome(
        &mut self,
        outcome: ResumeOutcome,
        observed: Option<PathState>,
        now: Instant,
    ) -> [Option<Action>; 2] {
        match outcome {
            ResumeOutcome::Retreat => {
                self.suppressed = true;
                [self.forget(), None]
            }
            ResumeOutcome::Normal => {
                let record = self.on_observation(observed, now);
                let release = match self.claim {
                    ClaimState::Jumping { token, .. } => {
                        self.claim = ClaimState::Lingering { token, until: now + LINGER };
                        None
                    }
                    ClaimState::Lingering { .. } => None,
                    _ => self.release(),
                };
                [record, release]
            }
        }
    }

    /// Returns whether [`on_idle`](Self::on_idle) would release the claim.
    pub fn is_lingering(&self) -> bool {
        matches!(self.claim, ClaimState::Lingering { .. })
    }

    /// Releases the claim after its jump: the client has all that it requested, and the path is
    /// free for the next jump.
    pub fn on_idle(&mut self, observed: Option<PathState>, now: Instant) -> [Option<Action>; 2] {
        match self.is_lingering() {
            true => [self.on_observation(observed, now), self.release()],
            false => [None, None],
        }
    }

    /// Notes that the client migrated to another remote endpoint. The record is not of its new
    /// path, and observations of the new path are not recorded (RFC 9959, 2.2). A claim is
    /// released after Careful Resume ends on the old path.
    pub fn on_migration(&mut self) {
        self.suppressed = true;
        if matches!(self.claim, ClaimState::Unclaimed | ClaimState::Requested { .. }) {
            self.claim = ClaimState::Ended;
        }
    }

    /// Notes that packets were sent: there will be something to observe.
    pub fn on_activity(&mut self) {
        self.has_sent = true;
    }

    /// Returns when [`on_observation`](Self::on_observation) is due next.
    pub fn next_observation(&self) -> Option<Instant> {
        (self.has_sent && !self.suppressed).then_some(self.observe_at)
    }

    /// Records an observation that differs from the last.
    pub fn on_observation(&mut self, observed: Option<PathState>, now: Instant) -> Option<Action> {
        self.observe_at = now + RECORD_INTERVAL;
        self.has_sent = false;
        let observed = observed?;
        if self.suppressed || self.recorded == Some(observed) {
            return None;
        }
        self.recorded = Some(observed);
        Some(Action::Record(observed))
    }

    /// Records the last observation and releases the claim. A client that leaves during its jump
    /// keeps the claim until its lease ends, because it is unknown whether the path carried the
    /// jump: otherwise, a client that jumps and leaves over and over would flood the path.
    pub fn on_close(&mut self, observed: Option<PathState>, now: Instant) -> [Option<Action>; 2] {
        let record = self.on_observation(observed, now);
        let release = match self.claim {
            ClaimState::Jumping { .. } => None,
            _ => self.release(),
        };
        self.claim = ClaimState::Ended;
        [record, release]
    }

    /// Ends it because the client acknowledged what it had not received. If this connection
    /// `has_recorded`, that is forgotten. The parameters that it used are others', and stay.
    pub fn on_violation(&mut self, has_recorded: bool) -> Option<Action> {
        self.suppressed = true;
        let recorded = self.recorded.filter(|_| has_recorded)?;
        let token = match self.release() {
            Some(Action::Release(token)) => token,
            _ => ClaimToken::random(),
        };
        Some(Action::Forget { token, used: recorded.observed })
    }

    fn release(&mut self) -> Option<Action> {
        match std::mem::replace(&mut self.claim, ClaimState::Ended) {
            ClaimState::Held { token, .. }
            | ClaimState::Jumping { token, .. }
            | ClaimState::Lingering { token, .. } => Some(Action::Release(token)),
            _ => None,
        }
    }

    /// Forgets the record that this connection used, and what it recorded since.
    fn forget(&mut self) -> Option<Action> {
        let recorded = self.recorded.map(|state| state.observed);
        match std::mem::replace(&mut self.claim, ClaimState::Ended) {
            ClaimState::Held { token, used, .. } | ClaimState::Jumping { token, used } => {
                Some(Action::Forget { token, used: recorded.map_or(used, |at| at.max(used)) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: ClaimToken = ClaimToken(7);
    const LEASE: Duration = Duration::from_secs(4);
    const NOTHING: [Option<Action>; 2] = [None, None];

    /// Of the record that is claimed.
    const FORGET: Action = Action::Forget { token: TOKEN, used: SystemTime::UNIX_EPOCH };

    fn state(saved_cwnd: u64) -> PathState {
        PathState {
            saved_cwnd,
            saved_rtt: Duration::from_millis(50),
            observed: SystemTime::UNIX_EPOCH,
            expires: SystemTime::UNIX_EPOCH + Duration::from_secs(3600),
            limited: false,
            validated: false,
        }
    }

    fn claim() -> Claim {
        Claim { state: state(1000), token: TOKEN, lease: LEASE }
    }

    /// Returns a connection that has held the claim since the returned time.
    fn holding() -> (ClaimLifecycle, Instant) {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        assert_eq!(lifecycle.on_data_queued(now), Some(Action::Claim));
        assert!(matches!(lifecycle.on_claim(Some(claim())), Some(Action::Resume { .. })));
        (lifecycle, now)
    }

    /// Returns one that has jumped, and left Careful Resume at the returned time.
    fn lingering() -> (ClaimLifecycle, Instant) {
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, None, now), NOTHING);
        assert!(lifecycle.is_lingering());
        (lifecycle, now)
    }

    #[test]
    fn record_is_claimed_once_if_it_exists() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        assert_eq!(lifecycle.on_data_queued(now), None);
        lifecycle.on_read(None);
        assert_eq!(lifecycle.on_data_queued(now), None);
        lifecycle.on_read(Some(state(1000)));
        assert_eq!(lifecycle.on_data_queued(now), Some(Action::Claim));
        assert_eq!(lifecycle.on_data_queued(now), None);
    }

    #[test]
    fn jump_is_allowed_in_first_half_of_lease() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        let resume = Action::Resume { saved: state(1000), jump_before: now + LEASE / 2 };
        assert_eq!(lifecycle.on_claim(Some(claim())), Some(resume));
    }

    #[test]
    fn refused_claim_is_not_requested_again() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        assert_eq!(lifecycle.on_claim(None), None);
        assert_eq!(lifecycle.on_data_queued(now), None);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);
    }

    #[test]
    fn claim_ends_once_in_every_outcome() {
        let release = [None, Some(Action::Release(TOKEN))];
        let forget = [Some(FORGET), None];

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_refusal(), release[1]);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, None, now), release);
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, None, now), NOTHING);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Retreat, None, now), forget);
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, None, now), NOTHING);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_close(None, now), release);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = lingering();
        assert_eq!(lifecycle.on_close(None, now), release);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);
    }

    #[test]
    fn close_during_jump_keeps_claim_until_lease_ends() {
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        let record = [Some(Action::Record(state(900))), None];
        assert_eq!(lifecycle.on_close(Some(state(900)), now), record);
        assert_eq!(lifecycle.on_close(Some(state(900)), now), NOTHING);
    }

    #[test]
    fn claim_lingers_after_jump_while_sending() {
        let release = Some(Action::Release(TOKEN));

        let (mut lifecycle, now) = lingering();
        assert_eq!(lifecycle.claim_timeout(), Some(now + LINGER));
        assert_eq!(lifecycle.on_claim_timeout(now + LINGER - Duration::from_millis(1)), None);
        assert_eq!(lifecycle.on_claim_timeout(now + LINGER), release);
        assert_eq!((lifecycle.claim_timeout(), lifecycle.is_lingering()), (None, false));
        assert_eq!(lifecycle.on_idle(None, now + LINGER), NOTHING);

        let (mut lifecycle, now) = lingering();
        let ends = [Some(Action::Record(state(900))), release];
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), ends);
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), NOTHING);
        assert_eq!(lifecycle.on_close(Some(state(900)), now), NOTHING);

        // The claim on the old path ends when the new path is idle.
        let (mut lifecycle, now) = lingering();
        lifecycle.on_migration();
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), [None, release]);
    }

    #[test]
    fn idle_before_jump_keeps_claim() {
        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), NOTHING);
        lifecycle.on_jump();
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), NOTHING);
        let forget = [Some(FORGET), None];
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Retreat, None, now), forget);
    }

    // RFC 9959, 3.5: what the connection recorded before its retreat is not kept either.
    #[test]
    fn retreat_forgets_own_later_records() {
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        let observed = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        lifecycle.on_observation(Some(PathState { observed, ..state(900) }), now);

        let forget = Action::Forget { token: TOKEN, used: observed };
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Retreat, None, now), [Some(forget), None]);
    }

    // RFC 9000, 21.4.
    #[test]
    fn violation_forgets_what_the_connection_made_known() {
        let release = Some(Action::Release(TOKEN));
        let observed = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let recorded = Some(PathState { observed, ..state(900) });
        let forget = Some(Action::Forget { token: TOKEN, used: observed });

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_violation(true), None);
        assert_eq!(lifecycle.on_close(Some(state(950)), now), [None, release]);

        let (mut lifecycle, now) = holding();
        lifecycle.on_observation(recorded, now);
        assert_eq!(lifecycle.on_violation(true), forget);
        assert_eq!(lifecycle.on_close(Some(state(950)), now), NOTHING);

        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        assert_eq!(lifecycle.on_violation(true), None);
        assert_eq!(lifecycle.on_close(Some(state(950)), now), NOTHING);

        let (mut lifecycle, now) = lingering();
        lifecycle.on_observation(recorded, now);
        assert_eq!(lifecycle.on_violation(true), forget);

        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        assert_eq!(lifecycle.on_violation(true), None);
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_observation(recorded, now);
        let forgotten = lifecycle.on_violation(true);
        assert!(matches!(forgotten, Some(Action::Forget { used, .. }) if used == observed));

        // What it observed was not recorded.
        let (mut lifecycle, now) = holding();
        lifecycle.on_observation(recorded, now);
        assert_eq!(lifecycle.on_violation(false), None);
        assert_eq!(lifecycle.on_close(Some(state(950)), now), [None, release]);
    }

    #[test]
    fn observation_is_recorded_before_release() {
        let kept = [Some(Action::Record(state(900))), Some(Action::Release(TOKEN))];

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, Some(state(900)), now), kept);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_close(Some(state(900)), now), kept);
    }

    // RFC 9959, 3.5: what the path did not carry is forgotten, not renewed.
    #[test]
    fn retreat_records_no_observation() {
        let (mut lifecycle, now) = holding();
        let forget = [Some(FORGET), None];
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Retreat, Some(state(900)), now), forget);
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, Some(state(900)), now), NOTHING);
        assert_eq!(lifecycle.on_close(Some(state(900)), now), NOTHING);
    }

    #[test]
    fn claim_without_jump_is_released_in_time() {
        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.claim_timeout(), Some(now + LEASE / 2));
        assert_eq!(lifecycle.on_claim_timeout(now + LEASE / 2 - Duration::from_millis(1)), None);
        assert_eq!(lifecycle.on_claim_timeout(now + LEASE / 2), Some(Action::Release(TOKEN)));
        assert_eq!(lifecycle.claim_timeout(), None);
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Normal, None, now + LEASE), NOTHING);

        // A claim that is in use stays until Careful Resume ends.
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        assert_eq!(lifecycle.claim_timeout(), None);
        assert_eq!(lifecycle.on_claim_timeout(now + LEASE), None);
        let forget = [Some(FORGET), None];
        assert_eq!(lifecycle.on_outcome(ResumeOutcome::Retreat, None, now + LEASE), forget);
    }

    #[test]
    fn claim_answered_after_close_is_released() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        lifecycle.on_close(None, now);
        assert_eq!(lifecycle.on_claim(Some(claim())), Some(Action::Release(TOKEN)));
    }

    #[test]
    fn migrated_client_neither_resumes_nor_records() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        lifecycle.on_migration();
        assert_eq!(lifecycle.on_claim(Some(claim())), Some(Action::Release(TOKEN)));
        assert_eq!(lifecycle.on_data_queued(now), None);
        lifecycle.on_activity();
        assert_eq!(lifecycle.next_observation(), None);
        assert_eq!(lifecycle.on_close(Some(state(500)), now), NOTHING);
    }

    #[test]
    fn migration_during_jump_releases_or_forgets() {
        for (outcome, ends) in [
            (ResumeOutcome::Normal, [None, Some(Action::Release(TOKEN))]),
            (ResumeOutcome::Retreat, [Some(FORGET), None]),
        ] {
            let (mut lifecycle, now) = holding();
            lifecycle.on_migration();
            assert_eq!(lifecycle.on_outcome(outcome, Some(state(500)), now), ends);
        }
    }

    #[test]
    fn retreat_ends_observations() {
        let (mut lifecycle, now) = holding();
        lifecycle.on_activity();
        lifecycle.on_outcome(ResumeOutcome::Retreat, None, now);
        assert_eq!(lifecycle.next_observation(), None);
        assert_eq!(lifecycle.on_observation(Some(state(500)), now), None);
    }

    #[test]
    fn observation_is_due_every_second_of_sending() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        assert_eq!(lifecycle.next_observation(), None);
        lifecycle.on_activity();
        assert_eq!(lifecycle.next_observation(), Some(now + RECORD_INTERVAL));

        let later = now + RECORD_INTERVAL;
        lifecycle.on_observation(None, later);
        assert_eq!(lifecycle.next_observation(), None);
        lifecycle.on_activity();
        assert_eq!(lifecycle.next_observation(), Some(later + RECORD_INTERVAL));
    }

    #[test]
    fn observation_is_recorded_only_if_new() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        let record = |cwnd| Some(Action::Record(state(cwnd)));
        assert_eq!(lifecycle.on_observation(None, now), None);
        assert_eq!(lifecycle.on_observation(Some(state(100)), now), record(100));
        assert_eq!(lifecycle.on_observation(Some(state(100)), now), None);
        assert_eq!(lifecycle.on_observation(Some(state(200)), now), record(200));
    }
}
