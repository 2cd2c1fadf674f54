//! Admission of clients: all while few handshakes are under way, else those whose tokens
//! validate their addresses (RFC 9000, 8.1).
//!
//! Decides about one worker's new clients, and writes Retry packets. Limits that all workers
//! share are those of [`ConnectionLimiter`].

pub mod budgets;
pub mod connection_limits;
pub mod file_limits;
pub mod handshakes;
pub mod metrics;
pub mod notices;
pub mod ranking;
pub mod reason;
pub mod replaceable_connections;
pub mod room_requests;
pub mod surplus_handshakes;
pub mod thread_priority;
pub mod token_bucket;

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Instant;
use std::time::SystemTime;

use log::debug;
use quiche::ConnectionId;
use quiche::Header;
use quiche::RecvInfo;
use quiche::RetryConnectionIds;

use crate::admission::connection_limits::ClientGroup;
use crate::admission::connection_limits::ConnectionLimiter;
use crate::admission::connection_limits::ConnectionPermit;
use crate::admission::connection_limits::Limit;
use crate::admission::connection_limits::Outcome;
use crate::admission::handshakes::HandshakeGuard;
use crate::admission::handshakes::Handshakes;
use crate::admission::metrics::AdmissionMetrics;
use crate::admission::reason::Refusal;
use crate::admission::reason::RetryReason;
use crate::config::limits::Limits;
use crate::quic::connection_id::Cid;
use crate::quic::token::AddressValidation;
use crate::quic::token::Payload;
use crate::quic::token::TokenKind;
use crate::quic::token::Tokens;
use crate::quic::Quic;

quiche::stand_ins!();

/// Decision about an Initial packet of no connection.
pub enum Decision {
    /// It opens a connection.
    Accept(Acceptance),

    /// The client has to validate its address first.
    Retry(RetryReason),

    /// The client gets a CONNECTION_CLOSE.
    Refuse(Refusal),
}

/// Validation, permit and guard of an accepted connection.
pub struct Acceptance {
    /// Validation of the client's address by its token.
    pub validation: Option<AddressValidation>,
    pub permit: ConnectionPermit,

    /// Slot of a connection that has to end for this one.
    pub replaced: Option<usize>,
    pub handshake: HandshakeGuard,
}

/// The time by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    pub wall: SystemTime,
}

/// Admission to one worker.
pub struct Admission {
    tokens: Tokens,
    limiter: ConnectionLimiter,
    handshakes: Handshakes,
    metrics: AdmissionMetrics,
}

impl Admission {
    pub fn new(tokens: Tokens, limiter: ConnectionLimiter, metrics: AdmissionMetrics) -> Self {
        let handshakes = Handshakes::new(metrics.clone());
        Self { tokens, limiter, handshakes, metrics }
    }

    /// Returns the groups in which room is made for `client` where a limit is reached.
    pub fn fuller_groups(&self, client: IpAddr, limit: Limit) -> Vec<ClientGroup> {
        self.limiter.fuller_groups(client, limit)
    }

    /// Has the client of the last packet send it again, with the same token.
    pub fn release_token(&mut self) {
        self.tokens.release_last();
    }

    /// Returns the limit that keeps a validated client out, unless another connection ends.
    pub fn reached(&self, client: IpAddr, limits: &Limits) -> Option<Limit> {
        self.limiter.reached(client, limits)
    }

    /// Decides about an Initial packet from `client`. `replaceable` finds the slot of a connection of
    /// one of the groups that can make room. If there is none, another worker `may_give_room`.
    pub fn decide(
        &mut self,
        header: &Header<'_>,
        client: SocketAddr,
        replaceable: impl FnOnce(&[ClientGroup]) -> Option<usize>,
        may_give_room: bool,
        limits: &Limits,
        now: Now,
    ) -> Decision {
        let token = header.token.as_deref().unwrap_or_default();
        let validation = self.validate_token(token, client, &header.dcid, now.wall);
        // RFC 9000, 8.1.2: the client accepts no second Retry packet. Other tokens are
        // ignored if they are invalid (8.1.3).
        if validation.is_none() && TokenKind::of(token) == Some(TokenKind::Retry) {
            return Decision::Refuse(Refusal::Token);
        }
        // Before the limiter, which a flood need not lock.
        if validation.is_none() && self.handshakes.under_way() >= limits.retry_above as usize {
            return Decision::Retry(RetryReason::Handshakes);
        }
        let validated = validation.is_some();
        let client_ip = client.ip();
        let reached = self.limiter.reached(client_ip, limits);
        let replaceable =
            reached.and_then(|limit| replaceable(&self.fuller_groups(client_ip, limit)));
        let can_replace = replaceable.is_some();
        let outcome =
            self.limiter.try_acquire(client_ip, validated, can_replace, limits, now.instant);
        let (permit, replaced) = match outcome {
            Outcome::Allow(permit) => (permit, None),
            Outcome::Replace(permit) => (permit, replaceable),
            Outcome::Retry(limit) => return Decision::Retry(RetryReason::Limit(limit)),
            // Nothing ends for a client whose address may be forged.
            Outcome::Close(limit) if may_give_room && !validated && limit != Limit::Rate => {
                return Decision::Retry(RetryReason::Limit(limit));
            }
            Outcome::Close(limit) => return Decision::Refuse(Refusal::Limit(limit)),
        };
        let handshake = self.handshakes.begin(client_ip);
        Decision::Accept(Acceptance { validation, permit, replaced, handshake })
    }

