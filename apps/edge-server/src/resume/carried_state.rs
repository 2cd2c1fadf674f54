//! Own state of one connection's client: what it brings in its token, and what its next tokens tell.
//!
//! A client leaves when it has its last byte, and nothing sent after that reaches it. So its token
//! is replaced while the response is under way, as often as what it tells has changed.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use path_store::OwnPath;
use path_store::OwnState;
use path_store::StateKept;
use quiche::path_state::PathState;

use crate::resume::own_state::Issuer;
use crate::resume::own_state::Source;

/// Tokens that one connection may send at once: as many as a window doubles from the initial to
/// the largest, twice.
const TOKENS_MAX: u32 = 20;

/// Time after which it may send one more.
const TOKEN_INTERVAL: Duration = Duration::from_secs(60);

/// How often a connection looks at what was observed: in slow start, what the last round trip tells
/// is known when the last packets leave.
const LOOKS_PER_RTT: u32 = 4;
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Share by which capacity or RTT differ at least if a token is replaced during a response, and
/// when the last of it leaves.
const CHANGE_DIVISOR: u64 = 4;
const LAST_CHANGE_DIVISOR: u64 = 16;

/// The same when it leaves, while fewer than this part of the tokens are sent: the next jump is as
/// much smaller as what is told. Later ones are for greater changes.
const SMALL_CHANGE_DIVISOR: u64 = 64;
const SMALL_CHANGES_DIVISOR: u32 = 2;

/// Share of its Lifetime after which a state that has not changed is told again.
const AGE_DIVISOR: u32 = 4;

/// What the connection does for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The transport has not taken all of the responses.
    Writing,

    /// It has, and the client has not acknowledged all.
    Waiting,
    Idle,
}

/// Own state of one client.
pub struct CarriedState {
    path: OwnPath,
    issuer: Issuer,

    /// What the client's last token tells.
    issued: OwnState,
    tokens: u32,

    /// None before the first token.
    first_token: Option<Instant>,
    look_at: Instant,
    activity: Activity,

    /// The client has moved to another endpoint.
    is_away: bool,
}

impl CarriedState {
    /// Returns the state of a client that `brought` this.
    pub fn new(kept: StateKept, brought: OwnState, now: Instant) -> Self {
        Self {
            path: OwnPath::new(kept, brought),
            issuer: Issuer::random(),
            issued: OwnState::Unknown,
            tokens: 0,
            first_token: None,
            look_at: now,
            activity: Activity::Idle,
            is_away: false,
        }
    }

    /// Returns the path to the client.
    pub fn path(&self) -> &OwnPath {
        &self.path
    }

    /// Returns the name of the connection in its tokens.
    pub fn issuer(&self) -> Issuer {
        self.issuer
    }

    /// Returns what the client would be told now, if its tokens tell anything.
    pub fn last(&self) -> Option<OwnState> {
        let tells = self.path.is_carried() && !self.is_away && self.first_token.is_some();
        tells.then(|| self.path.next())
    }

    /// Returns where saved parameters come from that a claim was granted for.
    pub fn source(&self) -> Source {
        match self.path.saved() {
            Some(_) => Source::Token,
            None => Source::Store,
        }
    }

    /// Notes that the store has refused what the client brought.
    pub fn on_refusal(&mut self) {
        self.path.on_refusal();
    }

    /// Notes a retreat of the connection, of which the next token tells.
    pub fn on_retreat(&mut self, wall_now: SystemTime, now: Instant) {
        self.path.on_retreat(wall_now);
        self.look_at = now;
    }

    /// Notes that the client has moved to another endpoint.
    pub fn on_migration(&mut self) {
        self.is_away = true;
    }

    /// Returns whether it is time to look at what was observed: some times in a round trip, and
    /// whenever the activity changes.
    pub fn takes_look(&mut self, activity: Activity, rtt: Duration, now: Instant) -> bool {
        if !self.path.is_carried() || self.is_away || self.first_token.is_none() {
            return false;
        }
        let has_changed = std::mem::replace(&mut self.activity, activity) != activity;
        let is_due = has_changed || now >= self.look_at;
        if is_due {
            self.look_at = now + (rtt / LOOKS_PER_RTT).max(LOOK_INTERVAL_MIN);
        }
        is_due
    }

