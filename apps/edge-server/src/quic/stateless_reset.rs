//! Stateless resets (RFC 9000, 10.3): what a client learns from whose connection a
//! restart has wiped out.
//!
//! A connection ID names the secret that its token comes of, so that tokens survive
//! a rotation. The token is also of the server's address: whoever shares the
//! secret behind another address cannot be made to tell it (21.11).

use std::borrow::Borrow;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use ring::hmac;

use crate::quic::address::address_bytes;
use crate::quic::connection_id;
use crate::quic::connection_id::Cid;
use crate::quic::random;
use crate::quic::secrets::Secrets;
use crate::quic::secrets::SharedSecrets;

const TOKEN_BYTES: usize = 16;

/// Shortest and longest reset, in bytes: none that clients overlook, and none that
/// is longer than the shortest packet that is no reset for certain (RFC 9000, 10.3).
const RESET_BYTES_MIN: usize = 21;
const RESET_BYTES_MAX: usize = 43;

/// Resets that one worker sends within a second.
const RESETS_PER_SECOND_MAX: u32 = 1000;

/// The token of a connection ID of ours, used at our address `local`. `None` if its
/// secret is gone.
fn token(secrets: &Secrets, id: &[u8], local: SocketAddr) -> Option<u128> {
    let secret = secrets.named(*id.get(connection_id::SECRET_AT)?)?;
    let mut context = hmac::Context::with_key(secret.stateless_reset_key());
    context.update(id);
    context.update(&address_bytes(local.ip()));
    context.update(&local.port().to_be_bytes());
    let tag = context.sign();
    Some(u128::from_be_bytes(*tag.as_ref().first_chunk()?))
}

/// Tokens and stateless resets of one worker, so many resets a second.
pub struct StatelessResets {
    secrets: SharedSecrets,

    /// When the current second began.
    second: Option<Instant>,
    sent: u32,
}

impl StatelessResets {
    pub fn new(secrets: SharedSecrets) -> Self {
        Self { secrets, second: None, sent: 0 }
    }

    /// The token of a connection ID of ours, used at our address `local`. `None` if its
    /// secret is gone.
    pub fn token(&self, id: &Cid, local: SocketAddr) -> Option<u128> {
        token(&self.secrets.get(), id.borrow(), local)
    }

    /// Writes the reset that answers a packet of `answered_bytes` for an unknown
    /// connection. Returns its length, unless nothing is to be answered.
    pub fn write(
        &mut self,
        id: &[u8],
        local: SocketAddr,
        answered_bytes: usize,
        now: Instant,
        room: &mut [u8],
    ) -> Option<usize> {
        // RFC 9000, 10.3.3: shorter, so that two servers do not answer each other
        // for ever.
        let length = answered_bytes.saturating_sub(1).min(RESET_BYTES_MAX);
        if length < RESET_BYTES_MIN {
            return None;
        }
        let token = token(&self.secrets.get(), id, local)?;
        if !self.may_send(now) {
            return None;
        }
        let reset = room.get_mut(..length)?;
        random::fill(reset)?;
        // A short header.
        reset[0] = 0x40 | (reset[0] & 0x3f);
        reset[length - TOKEN_BYTES..].copy_from_slice(&token.to_be_bytes());
        Some(length)
    }

    fn may_send(&mut self, now: Instant) -> bool {
        let is_current =
            |since: &Instant| now.saturating_duration_since(*since) < Duration::from_secs(1);
        if !self.second.as_ref().is_some_and(is_current) {
            self.second = Some(now);
            self.sent = 0;
        }
        self.sent += 1;
        self.sent <= RESETS_PER_SECOND_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::connection_id::ConnectionIdGenerator;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use crate::quic::secrets::tests::OTHER;

    fn local() -> SocketAddr {
        "192.0.2.1:443".parse().unwrap()
    }

    /// An ID and its token, made with these secrets.
    fn made(secrets: &SharedSecrets) -> (Vec<u8>, u128) {
        let id = ConnectionIdGenerator::new(0, secrets.clone()).connection_id().unwrap();
        let id = id.as_quic().to_vec();
        let token = token(&secrets.get(), &id, local()).unwrap();
        (id, token)
    }

    #[test]
    fn a_token_is_known_as_long_as_its_secret() {
        let (id, made) = made(&shared(&[ONE]));
        for (lines, expected) in
            [(&[ONE][..], Some(made)), (&[OTHER, ONE], Some(made)), (&[OTHER], None)]
        {
            assert_eq!(token(&shared(lines).get(), &id, local()), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_token_is_of_one_id_and_one_address() {
        let secrets = shared(&[ONE]);
        let (id, made) = made(&secrets);
        let of = |id: &[u8], local: &str| token(&secrets.get(), id, local.parse().unwrap());
        assert_eq!(of(&id, "[::ffff:192.0.2.1]:443"), Some(made));
        assert_ne!(of(&id, "192.0.2.1:444"), Some(made));
        assert_ne!(of(&id, "192.0.2.2:443"), Some(made));
        let mut changed = id;
        changed[15] ^= 1;
        assert_ne!(of(&changed, "192.0.2.1:443"), Some(made));
    }

    #[test]
    fn a_reset_looks_like_a_packet_and_ends_with_the_token() {
        let secrets = shared(&[ONE]);
        let (id, token) = made(&secrets);
        let mut resets = StatelessResets::new(secrets);
        let mut room = [0; 1350];
        for (answered, length) in [
            (20, None),
            (21, None),
            (22, Some(21)),
            (43, Some(42)),
            (44, Some(43)),
            (1350, Some(43)),
        ] {
            let now = quiche::clock::now();
            let wrote = resets.write(&id, local(), answered, now, &mut room);
            assert_eq!(wrote, length, "{answered}");
            let Some(length) = length else { continue };
            assert_eq!(room[0] & 0xc0, 0x40);
            assert_eq!(room[length - TOKEN_BYTES..length], token.to_be_bytes());
        }
        let theirs = [0; 16];
        let now = quiche::clock::now();
        assert_eq!(resets.write(&theirs, local(), 1350, now, &mut room), None);
    }

    #[test]
    fn resets_are_rationed() {
        let secrets = shared(&[ONE]);
        let (id, _) = made(&secrets);
        let mut resets = StatelessResets::new(secrets);
        let start = quiche::clock::now();
        let mut sent_at = |after_ms| {
            let now = start + Duration::from_millis(after_ms);
            let mut room = [0; 100];
            let mut write = || resets.write(&id, local(), 100, now, &mut room);
            (0..2 * RESETS_PER_SECOND_MAX).filter(|_| write().is_some()).count()
        };
        let all = RESETS_PER_SECOND_MAX as usize;
        assert_eq!([sent_at(0), sent_at(999), sent_at(1000), sent_at(1500)], [all, 0, all, 0]);
    }
}
