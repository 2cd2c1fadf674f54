//! Stateless resets (RFC 9000, 10.3) for connections that a restart has lost.
//!
//! The token is derived from the secret that the connection ID names, so that it survives a
//! rotation of secrets, and from the server's address, so that servers that share a secret do
//! not reveal each other's tokens (21.11).

use std::borrow::Borrow;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use ab_test::ClientUnit;
use quiche::RecvInfo;
use ring::hmac;

use crate::quic::address::address_bytes;
use crate::quic::client_shards::ClientShards;
use crate::quic::connection_id::GeneratedId;
use crate::quic::random;
use crate::quic::secrets::Secrets;
use crate::quic::secrets::SharedSecrets;

const TOKEN_BYTES: usize = 16;

/// Shortest and longest reset, in bytes: long enough to be recognized, and of the size of small
/// packets (RFC 9000, 10.3).
const RESET_BYTES_MIN: usize = 21;
const RESET_BYTES_MAX: usize = 43;

/// Limit on resets of one worker in a second.
const RESETS_PER_SECOND_MAX: u32 = 1000;

/// Limit on those of one shard of clients: one client cannot take those of all others.
const RESETS_OF_SHARD_MAX: u32 = RESETS_PER_SECOND_MAX / 8;

/// Returns the token of a connection ID that names `secret`, used at the server address `local`, or `None`
/// if that is unknown.
fn token(secrets: &Secrets, secret: u8, id: &[u8], local: SocketAddr) -> Option<u128> {
    let secret = secrets.named(secret)?;
    let mut context = hmac::Context::with_key(secret.stateless_reset_key());
    context.update(id);
    context.update(&address_bytes(local.ip()));
    context.update(&local.port().to_be_bytes());
    let tag = context.sign();
    Some(u128::from_be_bytes(*tag.as_ref().first_chunk()?))
}

/// Tokens and rate-limited stateless resets of one worker.
pub struct StatelessResets {
    secrets: SharedSecrets,

    /// Start of the current one-second window.
    window_start: Option<Instant>,
    sent: u32,
    shards: ClientShards,
    sent_to_shard: [u32; ClientShards::COUNT],
}

impl StatelessResets {
    pub fn new(secrets: SharedSecrets) -> Self {
        let sent_to_shard = [0; ClientShards::COUNT];
        let shards = ClientShards::default();
        Self { secrets, window_start: None, sent: 0, shards, sent_to_shard }
    }

    /// Returns the token of a connection ID used at the server address `local`, or `None` if its
    /// secret is unknown.
    pub fn token(&self, id: &GeneratedId, local: SocketAddr) -> Option<u128> {
        token(&self.secrets.get(), id.secret, id.cid.borrow(), local)
    }

