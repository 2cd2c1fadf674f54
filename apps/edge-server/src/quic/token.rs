//! Address-validation tokens (RFC 9000, 8.1): issued to clients and validated when they return.
//!
//! A token consists of its kind, the name of the secret, a salt and a sealed part: its expiry and,
//! for Retry, the original destination connection ID; for a later connection, a payload of constant
//! length that this module does not interpret. Each token is sealed with a key of its own,
//! derived from the salt, so that a secret has no limit on its tokens. Kind, name, salt and the
//! client's address are authenticated.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use ring::aead;

use crate::quic::address::address_bytes;
use crate::quic::connection_id::Cid;
use crate::quic::random;
use crate::quic::secrets::Secret;
use crate::quic::secrets::SharedSecrets;
use crate::quic::secrets::TOKEN_SALT_BYTES;

/// Lifetime of a Retry token (RFC 9000, 8.1.3: short): enough for a client that loses three
/// packets in a row.
const RETRY_LIFETIME: Duration = Duration::from_secs(10);

/// Lifetime of a token for a later connection: covers clients that return daily, and is short
/// enough that the address has probably not been reassigned.
const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Length of the payload of a token for a later connection, in bytes.
pub const PAYLOAD_BYTES: usize = 51;

/// What a token tells about its client.
pub type Payload = [u8; PAYLOAD_BYTES];

/// Limit on remembered tokens of one kind.
const USED_MAX: usize = 1 << 16;

/// Offsets of a token's parts.
const KIND_OFFSET: usize = 0;
const SECRET_OFFSET: usize = 1;
const SALT_OFFSET: usize = 2;
const SEALED_OFFSET: usize = SALT_OFFSET + TOKEN_SALT_BYTES;

/// Frame or packet that carried a token to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Retry,
    NewToken,
}

/// Address validation that a valid token provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressValidation {
    /// The client received a Retry packet, in reply to an Initial packet with this destination
    /// connection ID.
    Retry { original: Cid },

    /// The client established an earlier connection from this address. A token that an older
    /// server issued has no payload.
    NewToken { payload: Option<Payload> },
}

/// Reason why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not issued by this server, or with a secret that has been removed.
    Unknown,

    /// Modified, or issued for another client or connection.
    Forged,
    Expired,
    Replayed,
}

/// Issues and validates the tokens of one worker.
pub struct Tokens {
    secrets: SharedSecrets,
    used_retry: TokenLog,
    used_new_token: TokenLog,

    /// Token that was valid last.
    last: Option<(TokenKind, TokenUse)>,
}

impl TokenKind {
    /// Returns the token's first byte, which distinguishes tokens of Retry packets from those of
    /// NEW_TOKEN frames (RFC 9000, 8.1.1).
    fn byte(self) -> u8 {
        match self {
            Self::Retry => 0x52,
            Self::NewToken => 0x4e,
        }
    }

    /// Returns the kind that a token claims.
    pub fn of(token: &[u8]) -> Option<Self> {
        let byte = token.get(KIND_OFFSET)?;
        [Self::Retry, Self::NewToken].into_iter().find(|kind| kind.byte() == *byte)
    }
}

impl TokenError {
    /// All errors.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Forged, Self::Expired, Self::Replayed];

    /// Returns the label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Forged => "forged",
            Self::Expired => "expired",
            Self::Replayed => "replayed",
        }
    }
}

impl Tokens {
    pub fn new(secrets: SharedSecrets) -> Self {
        let (used_retry, used_new_token) = (TokenLog::default(), TokenLog::default());
        Self { secrets, used_retry, used_new_token, last: None }
    }

    /// Issues a token for a Retry packet that changes the server's connection ID from `original`
    /// to `changed`. Returns `None` if the system has no randomness.
    pub fn for_retry(
        &mut self,
        client: SocketAddr,
        original: &[u8],
        changed: &[u8],
        wall_now: SystemTime,
    ) -> Option<Vec<u8>> {
        let binding = retry_binding(client, changed);
        self.seal(TokenKind::Retry, &binding, original, wall_now + RETRY_LIFETIME)
    }

