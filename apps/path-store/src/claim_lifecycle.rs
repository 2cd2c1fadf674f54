//! Lifecycle of a claim in one connection: read early, claim late, resume, give back.
//!
//! It includes what the connection learns meanwhile. A pure state machine: events
//! and `now` in, actions out. It knows neither the store nor the transport.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::LINGER;

/// How often a long connection records what it learnt.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// What the store or the transport is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Claim the record; the answer goes to [`ClaimLifecycle::on_claim`].
    Claim,

    /// Hand the saved parameters to the transport; if it refuses, tell
    /// [`ClaimLifecycle::on_refusal`].
    Resume { saved: PathState, jump_before: Instant },

    /// Give the claim back.
    Release(ClaimToken),

    /// Delete the record that was observed at the time of `used`, or before: the path
    /// did not carry it.
    Forget { token: ClaimToken, used: SystemTime },

    /// Keep what was observed.
    Record(PathState),
}

/// A phase that ends a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Safe retreat began (RFC 9959, 3.5).
    Retreat,

    /// Careful Resume is over, with or without a jump (RFC 9959, 3.6).
    Normal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claiming {
    /// The read has not answered, or there is no reason to claim yet.
    NotYet,

    Asked {
        at: Instant,
    },
    /// Until `jump_before`, after which the transport does not jump.
    Held {
        token: ClaimToken,
        used: SystemTime,
        jump_before: Instant,
    },

    /// The jump has begun.
    Used {
        token: ClaimToken,
        used: SystemTime,
    },

    /// Careful Resume is over, and what the jump began fills the path still.
    Lingers {
        token: ClaimToken,
        until: Instant,
    },

    /// Nothing is claimed and nothing will be.
    Over,
}

/// One connection's dealings with the store.
#[derive(Clone, Debug)]
pub struct ClaimLifecycle {
    record_exists: bool,
    claiming: Claiming,

    /// The path did not carry the saved parameters, or is not the one they are about:
    /// nothing learnt here is kept.
    suppressed: bool,

    recorded: Option<PathState>,

    /// When to look at what has been observed; only if something may have been.
    observe_at: Instant,
    active: bool,
}