    /// Writes the reset in reply to a packet of `packet_bytes` for an unknown connection, whose ID names
    /// `secret`. Returns its length, or `None` if no reset is to be sent.
    pub fn write(
        &mut self,
        (id, secret): (&[u8], u8),
        info: RecvInfo,
        packet_bytes: usize,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<usize> {
        // RFC 9000, 10.3.3: a reset is shorter than the packet, so that two servers that reset
        // each other stop.
        let length = packet_bytes.saturating_sub(1).min(RESET_BYTES_MAX);
        if length < RESET_BYTES_MIN {
            return None;
        }
        let token = token(&self.secrets.get(), secret, id, info.to)?;
        if !self.acquire(ClientUnit::of(info.from.ip()), now) {
            return None;
        }
        let reset = buffer.get_mut(..length)?;
        random::fill(reset)?;
        // A short header: fixed bit set, form bit clear.
        reset[0] = 0x40 | (reset[0] & 0x3f);
        reset[length - TOKEN_BYTES..].copy_from_slice(&token.to_be_bytes());
        Some(length)
    }

    fn acquire(&mut self, client: ClientUnit, now: Instant) -> bool {
        let is_current =
            |since: &Instant| now.saturating_duration_since(*since) < Duration::from_secs(1);
        if !self.window_start.as_ref().is_some_and(is_current) {
            self.window_start = Some(now);
            (self.sent, self.sent_to_shard) = (0, [0; ClientShards::COUNT]);
        }
        let sent_to_shard = &mut self.sent_to_shard[self.shards.of(client)];
        let may_send = self.sent < RESETS_PER_SECOND_MAX && *sent_to_shard < RESETS_OF_SHARD_MAX;
        self.sent += u32::from(may_send);
        *sent_to_shard += u32::from(may_send);
        may_send
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::connection_id::tests::reader;
    use crate::quic::connection_id::ConnectionIdGenerator;
    use crate::quic::connection_id::ConnectionIdReader;
    use crate::quic::connection_id::Origin;
    use crate::quic::quic_lb_set::QuicLbSet;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use crate::quic::secrets::tests::OTHER;

    fn local() -> SocketAddr {
        "192.0.2.1:443".parse().unwrap()
    }

    fn from(client: u8) -> RecvInfo {
        RecvInfo { from: ([198, 51, 100, client], 4433).into(), to: local() }
    }

    /// Returns an ID and its token, made with these secrets.
    fn generated(secrets: &SharedSecrets) -> (GeneratedId, u128) {
        let key = reader().mask_key;
        let reader = ConnectionIdReader::new(key, secrets.clone(), QuicLbSet::default());
        let id = ConnectionIdGenerator::new(Origin::default(), reader).generate().unwrap();
        (id, StatelessResets::new(secrets.clone()).token(&id, local()).unwrap())
    }

    #[test]
    fn token_is_known_until_its_secret_is_removed() {
        let (id, generated) = generated(&shared(&[ONE]));
        for (lines, expected) in
            [(&[ONE][..], Some(generated)), (&[OTHER, ONE], Some(generated)), (&[OTHER], None)]
        {
            assert_eq!(
                StatelessResets::new(shared(lines)).token(&id, local()),
                expected,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn token_depends_on_cid_and_address() {
        let secrets = shared(&[ONE]);
        let (generated_id, generated) = generated(&secrets);
        let token_at = |id: &[u8], local: &str| {
            token(&secrets.get(), generated_id.secret, id, local.parse().unwrap())
        };
        let id = generated_id.cid.as_quic().to_vec();
        assert_eq!(token_at(&id, "[::ffff:192.0.2.1]:443"), Some(generated));
        assert_ne!(token_at(&id, "192.0.2.1:444"), Some(generated));
        assert_ne!(token_at(&id, "192.0.2.2:443"), Some(generated));
        let mut changed = id;
        changed[15] ^= 1;
        assert_ne!(token_at(&changed, "192.0.2.1:443"), Some(generated));
    }

    #[test]
    fn reset_is_short_header_packet_with_token() {
        let secrets = shared(&[ONE]);
        let (id, token) = generated(&secrets);
        let mut resets = StatelessResets::new(secrets);
        let mut buffer = [0; 1350];
        for (packet_bytes, length) in [
            (20, None),
            (21, None),
            (22, Some(21)),
            (43, Some(42)),
            (44, Some(43)),
            (1350, Some(43)),
        ] {
            let now = quiche::clock::now();
            let written = resets.write(
                (&id.cid.as_quic(), id.secret),
                from(1),
                packet_bytes,
                now,
                &mut buffer,
            );
            assert_eq!(written, length, "{packet_bytes}");
            let Some(length) = length else { continue };
            assert_eq!(buffer[0] & 0xc0, 0x40);
            assert_eq!(buffer[length - TOKEN_BYTES..length], token.to_be_bytes());
        }
        let unknown = (&id.cid.as_quic()[..], !id.secret);
        let now = quiche::clock::now();
        assert_eq!(resets.write(unknown, from(1), 1350, now, &mut buffer), None);
    }

    #[test]
    fn resets_are_rate_limited() {
        let secrets = shared(&[ONE]);
        let (id, _) = generated(&secrets);
        let mut resets = StatelessResets::new(secrets);
        let start = quiche::clock::now();
        let mut sent_at = |after_ms, clients: u8| {
            let now = start + Duration::from_millis(after_ms);
            let mut buffer = [0; 100];
            let mut write = |n: u32| {
                resets.write(
                    (&id.cid.as_quic(), id.secret),
                    from(n as u8 % clients),
                    100,
                    now,
                    &mut buffer,
                )
            };
            (0..2 * RESETS_PER_SECOND_MAX).filter(|n| write(*n).is_some()).count()
        };
        let all = RESETS_PER_SECOND_MAX as usize;
        let sent = [(0, 250), (999, 250), (1000, 250), (1500, 250)].map(|(ms, n)| sent_at(ms, n));
        assert_eq!(sent, [all, 0, all, 0]);
        // One client leaves resets to others.
        assert_eq!([sent_at(2000, 1), sent_at(2000, 250)], [all / 8, all - all / 8]);
    }
}
