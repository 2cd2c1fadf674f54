//! Simulated connection: the claim lifecycle of edge-server, driven by times instead of packets.
//!
//! A connection reads, and claims one round trip later. With a claim it jumps, unless the grant is
//! too late, and then does what its [`Fate`] says. Without one it ends.

use std::time::Duration;
use std::time::Instant;

use path_store::claim_lifecycle::Action;
use path_store::claim_lifecycle::ClaimLifecycle;
use path_store::claim_lifecycle::ResumeOutcome;
use quiche::path_state::Claim;
use quiche::path_state::PathState;

/// What becomes of a connection that may jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The jump succeeds, and the response is complete after this time more.
    Completes(Duration),

    /// The client leaves during the jump.
    Leaves,

    /// The path does not carry the jump.
    Retreats,

    /// The client does not acknowledge, so that there is no jump.
    IsSilent,
}

/// Something that happens to a connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The handshake is complete and a long response is queued.
    DataQueued,

    /// Slow start without a jump has shown what the path carries.
    SlowStartEnds,

    /// Careful Resume is over, or its client is gone.
    OutcomeKnown,

    /// The client has everything.
    ResponseComplete,

    /// The claim lifecycle's time-out.
    ClaimTimeout,
}

/// What a connection asks for: actions to perform in order, then events at times.
#[derive(Debug, Default)]
pub struct Next {
    pub actions: Vec<Action>,
    pub events: Vec<(Instant, Event)>,
}

/// Round trips from the claim to the end of Careful Resume.
const JUMP_RTTS: u32 = 3;

pub struct Connection {
    lifecycle: ClaimLifecycle,
    rtt: Duration,
    fate: Fate,
}

impl Connection {
    pub fn new(rtt: Duration, fate: Fate, now: Instant) -> Self {
        Self { lifecycle: ClaimLifecycle::new(now), rtt, fate }
    }

    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    pub fn on_read(&mut self, found: Option<PathState>, now: Instant) -> Next {
        self.lifecycle.on_read(found);
        Next::at(now + self.rtt, Event::DataQueued)
    }

    pub fn on_claim(&mut self, claim: Option<Claim>, now: Instant) -> Next {
        let Some(action) = self.lifecycle.on_claim(claim) else { return Next::default() };
        let jumps = match action {
            Action::Resume { jump_before, .. } => now < jump_before && self.fate != Fate::IsSilent,
            _ => return Next::perform([Some(action)]),
        };
        if !jumps {
            return self.timeout();
        }
        self.lifecycle.on_jump();
        Next::at(now + self.rtt * JUMP_RTTS, Event::OutcomeKnown)
    }

    /// Handles an event, with what the connection has observed of its path.
    pub fn on_event(&mut self, event: Event, observed: PathState, now: Instant) -> Next {
        match event {
            Event::DataQueued => match self.lifecycle.on_data_queued(now) {
                Some(claim) => Next::perform([Some(claim)]),
                None => Next::at(now + self.rtt * JUMP_RTTS, Event::SlowStartEnds),
            },
            Event::SlowStartEnds => Next::perform(self.lifecycle.on_close(Some(observed), now)),
            Event::OutcomeKnown => self.on_outcome(observed, now),
            Event::ResponseComplete => Next::perform(self.lifecycle.on_idle(Some(observed), now)),
            Event::ClaimTimeout => Next::perform([self.lifecycle.on_claim_timeout(now)]),
        }
    }

    fn on_outcome(&mut self, observed: PathState, now: Instant) -> Next {
        let outcome = match self.fate {
            Fate::Leaves => return Next::perform(self.lifecycle.on_close(None, now)),
            Fate::Retreats => ResumeOutcome::Retreat,
            Fate::Completes(_) | Fate::IsSilent => ResumeOutcome::Normal,
        };
        let mut next = Next::perform(self.lifecycle.on_outcome(outcome, Some(observed), now));
        next.events = self.timeout().events;
        if let Fate::Completes(after) = self.fate {
            next.events.push((now + after, Event::ResponseComplete));
        }
        next
    }

    fn timeout(&self) -> Next {
        let at = self.lifecycle.claim_timeout();
        Next {
            events: at.map(|at| (at, Event::ClaimTimeout)).into_iter().collect(),
            ..Next::default()
        }
    }
}

impl Next {
    fn at(time: Instant, event: Event) -> Self {
        Self { events: vec![(time, event)], ..Self::default() }
    }

    fn perform(actions: impl IntoIterator<Item = Option<Action>>) -> Self {
        Self { actions: actions.into_iter().flatten().collect(), ..Self::default() }
    }
}