    /// Issues a token for the client's next connection. Returns `None` if the system has no
    /// randomness.
    pub fn for_next_connection(
        &self,
        client: IpAddr,
        payload: &Payload,
        wall_now: SystemTime,
    ) -> Option<Vec<u8>> {
        let binding = address_bytes(client);
        self.seal(TokenKind::NewToken, &binding, payload, wall_now + NEW_TOKEN_LIFETIME)
    }

    /// Validates the token of an Initial packet with the connection ID `destination`. A token is
    /// valid once.
    ///
    /// # Errors
    ///
    /// The token is invalid.
    pub fn validate(
        &mut self,
        token: &[u8],
        client: SocketAddr,
        destination: &[u8],
        wall_now: SystemTime,
    ) -> Result<AddressValidation, TokenError> {
        let kind = TokenKind::of(token).ok_or(TokenError::Unknown)?;
        let binding = match kind {
            TokenKind::Retry => retry_binding(client, destination),
            TokenKind::NewToken => address_bytes(client.ip()),
        };
        let contents = self.open(token, &binding)?;
        let (expiry, rest) = contents.split_first_chunk().ok_or(TokenError::Forged)?;
        let expiry_s = u64::from_be_bytes(*expiry);
        let now_s = seconds(wall_now);
        if expiry_s < now_s {
            return Err(TokenError::Expired);
        }
        let mut salt = [0; TOKEN_SALT_BYTES];
        salt.copy_from_slice(&token[SALT_OFFSET..SEALED_OFFSET]);
        let token_use = (expiry_s, salt);
        if !self.used(kind).add(token_use, now_s) {
            return Err(TokenError::Replayed);
        }
        self.last = Some((kind, token_use));
        Ok(match kind {
            TokenKind::Retry => AddressValidation::Retry { original: Cid::new(rest) },
            TokenKind::NewToken => AddressValidation::NewToken { payload: rest.try_into().ok() },
        })
    }

    /// Takes back the use of the token that was valid last: its client is to send the packet again.
    pub fn release_last(&mut self) {
        if let Some((kind, token_use)) = self.last.take() {
            self.used(kind).0.remove(&token_use);
        }
    }

    fn used(&mut self, kind: TokenKind) -> &mut TokenLog {
        match kind {
            TokenKind::Retry => &mut self.used_retry,
            TokenKind::NewToken => &mut self.used_new_token,
        }
    }

    fn seal(
        &self,
        kind: TokenKind,
        binding: &[u8],
        rest: &[u8],
        expiry: SystemTime,
    ) -> Option<Vec<u8>> {
        let secrets = self.secrets.get();
        let secret = secrets.current();
        let mut salt = [0; TOKEN_SALT_BYTES];
        random::fill(&mut salt)?;

        let mut token = vec![kind.byte(), secret.name()];
        token.extend(salt);
        let associated = associated_data(&token, binding);
        let mut sealed = [&seconds(expiry).to_be_bytes(), rest].concat();
        let key = secret.token_key(&salt);
        key.seal_in_place_append_tag(nonce(), associated, &mut sealed).ok()?;
        token.extend(sealed);
        Some(token)
    }

    fn open(&self, token: &[u8], binding: &[u8]) -> Result<Vec<u8>, TokenError> {
        let (head, sealed) = token.split_at_checked(SEALED_OFFSET).ok_or(TokenError::Forged)?;
        let salt = head.last_chunk().ok_or(TokenError::Forged)?;
        let secrets = self.secrets.get();
        let secret: &Secret = secrets.named(head[SECRET_OFFSET]).ok_or(TokenError::Unknown)?;
        let mut contents = sealed.to_vec();
        let opened = secret.token_key(salt).open_in_place(
            nonce(),
            associated_data(head, binding),
            &mut contents,
        );
        let opened_bytes = opened.map_err(|_| TokenError::Forged)?.len();
        contents.truncate(opened_bytes);
        Ok(contents)
    }
}

/// Returns a constant: each key seals one token.
fn nonce() -> aead::Nonce {
    aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
}