    /// Takes what the connection has observed.
    pub fn on_observation(&mut self, observed: Option<PathState>, wall_now: SystemTime) {
        if let Some(observed) = observed {
            self.path.on_observation(observed, wall_now);
        }
    }

    /// Returns whether the client's token is to be replaced.
    pub fn is_news(&self, wall_now: SystemTime, now: Instant) -> bool {
        let tokens_max = self.tokens_max(now);
        let divisor = match self.activity {
            Activity::Writing => CHANGE_DIVISOR,
            _ if self.tokens < tokens_max / SMALL_CHANGES_DIVISOR => SMALL_CHANGE_DIVISOR,
            Activity::Waiting | Activity::Idle => LAST_CHANGE_DIVISOR,
        };
        let differs = match (self.issued, self.path.next()) {
            (OwnState::Saved(issued), OwnState::Saved(next)) => {
                differs(&issued, &next, divisor) || is_older(&issued, &next, wall_now)
            }
            (issued, next) => issued != next,
        };
        differs && self.tokens < tokens_max
    }

    fn tokens_max(&self, now: Instant) -> u32 {
        let since = self.first_token.map(|first| now.saturating_duration_since(first));
        let more = since.unwrap_or_default().as_secs() / TOKEN_INTERVAL.as_secs();
        TOKENS_MAX.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Returns what a token tells that is sent now.
    pub fn issue(&mut self, now: Instant) -> OwnState {
        self.first_token.get_or_insert(now);
        self.tokens += 1;
        self.issued = if self.is_away { OwnState::Unknown } else { self.path.next() };
        self.issued
    }
}

fn differs(issued: &PathState, next: &PathState, divisor: u64) -> bool {
    let by_share = |issued: u64, next: u64| issued.abs_diff(next) > issued / divisor;
    let micros = |state: &PathState| state.saved_rtt.as_micros() as u64;
    // After a jump the window grows more slowly beyond a capacity that is the path's limit.
    issued.limited != next.limited
        || by_share(issued.saved_cwnd, next.saved_cwnd)
        || by_share(micros(issued), micros(next))
}

/// Returns whether a good part of what was left of the issued state's Lifetime has passed, and the
/// next one ends later.
fn is_older(issued: &PathState, next: &PathState, wall_now: SystemTime) -> bool {
    let lifetime = next.expires.duration_since(next.observed).unwrap_or_default();
    let gained = next.expires.duration_since(issued.expires).unwrap_or_default();
    gained > lifetime / AGE_DIVISOR && next.expires > wall_now
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    use quiche::path_state::RETREAT_KNOWN;

    const HOUR: Duration = Duration::from_secs(3600);
    const RTT: Duration = Duration::from_millis(100);
    const WALL: SystemTime = UNIX_EPOCH;

    fn state(saved_cwnd: u64, limited: bool) -> PathState {
        PathState {
            saved_cwnd,
            saved_rtt: RTT,
            observed: WALL,
            expires: WALL + HOUR,
            limited,
            validated: false,
        }
    }

    /// A client that has got its first token.
    fn client(kept: StateKept, brought: OwnState) -> (CarriedState, Instant) {
        let now = quiche::clock::now();
        let mut client = CarriedState::new(kept, brought, now);
        client.issue(now);
        (client, now)
    }

    #[test]
    fn source_is_the_token_that_has_saved_parameters() {
        let (saved, retreat) =
            (OwnState::Saved(state(9, false)), OwnState::Retreated { until: WALL + HOUR });
        for (brought, source) in
            [(OwnState::Unknown, Source::Store), (saved, Source::Token), (retreat, Source::Store)]
        {
            let (client, _) = client(StateKept::Both, brought);
            assert_eq!(client.source(), source, "{brought:?}");
        }
    }

    #[test]
    fn token_is_replaced_when_what_it_tells_has_changed() {
        let (mut client, now) = client(StateKept::Both, OwnState::Unknown);
        assert!(!client.is_news(WALL, now));
        for (activity, observed, is_news) in [
            (Activity::Writing, state(1000, true), true),
            (Activity::Writing, state(1250, true), false),
            (Activity::Writing, state(1251, true), true),
            (Activity::Waiting, state(1270, true), false),
            (Activity::Waiting, state(1271, true), true),
            // Limited by something else than the path: it tells no less.
            (Activity::Idle, state(500, true), false),
            // It is the path's limit, which the next connection has to know.
            (Activity::Writing, state(1271, false), true),
            (Activity::Writing, state(1000, false), false),
            (Activity::Idle, state(500, false), true),
        ] {
            client.takes_look(activity, RTT, now);
            client.on_observation(Some(observed), WALL);
            assert_eq!(client.is_news(WALL, now), is_news, "{observed:?}");
            if is_news {
                assert_eq!(client.issue(now), OwnState::Saved(observed));
            }
            client.on_observation(None, WALL);
            client.path = OwnPath::new(StateKept::Both, client.issued);
        }
    }

    #[test]
    fn retreat_replaces_the_state_until_something_is_observed() {
        let brought = OwnState::Saved(state(1000, false));
        let (mut client, now) = client(StateKept::Both, brought);
        assert_eq!(client.issued, brought, "what it brought and did not lose");
        client.on_retreat(WALL, now);
        assert!(client.takes_look(Activity::Idle, RTT, now) && client.is_news(WALL, now));
        assert_eq!(client.issue(now), OwnState::Retreated { until: WALL + RETREAT_KNOWN });
        client.on_observation(Some(state(10, true)), WALL);
        assert_eq!(client.issue(now), OwnState::Saved(state(10, true)));
    }

    #[test]
    fn state_is_told_again_before_it_ends() {
        let (mut client, now) = client(StateKept::Token, OwnState::Saved(state(1000, false)));
        for (minutes, is_news) in [(15, false), (16, true)] {
            let later = WALL + Duration::from_secs(60 * minutes);
            let observed =
                PathState { observed: later, expires: later + HOUR, ..state(1000, false) };
            client.on_observation(Some(observed), later);
            assert_eq!(client.is_news(later, now), is_news, "{minutes}");
        }
    }

    #[test]
    fn number_of_tokens_is_bounded() {
        let (mut client, now) = client(StateKept::Both, OwnState::Unknown);
        let mut observe = |now| {
            client.on_observation(Some(state(1000 << client.tokens, false)), WALL);
            client.is_news(WALL, now).then(|| client.issue(now)).is_some()
        };
        let sent = (0..100).filter(|_| observe(now)).count();
        assert_eq!(sent, TOKENS_MAX as usize - 1, "and the first");
        assert!(!observe(now + TOKEN_INTERVAL - Duration::from_millis(1)));
        assert!(observe(now + TOKEN_INTERVAL));
        assert!(!observe(now + TOKEN_INTERVAL));
    }

    // Later ones are for what the client would miss more.
    #[test]
    fn small_changes_take_half_of_the_tokens() {
        let (mut client, now) = client(StateKept::Both, OwnState::Unknown);
        client.takes_look(Activity::Waiting, RTT, now);
        let mut observe = |saved_cwnd| {
            client.on_observation(Some(state(saved_cwnd, false)), WALL);
            client.is_news(WALL, now).then(|| client.issue(now)).is_some()
        };
        let sent = (0..50).filter(|i| observe(1000 + 20 * (i % 2))).count();
        assert_eq!(sent, (TOKENS_MAX / SMALL_CHANGES_DIVISOR) as usize - 1, "and the first");
        let sent = (0..50).filter(|i| observe(1000 + 100 * (i % 2))).count();
        assert_eq!(sent, (TOKENS_MAX - TOKENS_MAX / SMALL_CHANGES_DIVISOR) as usize);
    }

    #[test]
    fn look_is_taken_in_intervals_and_at_each_change() {
        let (mut client, now) = client(StateKept::Both, OwnState::Unknown);
        let ms = Duration::from_millis(1);
        for (after, activity, looks) in [
            (0, Activity::Writing, true),
            (24, Activity::Writing, false),
            (25, Activity::Writing, true),
            (26, Activity::Waiting, true),
            (27, Activity::Idle, true),
            (28, Activity::Idle, false),
        ] {
            let now = now + after * ms;
            assert_eq!(client.takes_look(activity, RTT, now), looks, "{after}");
        }
        client.on_migration();
        assert!(!client.takes_look(Activity::Writing, RTT, now + HOUR));
        assert_eq!(client.issue(now), OwnState::Unknown);
        let (mut other, now) = self::client(StateKept::Store, OwnState::Unknown);
        assert!(!other.takes_look(Activity::Writing, RTT, now + HOUR));
    }
}
