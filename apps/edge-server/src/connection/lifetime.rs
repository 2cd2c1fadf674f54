//! Lifetime of a connection: maximum duration and its timeouts.

use std::net::IpAddr;
use std::time::Instant;

use crate::admission::budgets::Payer;
use crate::admission::connection_limits::ClientGroup;
use crate::admission::connection_limits::ConnectionPermit;
use crate::admission::connection_limits::Limit;
use crate::admission::file_limits::FileAccount;
use crate::admission::handshakes::HandshakeGuard;
use crate::config::limits::Limits;

/// Permits and deadlines of one connection.
pub struct Lifetime {
    permit: ConnectionPermit,
    files: FileAccount,

    /// Absent once the handshake is complete.
    handshake: Option<HandshakeGuard>,
    handshake_until: Option<Instant>,

    /// When the client is to leave, unless it has been told.
    until: Option<Instant>,
}

/// A deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    Handshake,
    Connection,
}

impl TimeoutKind {
    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Connection => "connection",
        }
    }
}

impl Lifetime {
    /// Returns the lifetime of a connection that begins `now`.
    pub fn new(
        permit: ConnectionPermit,
        handshake: HandshakeGuard,
        files: FileAccount,
        limits: &Limits,
        now: Instant,
    ) -> Self {
        // Times beyond the clock's last are no deadlines.
        Self {
            permit,
            files,
            handshake: Some(handshake),
            handshake_until: now.checked_add(limits.handshake_time()),
            until: now.checked_add(limits.connection_time()),
        }
    }

    /// Ends the handshake, which is complete. Returns the client, the first time.
    pub fn complete_handshake(&mut self) -> Option<IpAddr> {
        self.handshake_until = None;
        self.handshake.take().map(HandshakeGuard::complete)
    }

    /// Returns whether the handshake has not been completed.
    pub fn is_handshake_under_way(&self) -> bool {
        self.handshake.is_some()
    }

    /// See [`ConnectionPermit::needs_room`].
    pub fn needs_room(&self, limits: &Limits) -> Option<Limit> {
        self.permit.needs_room(limits)
    }

    /// See [`ConnectionPermit::is_revoked`].
    pub fn is_revoked(&self) -> bool {
        self.permit.is_revoked()
    }

    /// See [`ConnectionPermit::admit`].
    pub fn admit(&mut self, replaces: bool, limits: &Limits) -> Result<(), Limit> {
        self.permit.admit(replaces, limits)
    }

    /// See [`ConnectionPermit::is_validated`].
    pub fn is_validated(&self) -> bool {
        self.permit.is_validated()
    }

    /// See [`ConnectionPermit::payer`].
    pub fn payer(&self) -> Payer {
        self.permit.payer()
    }

    /// See [`ConnectionPermit::groups`].
    pub fn groups(&self) -> [ClientGroup; 2] {
        self.permit.groups()
    }

    /// Returns the account of files that the connection has open.
    pub fn files(&self) -> &FileAccount {
        &self.files
    }

    /// Returns the next deadline.
    pub fn deadline(&self) -> Option<Instant> {
        [self.handshake_until, self.until].into_iter().flatten().min()
    }

    /// Returns a deadline that has passed, each once.
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
    use crate::admission::file_limits::tests::account;
    use crate::admission::handshakes::Handshakes;
    use crate::config::limits::tests::limits;
    use std::time::Duration;

    #[test]
    fn each_deadline_expires_once_the_handshakes_first() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let limits = limits(&["--handshake-timeout", "3", "--connection-time-max", "7"]);
        for (established, expected) in [
            (false, vec![(3, TimeoutKind::Handshake), (7, TimeoutKind::Connection)]),
            (true, vec![(7, TimeoutKind::Connection)]),
        ] {
            let limiter = ConnectionLimiter::new(Default::default());
            let Outcome::Allow(permit) =
                limiter.try_acquire([10, 0, 0, 1].into(), false, false, &limits, start)
            else {
                panic!("there are no other connections")
            };
            let client = "10.0.0.1".parse().unwrap();
            let handshake = Handshakes::new(Default::default()).begin(client);
            let mut lifetime = Lifetime::new(permit, handshake, account(), &limits, start);
            if established {
                assert_eq!(lifetime.complete_handshake(), Some(client));
                assert_eq!(lifetime.complete_handshake(), None);
                assert_eq!(lifetime.admit(false, &limits), Ok(()));
            }
            assert_eq!(lifetime.deadline(), Some(at(expected[0].0)));
            let expired = (0..10).filter_map(|s| Some((s, lifetime.expire(at(s))?)));
            assert_eq!(expired.collect::<Vec<_>>(), expected);
            assert_eq!(lifetime.deadline(), None);
        }
    }
}
