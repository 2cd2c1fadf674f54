//! Claim that has been granted, while it is open whether its client takes what it is for.

use std::net::IpAddr;
use std::time::Instant;

use crate::quic::INITIAL_WINDOW_BYTES;

/// A granted claim.
pub struct PendingClaim {
    pub client: IpAddr,

    /// When it has come to nothing.
    pub until: Instant,

    /// When it was granted.
    pub before: ClientProgress,
}

/// What a client has taken from its connection so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientProgress {
    pub acked_bytes: u64,

    /// Of responses, which the transport has not taken, and which their rates allow.
    pub unsent_bytes: u64,

    /// Of responses, which the client has not acknowledged.
    pub kept_bytes: u64,

    /// Requests that the client has cancelled.
    pub cancelled: u32,

    /// Window of the jump, in bytes.
    pub jump_bytes: Option<usize>,
}

impl PendingClaim {
    /// Returns whether the claim was of use, if that is known by now: it was if the client has
    /// acknowledged a jump, or almost all that it requested, and was not if it has cancelled a
    /// request before.
    pub fn is_used(&self, now: &ClientProgress) -> Option<bool> {
        let acked_bytes = now.acked_bytes - self.before.acked_bytes;
        let needed = now.jump_bytes.map_or(2 * INITIAL_WINDOW_BYTES, |bytes| bytes as u64);
        let has_little_left = now.unsent_bytes == 0 && now.kept_bytes <= INITIAL_WINDOW_BYTES;
        match now.cancelled > self.before.cancelled {
            true => Some(false),
            false => (acked_bytes >= needed || has_little_left).then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = INITIAL_WINDOW_BYTES;

    #[test]
    fn claim_is_used_once_the_client_has_what_it_is_for() {
        let before = ClientProgress { acked_bytes: 1000, cancelled: 3, ..Default::default() };
        let client = "192.0.2.1".parse().unwrap();
        let claim = PendingClaim { client, until: quiche::clock::now(), before };
        let jump = Some(100_000);
        for (acked, unsent, kept, cancelled, jump_bytes, expected) in [
            (0, 50_000, WINDOW, 0, None, None),
            (2 * WINDOW - 1, 50_000, WINDOW, 0, None, None),
            (2 * WINDOW, 50_000, WINDOW, 0, None, Some(true)),
            (99_999, 50_000, 90_000, 0, jump, None),
            (100_000, 50_000, 90_000, 0, jump, Some(true)),
            // A short download.
            (WINDOW, 0, WINDOW + 1, 0, jump, None),
            (WINDOW, 0, WINDOW, 0, jump, Some(true)),
            (100_000, 0, 0, 1, jump, Some(false)),
        ] {
            let progress = ClientProgress {
                acked_bytes: 1000 + acked,
                unsent_bytes: unsent,
                kept_bytes: kept,
                cancelled: 3 + cancelled,
                jump_bytes,
            };
            assert_eq!(claim.is_used(&progress), expected, "{progress:?}");
        }
    }
}