fn associated_data(head: &[u8], binding: &[u8]) -> aead::Aad<Vec<u8>> {
    aead::Aad::from([head, binding].concat())
}

/// Returns what a Retry token is bound to: the client's address and port, and the connection ID
/// in the Retry packet (RFC 9000, 8.1.4).
fn retry_binding(client: SocketAddr, changed: &[u8]) -> Vec<u8> {
    [&address_bytes(client.ip())[..], &client.port().to_be_bytes(), changed].concat()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Used tokens that have not expired, by expiry and salt. At the limit, those that expire first
/// are forgotten.
#[derive(Default)]
struct TokenLog(BTreeSet<TokenUse>);

type TokenUse = (u64, [u8; TOKEN_SALT_BYTES]);

impl TokenLog {
    /// Adds a token. Returns whether it was unused.
    fn add(&mut self, token_use: TokenUse, now_s: u64) -> bool {
        while self.0.first().is_some_and(|(expiry_s, _)| *expiry_s < now_s) {
            self.0.pop_first();
        }
        let is_new = self.0.insert(token_use);
        if self.0.len() > USED_MAX {
            self.0.pop_first();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use crate::quic::secrets::tests::OTHER;

    const ORIGINAL: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
    const CHANGED: &[u8] = &[7; 16];

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn client() -> SocketAddr {
        at("192.0.2.7:4433")
    }

    fn tokens() -> Tokens {
        Tokens::new(shared(&[ONE]))
    }

    fn retry_token() -> Vec<u8> {
        tokens().for_retry(client(), ORIGINAL, CHANGED, now()).unwrap()
    }

    const PAYLOAD: Payload = [3; PAYLOAD_BYTES];

    fn next_token() -> Vec<u8> {
        tokens().for_next_connection(client().ip(), &PAYLOAD, now()).unwrap()
    }

    #[test]
    fn good_tokens_prove_what_they_were_made_for() {
        let (retry, next) = (retry_token(), next_token());
        assert_eq!(
            (TokenKind::of(&retry), TokenKind::of(&next)),
            (Some(TokenKind::Retry), Some(TokenKind::NewToken))
        );
        let validation = AddressValidation::Retry { original: Cid::new(ORIGINAL) };
        assert_eq!(tokens().validate(&retry, client(), CHANGED, now()), Ok(validation));
        assert_eq!(
            tokens().validate(&next, client(), &[9; 8], now()),
            Ok(AddressValidation::NewToken { payload: Some(PAYLOAD) })
        );
    }

    // The length tells nobody whether there is something in it.
    #[test]
    fn next_token_hides_its_payload() {
        let token = |payload| tokens().for_next_connection(client().ip(), &payload, now()).unwrap();
        let (empty, full) = (token([0; PAYLOAD_BYTES]), token(PAYLOAD));
        assert_eq!(empty.len(), full.len());
        assert_eq!(empty.len(), SEALED_OFFSET + 8 + PAYLOAD_BYTES + aead::AES_256_GCM.tag_len());
        assert!(!full.windows(4).any(|bytes| bytes == &PAYLOAD[..4]));
        assert_ne!(token(PAYLOAD)[SEALED_OFFSET..], full[SEALED_OFFSET..]);
    }

    // A token of an older server, and one of a newer server whose layout is unknown.
    #[test]
    fn next_token_of_another_layout_validates_the_address() {
        for rest in [&[][..], &[0; PAYLOAD_BYTES - 1], &[0; PAYLOAD_BYTES + 1]] {
            let expiry = now() + NEW_TOKEN_LIFETIME;
            let binding = address_bytes(client().ip());
            let token = tokens().seal(TokenKind::NewToken, &binding, rest, expiry).unwrap();
            assert_eq!(
                tokens().validate(&token, client(), CHANGED, now()),
                Ok(AddressValidation::NewToken { payload: None })
            );
        }
    }

    #[test]
    fn modified_token_is_refused() {
        for token in [retry_token(), next_token()] {
            let validate = |token: &[u8]| tokens().validate(token, client(), CHANGED, now());
            assert!(validate(&token).is_ok());
            for at in 0..token.len() {
                for bit in [1, 0x80] {
                    let mut forged = token.clone();
                    forged[at] ^= bit;
                    assert!(validate(&forged).is_err(), "byte {at}");
                }
                assert!(validate(&token[..at]).is_err(), "cut to {at} bytes");
            }
            assert!(validate(&[&token[..], &[0]].concat()).is_err(), "lengthened");

            let mut other_kind = token;
            other_kind[KIND_OFFSET] ^= TokenKind::Retry.byte() ^ TokenKind::NewToken.byte();
            assert_eq!(validate(&other_kind), Err(TokenError::Forged));
        }
        assert_eq!(
            tokens().validate(b"foreign", client(), CHANGED, now()),
            Err(TokenError::Unknown)
        );
    }

    #[test]
    fn token_is_bound_to_client_and_lifetime() {
        let later = |s| now() + Duration::from_secs(s);
        let day_s = 24 * 60 * 60;
        let (here, id) = (client(), CHANGED);
        let port = at("192.0.2.7:4434");
        let address = at("192.0.2.8:4433");
        let mapped = at("[::ffff:192.0.2.7]:4433");
        let table = [
            ("as made", here, id, now(), Ok(()), Ok(())),
            ("other port", port, id, now(), Err(TokenError::Forged), Ok(())),
            ("other address", address, id, now(), Err(TokenError::Forged), Err(TokenError::Forged)),
            ("mapped address", mapped, id, now(), Ok(()), Ok(())),
            ("other connection ID", here, ORIGINAL, now(), Err(TokenError::Forged), Ok(())),
            ("after ten seconds", here, id, later(10), Ok(()), Ok(())),
            ("later", here, id, later(11), Err(TokenError::Expired), Ok(())),
            ("after a day", here, id, later(day_s), Err(TokenError::Expired), Ok(())),
            (
                "after more",
                here,
                id,
                later(day_s + 1),
                Err(TokenError::Expired),
                Err(TokenError::Expired),
            ),
        ];
        for (case, client, destination, wall_now, retry, next) in table {
            let validate = |token: &[u8]| {
                tokens().validate(token, client, destination, wall_now).map(|_validation| ())
            };
            assert_eq!(validate(&retry_token()), retry, "{case}");
            assert_eq!(validate(&next_token()), next, "{case}");
        }
    }

    #[test]
    fn used_token_is_replayed() {
        let mut tokens = tokens();
        for token in [retry_token(), next_token()] {
            assert!(tokens.validate(&token, client(), CHANGED, now()).is_ok());
            let again = tokens.validate(&token, client(), CHANGED, now());
            assert_eq!(again, Err(TokenError::Replayed));
            tokens.release_last();
            assert!(tokens.validate(&token, client(), CHANGED, now()).is_ok());
        }
        assert!(tokens.validate(&next_token(), client(), CHANGED, now()).is_ok());
    }

    #[test]
    fn token_is_valid_until_its_secret_is_removed() {
        let old = retry_token();
        for (lines, expected) in [
            (&[OTHER, ONE][..], Ok(())),
            (&[ONE, OTHER], Ok(())),
            (&[OTHER], Err(TokenError::Unknown)),
        ] {
            let mut tokens = Tokens::new(shared(lines));
            let validation = tokens.validate(&old, client(), CHANGED, now());
            assert_eq!(validation.map(|_validation| ()), expected, "{lines:?}");
        }
    }

    #[test]
    fn token_log_forgets_expired_and_is_bounded() {
        let mut used = TokenLog::default();
        let salt = |n: usize| (n as u128).to_be_bytes();
        assert!(used.add((100, salt(0)), 90));
        assert!(!used.add((100, salt(0)), 100));
        assert!(used.add((200, salt(1)), 101));
        assert_eq!(used.0.len(), 1);

        for n in 0..=USED_MAX {
            used.add((300 + n as u64, salt(n)), 101);
        }
        assert_eq!(used.0.len(), USED_MAX);
        assert!(!used.add((300 + USED_MAX as u64, salt(USED_MAX)), 101));
    }
}