impl ClaimLifecycle {
    /// Returns that of a connection that begins `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            record_exists: false,
            claiming: Claiming::NotYet,
            suppressed: false,
            recorded: None,
            observe_at: now + RECORD_INTERVAL,
            active: false,
        }
    }

    /// Takes the answer of the store to the read.
    pub fn on_read(&mut self, found: Option<PathState>) {
        self.record_exists = found.is_some();
    }

    /// Claims once the client's address is validated and more than the initial window
    /// is queued: saved parameters would be of use now.
    pub fn on_data_queued(&mut self, now: Instant) -> Option<Action> {
        if !self.record_exists || self.claiming != Claiming::NotYet {
            return None;
        }
        self.claiming = Claiming::Asked { at: now };
        Some(Action::Claim)
    }

    /// Takes the answer of the store to the claim.
    pub fn on_claim(&mut self, claim: Option<Claim>) -> Option<Action> {
        let (Claiming::Asked { at }, Some(claim)) = (self.claiming, claim) else {
            self.claiming = Claiming::Over;
            return claim.map(|claim| Action::Release(claim.token));
        };
        // Whoever jumps late could overlap the next holder's jump.
        let jump_before = at + claim.lease / 2;
        let (token, used) = (claim.token, claim.state.observed);
        self.claiming = Claiming::Held { token, used, jump_before };
        Some(Action::Resume { saved: claim.state, jump_before })
    }

    /// Notes that the transport jumps.
    pub fn on_jump(&mut self) {
        if let Claiming::Held { token, used, .. } = self.claiming {
            self.claiming = Claiming::Used { token, used };
        }
    }

    /// Returns when [`on_claim_timeout`](Self::on_claim_timeout) is due, if nothing happens
    /// before.
    pub fn claim_timeout(&self) -> Option<Instant> {
        match self.claiming {
            Claiming::Held { jump_before: at, .. } | Claiming::Lingers { until: at, .. } => {
                Some(at)
            }
            _ => None,
        }
    }

    /// Gives the claim back: no jump came in time, nor will one; or it is so long ago
    /// that others may have the record. A client that falls silent keeps it from the
    /// others of its subnet no longer than that.
    pub fn on_claim_timeout(&mut self, now: Instant) -> Option<Action> {
        self.claim_timeout().filter(|at| *at <= now).and_then(|_| self.give_back())
    }

    /// Gives the claim back: the transport did not take the saved parameters.
    pub fn on_refusal(&mut self) -> Option<Action> {
        self.give_back()
    }

    /// Follows a phase that ends Careful Resume. What was observed by then is kept,
    /// and before the claim goes back, unless the path failed the jump: then nothing
    /// of this connection may be kept (RFC 9959, 3.5). After a jump the claim goes back
    /// later, so that no one jumps onto what this one sends. The actions are to be done
    /// in their order.
    pub fn on_outcome(
        &mut self,
        outcome: Outcome,
        observed: Option<PathState>,
        now: Instant,
    ) -> [Option<Action>; 2] {
        match outcome {
            Outcome::Retreat => {
                self.suppressed = true;
                [self.forget(), None]
            }
            Outcome::Normal => {
                let record = self.on_observation(observed, now);
                let release = match self.claiming {
                    Claiming::Used { token, .. } => {
                        self.claiming = Claiming::Lingers { token, until: now + LINGER };
                        None
                    }
                    Claiming::Lingers { .. } => None,
                    _ => self.give_back(),
                };
                [record, release]
            }
        }
    }

    /// Tells whether [`on_idle`](Self::on_idle) would give the claim back.
    pub fn lingers(&self) -> bool {
        matches!(self.claiming, Claiming::Lingers { .. })
    }

    /// Gives a claim back after its jump, as all that the client asked for has arrived:
    /// the path is free for the next jump.
    pub fn on_idle(&mut self, observed: Option<PathState>, now: Instant) -> [Option<Action>; 2] {
        match self.lingers() {
            true => [self.on_observation(observed, now), self.give_back()],
            false => [None, None],
        }
    }

    /// Notes that the client went on under an address of another remote endpoint. The
    /// record is not about its new path, nor is what is learnt from now on (RFC 9959,
    /// 2.2). A claim goes back after Careful Resume has ended on the old one.
    pub fn on_move(&mut self) {
        self.suppressed = true;
        if matches!(self.claiming, Claiming::NotYet | Claiming::Asked { .. }) {
            self.claiming = Claiming::Over;
        }
    }

    /// Notes that packets went out: there will be something to observe.
    pub fn on_activity(&mut self) {
        self.active = true;
    }

    /// Returns when [`on_observation`](Self::on_observation) is due next.
    pub fn next_observation(&self) -> Option<Instant> {
        (self.active && !self.suppressed).then_some(self.observe_at)
    }

    /// Records what the connection knows of its path now, if it is new.
    pub fn on_observation(&mut self, observed: Option<PathState>, now: Instant) -> Option<Action> {
        self.observe_at = now + RECORD_INTERVAL;
        self.active = false;
        let observed = observed?;
        if self.suppressed || self.recorded == Some(observed) {
            return None;
        }
        self.recorded = Some(observed);
        Some(Action::Record(observed))
    }

    /// Ends with the connection: records its last observation, and gives the claim back,
    /// unless the client leaves amid its jump. Nobody hears then whether the path takes it,
    /// and the claim expires with its lease, as that of a client that falls silent: one that
    /// jumps and leaves over and over would flood the path.
    pub fn on_close(&mut self, observed: Option<PathState>, now: Instant) -> [Option<Action>; 2] {
        let record = self.on_observation(observed, now);
        let release = match self.claiming {
            Claiming::Used { .. } => None,
            _ => self.give_back(),
        };
        self.claiming = Claiming::Over;
        [record, release]
    }

    fn give_back(&mut self) -> Option<Action> {
        match std::mem::replace(&mut self.claiming, Claiming::Over) {
            Claiming::Held { token, .. }
            | Claiming::Used { token, .. }
            | Claiming::Lingers { token, .. } => Some(Action::Release(token)),
            _ => None,
        }
    }

    /// Has the record forgotten that this connection used, and what it recorded since.
    fn forget(&mut self) -> Option<Action> {
        let recorded = self.recorded.map(|state| state.observed);
        match std::mem::replace(&mut self.claiming, Claiming::Over) {
            Claiming::Held { token, used, .. } | Claiming::Used { token, used } => {
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

    /// Returns a connection that holds the claim since the returned time.
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
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, None, now), NOTHING);
        assert!(lifecycle.lingers());
        (lifecycle, now)
    }

    #[test]
    fn a_set_is_claimed_once_and_only_when_there_is_one() {
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
    fn the_jump_must_come_in_the_first_half_of_the_lease() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        let resume = Action::Resume { saved: state(1000), jump_before: now + LEASE / 2 };
        assert_eq!(lifecycle.on_claim(Some(claim())), Some(resume));
    }

    #[test]
    fn a_claim_that_another_connection_holds_is_not_asked_for_again() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        assert_eq!(lifecycle.on_claim(None), None);
        assert_eq!(lifecycle.on_data_queued(now), None);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);
    }

    #[test]
    fn a_claim_ends_once_however_the_connection_goes() {
        let release = [None, Some(Action::Release(TOKEN))];
        let forget = [Some(FORGET), None];

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_refusal(), release[1]);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, None, now), release);
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, None, now), NOTHING);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_outcome(Outcome::Retreat, None, now), forget);
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, None, now), NOTHING);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_close(None, now), release);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);

        let (mut lifecycle, now) = lingering();
        assert_eq!(lifecycle.on_close(None, now), release);
        assert_eq!(lifecycle.on_close(None, now), NOTHING);
    }

    #[test]
    fn a_client_that_leaves_amid_its_jump_keeps_the_claim_to_the_end_of_its_lease() {
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        let record = [Some(Action::Record(state(900))), None];
        assert_eq!(lifecycle.on_close(Some(state(900)), now), record);
        assert_eq!(lifecycle.on_close(Some(state(900)), now), NOTHING);
    }

    #[test]
    fn after_a_jump_the_claim_lingers_while_the_connection_sends() {
        let release = Some(Action::Release(TOKEN));

        let (mut lifecycle, now) = lingering();
        assert_eq!(lifecycle.claim_timeout(), Some(now + LINGER));
        assert_eq!(lifecycle.on_claim_timeout(now + LINGER - Duration::from_millis(1)), None);
        assert_eq!(lifecycle.on_claim_timeout(now + LINGER), release);
        assert_eq!((lifecycle.claim_timeout(), lifecycle.lingers()), (None, false));
        assert_eq!(lifecycle.on_idle(None, now + LINGER), NOTHING);

        let (mut lifecycle, now) = lingering();
        let ends = [Some(Action::Record(state(900))), release];
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), ends);
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), NOTHING);
        assert_eq!(lifecycle.on_close(Some(state(900)), now), NOTHING);

        // Its path is another one by then, perhaps with the same claim on the old.
        let (mut lifecycle, now) = lingering();
        lifecycle.on_move();
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), [None, release]);
    }

    #[test]
    fn one_that_is_idle_before_its_jump_keeps_its_claim() {
        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), NOTHING);
        lifecycle.on_jump();
        assert_eq!(lifecycle.on_idle(Some(state(900)), now), NOTHING);
        let forget = [Some(FORGET), None];
        assert_eq!(lifecycle.on_outcome(Outcome::Retreat, None, now), forget);
    }

    // RFC 9959, 3.5: nor is what the connection recorded before the path failed it.
    #[test]
    fn a_retreat_forgets_what_the_connection_recorded_meanwhile() {
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        let observed = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        lifecycle.on_observation(Some(PathState { observed, ..state(900) }), now);

        let forget = Action::Forget { token: TOKEN, used: observed };
        assert_eq!(lifecycle.on_outcome(Outcome::Retreat, None, now), [Some(forget), None]);
    }

    #[test]
    fn what_was_observed_is_kept_before_the_claim_goes_back() {
        let kept = [Some(Action::Record(state(900))), Some(Action::Release(TOKEN))];

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, Some(state(900)), now), kept);

        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.on_close(Some(state(900)), now), kept);
    }

    // RFC 9959, 3.5: what the path did not carry is forgotten, not renewed.
    #[test]
    fn a_retreat_forgets_and_keeps_nothing_of_what_was_observed() {
        let (mut lifecycle, now) = holding();
        let forget = [Some(FORGET), None];
        assert_eq!(lifecycle.on_outcome(Outcome::Retreat, Some(state(900)), now), forget);
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, Some(state(900)), now), NOTHING);
        assert_eq!(lifecycle.on_close(Some(state(900)), now), NOTHING);
    }

    #[test]
    fn a_claim_without_a_jump_goes_back_when_none_will_come() {
        let (mut lifecycle, now) = holding();
        assert_eq!(lifecycle.claim_timeout(), Some(now + LEASE / 2));
        assert_eq!(lifecycle.on_claim_timeout(now + LEASE / 2 - Duration::from_millis(1)), None);
        assert_eq!(lifecycle.on_claim_timeout(now + LEASE / 2), Some(Action::Release(TOKEN)));
        assert_eq!(lifecycle.claim_timeout(), None);
        assert_eq!(lifecycle.on_outcome(Outcome::Normal, None, now + LEASE), NOTHING);

        // One that is being used stays until Careful Resume ends.
        let (mut lifecycle, now) = holding();
        lifecycle.on_jump();
        assert_eq!(lifecycle.claim_timeout(), None);
        assert_eq!(lifecycle.on_claim_timeout(now + LEASE), None);
        let forget = [Some(FORGET), None];
        assert_eq!(lifecycle.on_outcome(Outcome::Retreat, None, now + LEASE), forget);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_given_back() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        lifecycle.on_close(None, now);
        assert_eq!(lifecycle.on_claim(Some(claim())), Some(Action::Release(TOKEN)));
    }

    #[test]
    fn a_client_that_moved_neither_resumes_nor_records() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        lifecycle.on_read(Some(state(1000)));
        lifecycle.on_data_queued(now);
        lifecycle.on_move();
        assert_eq!(lifecycle.on_claim(Some(claim())), Some(Action::Release(TOKEN)));
        assert_eq!(lifecycle.on_data_queued(now), None);
        lifecycle.on_activity();
        assert_eq!(lifecycle.next_observation(), None);
        assert_eq!(lifecycle.on_close(Some(state(500)), now), NOTHING);
    }

    #[test]
    fn a_client_that_moved_amid_a_jump_gives_its_claim_back_or_has_the_set_forgotten() {
        for (outcome, ends) in [
            (Outcome::Normal, [None, Some(Action::Release(TOKEN))]),
            (Outcome::Retreat, [Some(FORGET), None]),
        ] {
            let (mut lifecycle, now) = holding();
            lifecycle.on_move();
            assert_eq!(lifecycle.on_outcome(outcome, Some(state(500)), now), ends);
        }
    }

    #[test]
    fn nothing_is_recorded_after_a_retreat() {
        let (mut lifecycle, now) = holding();
        lifecycle.on_activity();
        lifecycle.on_outcome(Outcome::Retreat, None, now);
        assert_eq!(lifecycle.next_observation(), None);
        assert_eq!(lifecycle.on_observation(Some(state(500)), now), None);
    }

    #[test]
    fn an_active_connection_observes_every_second() {
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
    fn only_what_is_new_is_recorded() {
        let now = quiche::clock::now();
        let mut lifecycle = ClaimLifecycle::new(now);
        let record = |cwnd| Some(Action::Record(state(cwnd)));
        assert_eq!(lifecycle.on_observation(None, now), None);
        assert_eq!(lifecycle.on_observation(Some(state(100)), now), record(100));
        assert_eq!(lifecycle.on_observation(Some(state(100)), now), None);
        assert_eq!(lifecycle.on_observation(Some(state(200)), now), record(200));
    }
}
