//! End of a connection whose server leaves it, as soon as no request of its client can be lost.

use std::time::Duration;
use std::time::Instant;

use crate::http::exchange::Protocol;
use crate::tcp::activity::ConnectionActivity;

/// How long the next request of a client may take to arrive: more than a round trip of any path.
const NEXT_REQUEST: Duration = Duration::from_secs(1);

/// State of one connection: a pure state machine.
#[derive(Debug)]
pub struct Leaving {
    protocol: Protocol,

    /// Since when the server leaves, unless it stays.
    since: Option<Instant>,
    has_left: bool,
}

impl Leaving {
    /// Returns the state of a connection that begins.
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, since: None, has_left: false }
    }

    /// Notes whether the server leaves its clients.
    pub fn set(&mut self, leaves: bool, now: Instant) {
        self.since = leaves.then(|| self.since.unwrap_or(now));
    }

    /// Returns when to [check](Self::check) next, if at all.
    pub fn next_check(&self, activity: &ConnectionActivity, now: Instant) -> Option<Instant> {
        let since = self.since.filter(|_| !self.has_left)?;
        Some(match (self.protocol, activity.idle_since()) {
            // A GOAWAY tells which requests are lost (RFC 9113, 6.8). A client that has sent none yet takes
            // it for a failure.
            (Protocol::Http2, _) if activity.has_begun() => since,
            (Protocol::Http2, _) => since + NEXT_REQUEST,
            // A response can tell that it is the last one, and an idle connection can only be closed
            // (RFC 9112, 9.6).
            (_, Some(idle_since)) => since.max(idle_since) + NEXT_REQUEST,
            (_, None) => now + NEXT_REQUEST,
        })
    }

    /// Returns whether to end the connection now, which it does once.
    pub fn check(&mut self, activity: &ConnectionActivity, now: Instant) -> bool {
        let is_due = self.next_check(activity, now).is_some_and(|at| at <= now);
        self.has_left |= is_due;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tcp::activity::tests::groups;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn connection_ends_when_no_request_can_be_lost() {
        let (busy, idle) = (&[(0, true)][..], &[(0, true), (10, false)][..]);
        let late = &[(0, true), (10, false), (1900, true), (1950, false)][..];
        for (protocol, requests, expected) in [
            (Protocol::Http2, &[][..], Some(2000)),
            (Protocol::Http2, busy, Some(1000)),
            (Protocol::Http2, idle, Some(1000)),
            (Protocol::Http11, &[], Some(2000)),
            (Protocol::Http11, busy, None),
            (Protocol::Http11, idle, Some(2000)),
            (Protocol::Http11, late, Some(2950)),
        ] {
            let start = quiche::clock::now();
            let activity = ConnectionActivity::new(groups(), start);
            let mut leaving = Leaving::new(protocol);
            let mut left_at = Vec::new();
            for ms in 0..5000 {
                let now = start + ms * MS;
                for (_, begins) in requests.iter().filter(|(at, _)| *at == ms) {
                    if *begins {
                        activity.on_begin(now)
                    } else {
                        activity.on_end(now)
                    }
                }
                leaving.set(ms >= 1000, now);
                left_at.extend(leaving.check(&activity, now).then_some(ms));
            }
            assert_eq!(left_at, Vec::from_iter(expected), "{protocol:?} {requests:?}");
        }
    }

    #[test]
    fn connection_stays_if_the_server_serves_again() {
        let start = quiche::clock::now();
        let activity = ConnectionActivity::new(groups(), start);
        let mut leaving = Leaving::new(Protocol::Http11);
        for (ms, leaves, expected) in
            [(0, true, Some(1000)), (900, false, None), (950, true, Some(1950))]
        {
            let now = start + ms * MS;
            leaving.set(leaves, now);
            let expected = expected.map(|ms| start + ms * MS);
            assert_eq!(leaving.next_check(&activity, now), expected, "{ms}");
        }
    }
}