    fn validate_token(
        &mut self,
        token: &[u8],
        client: SocketAddr,
        destination: &[u8],
        wall_now: SystemTime,
    ) -> Option<AddressValidation> {
        if token.is_empty() {
            return None;
        }
        let validated = self.tokens.validate(token, client, destination, wall_now);
        self.metrics.count_token(TokenKind::of(token), validated.err());
        validated.inspect_err(|error| debug!("token from {client}: {}", error.name())).ok()
    }

    /// Writes a Retry packet that changes the server's connection ID to `changed`. Returns
    /// its length.
    pub fn write_retry(
        &mut self,
        header: &Header<'_>,
        client: SocketAddr,
        changed: &Cid,
        wall_now: SystemTime,
        room: &mut [u8],
    ) -> Option<usize> {
        let changed = changed.as_quic();
        let token = self.tokens.for_retry(client, &header.dcid, &changed, wall_now)?;
        let (scid, dcid) = (&header.scid, &header.dcid);
        quiche::retry(scid, dcid, &changed, &token, header.version, room).ok()
    }

    /// Returns a token for the client's next connection (RFC 9000, 8.1.3).
    pub fn token_for_next(
        &self,
        client: IpAddr,
        payload: &Payload,
        wall_now: SystemTime,
    ) -> Option<Vec<u8>> {
        self.tokens.for_next_connection(client, payload, wall_now)
    }
}

