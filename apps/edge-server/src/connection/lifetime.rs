//! A connection's lifetime: its permit among those that are counted, and how long it may keep
//! it.

use std::time::Instant;

use crate::admission::connection_limits::ConnectionPermit;
use crate::config::limits::Limits;

/// From a connection's first packet to its end.
pub struct Lifetime {
    permit: ConnectionPermit,

    /// When the handshake has to be complete, until it is.
    handshake_until: Option<Instant>,

    /// When the client has to go, until it has been told.
    until: Option<Instant>,
}

/// What has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    Handshake,
    Connection,
}

impl TimeoutKind {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Connection => "connection",
        }
    }
}

impl Lifetime {
    /// Begins now.
    pub fn new(permit: ConnectionPermit, limits: &Limits, now: Instant) -> Self {
        // A time that the clock does not have never comes.
        Self {
            permit,
            handshake_until: now.checked_add(limits.handshake_time()),
            until: now.checked_add(limits.connection_time()),
        }
    }

    /// The handshake is complete. Returns whether the client may stay.
    pub fn on_established(&mut self, limits: &Limits) -> bool {
        self.handshake_until = None;
        self.permit.mark_validated(limits)
    }

    /// When something will have taken too long.
    pub fn deadline(&self) -> Option<Instant> {
        [self.handshake_until, self.until].into_iter().flatten().min()
    }

    /// What has taken too long by now, told once.
    pub fn expire(&mut self, now: Instant) -> Option<TimeoutKind> {
        let is_due = |until: &mut Instant| *until <= now;
        let handshake = self.handshake_until.take_if(is_due).map(|_| TimeoutKind::Handshake);
        handshake.or_else(|| self.until.take_if(is_due).map(|_| TimeoutKind::Connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::connection_limits::ConnectionLimiter;
    use crate::admission::connection_limits::Outcome;
    use crate::config::limits::tests::limits;
    use std::time::Duration;

    #[test]
    fn a_handshake_is_late_before_a_connection_and_each_is_told_once() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let limits = limits(&["--handshake-timeout", "3", "--connection-time-max", "7"]);
        for (established, expected) in [
            (false, vec![(3, TimeoutKind::Handshake), (7, TimeoutKind::Connection)]),
            (true, vec![(7, TimeoutKind::Connection)]),
        ] {
            let limiter = ConnectionLimiter::new(Default::default());
            let Outcome::Allow(permit) =
                limiter.try_acquire([10, 0, 0, 1].into(), false, &limits, start)
            else {
                panic!("nobody is there")
            };
            let mut lifetime = Lifetime::new(permit, &limits, start);
            if established {
                assert!(lifetime.on_established(&limits));
            }
            assert_eq!(lifetime.deadline(), Some(at(expected[0].0)));
            let told = (0..10).filter_map(|s| Some((s, lifetime.expire(at(s))?)));
            assert_eq!(told.collect::<Vec<_>>(), expected);
            assert_eq!(lifetime.deadline(), None);
        }
    }
}