/// Accepts a connection with our ID `id`, for an Initial packet to the connection ID
/// `client_choice`.
///
/// # Errors
///
/// The transport refuses it.
pub fn accept(
    id: &Cid,
    client_choice: &ConnectionId<'_>,
    validation: Option<AddressValidation>,
    info: RecvInfo,
    config: &mut quiche::Config,
) -> quiche::Result<Box<Quic>> {
    let id = id.as_quic();
    let Some(AddressValidation::Retry { original }) = validation else {
        let accepted = quiche::accept_with_buf_factory(&id, None, info.to, info.from, config);
        let mut quic = accepted.map(Box::new)?;
        if matches!(validation, Some(AddressValidation::NewToken { .. })) {
            quic.set_peer_address_validated()?;
        }
        return Ok(quic);
    };
    let retry = RetryConnectionIds {
        original_destination_cid: &original.as_quic(),
        retry_source_cid: client_choice,
    };
    quiche::accept_with_retry(&id, retry, info.to, info.from, config).map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::tests::limits;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use crate::quic::token::PAYLOAD_BYTES;
    use quiche::Type;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    const ROOM_BYTES: usize = 1350;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn client() -> SocketAddr {
        "192.0.2.7:4433".parse().unwrap()
    }

    fn admission() -> Admission {
        let limiter = ConnectionLimiter::new(Default::default());
        Admission::new(Tokens::new(shared(&[ONE])), limiter, AdmissionMetrics::default())
    }

    /// A decision that can be compared.
    #[derive(Debug, PartialEq, Eq)]
    enum Decided {
        Accept(Option<AddressValidation>),
        Retry(RetryReason),
        Refuse(Refusal),
    }

    /// Decides about a packet with these options. An accepted connection ends at once.
    fn decide(admission: &mut Admission, packet: &Header<'_>, options: &[&str]) -> Decided {
        let now = Now { instant: quiche::clock::now(), wall: now() };
        match admission.decide(packet, client(), |_| None, false, &limits(options), now) {
            Decision::Accept(acceptance) => Decided::Accept(acceptance.validation),
            Decision::Retry(reason) => Decided::Retry(reason),
            Decision::Refuse(refusal) => Decided::Refuse(refusal),
        }
    }

    const PAYLOAD: Payload = [7; PAYLOAD_BYTES];
    const VALIDATED: AddressValidation = AddressValidation::NewToken { payload: Some(PAYLOAD) };
    const RETRY_ALL: Decided = Decided::Retry(RetryReason::Handshakes);

    /// The header of a packet to an ID of eight bytes.
    fn initial(destination: &[u8; 8], token: &[u8]) -> Header<'static> {
        let mut packet = vec![0xc0, 0, 0, 0, 1, 8];
        packet.extend(destination);
        packet.push(0);
        // Of two bytes (RFC 9000, 16).
        packet.extend((0x4000 | token.len() as u16).to_be_bytes());
        packet.extend(token);
        Header::from_slice(&mut packet, 8).unwrap()
    }

    #[test]
    fn many_handshakes_under_way_make_others_retry() {
        let mut admission = admission();
        let decide = |admission: &mut Admission| {
            decide(admission, &initial(b"anybody!", b""), &["--retry-above", "2"])
        };
        let ip = client().ip();
        let one = admission.handshakes.begin(ip);
        assert_eq!(decide(&mut admission), Decided::Accept(None));
        let other = admission.handshakes.begin(ip);
        assert_eq!(decide(&mut admission), RETRY_ALL);
        assert_eq!(one.complete(), ip);
        assert_eq!(decide(&mut admission), Decided::Accept(None));
        let another = admission.handshakes.begin(ip);
        assert_eq!(decide(&mut admission), RETRY_ALL);
        drop((other, another));
        assert_eq!(decide(&mut admission), Decided::Accept(None));
    }

    #[test]
    fn retry_token_is_accepted_once() {
        let mut admission = admission();
        let decide = |admission: &mut _, packet| decide(admission, packet, &["--retry-above", "0"]);
        let first = initial(b"original", b"");
        assert_eq!(decide(&mut admission, &first), RETRY_ALL);

        let changed = Cid::new(b"changed.");
        let mut room = [0; ROOM_BYTES];
        let length = admission.write_retry(&first, client(), &changed, now(), &mut room).unwrap();
        let retry = Header::from_slice(&mut room[..length], 8).unwrap();
        assert_eq!((retry.ty, retry.scid.as_ref()), (Type::Retry, &b"changed."[..]));

        let second = initial(b"changed.", &retry.token.unwrap());
        let validation = AddressValidation::Retry { original: Cid::new(b"original") };
        assert_eq!(decide(&mut admission, &second), Decided::Accept(Some(validation)));
        assert_eq!(decide(&mut admission, &second), Decided::Refuse(Refusal::Token));
    }

    #[test]
    fn invalid_token_of_no_retry_is_ignored() {
        for (retry_above, otherwise) in [("0", RETRY_ALL), ("1", Decided::Accept(None))] {
            let mut admission = admission();
            let token = admission.token_for_next(client().ip(), &PAYLOAD, now()).unwrap();
            let mut decide = |token: &[u8]| {
                let packet = initial(b"anybody!", token);
                decide(&mut admission, &packet, &["--retry-above", retry_above])
            };
            assert_eq!(decide(b"of another server"), otherwise);
            assert_eq!(decide(&token), Decided::Accept(Some(VALIDATED)));
            assert_eq!(decide(&token), otherwise);
        }
    }

    #[test]
    fn validated_client_passes_a_flood_but_no_full_limit() {
        let token = admission().token_for_next(client().ip(), &PAYLOAD, now()).unwrap();
        let accepted = || Decided::Accept(Some(VALIDATED));
        let full = |limit| Decided::Refuse(Refusal::Limit(limit));
        let retry = |limit| Decided::Retry(RetryReason::Limit(limit));
        for (options, unvalidated, validated) in [
            (&["--retry-above", "0"][..], RETRY_ALL, accepted()),
            (&["--handshakes-per-second", "1"], retry(Limit::Rate), accepted()),
            (&["--connections-max", "1"], full(Limit::Connections), full(Limit::Connections)),
            (&["--connections-per-subnet", "1"], full(Limit::Subnet), full(Limit::Subnet)),
        ] {
            let mut admission = admission();
            let other = limits(&["--connections-max", "9"]);
            let neighbour = client().ip();
            let now = quiche::clock::now();
            let is_full = unvalidated == validated;
            let permit =
                is_full.then(|| admission.limiter.try_acquire(neighbour, true, false, &other, now));
            let packet = initial(b"anybody!", b"");
            assert_eq!(decide(&mut admission, &packet, options), unvalidated, "{options:?}");
            let packet = initial(b"anybody!", &token);
            assert_eq!(decide(&mut admission, &packet, options), validated, "{options:?}");
            drop(permit);
        }
    }
}
