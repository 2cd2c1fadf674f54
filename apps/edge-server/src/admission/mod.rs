//! Admission of clients: those that prove an address by a token, and while few
//! handshakes are under way, all (RFC 9000, 8.1).
//!
//! Owns the count of the worker's handshakes, and what is sent to clients that have no
//! connection yet. What all workers limit together is at the [limiter](crate::admission::connection_limits).

pub mod connection_limits;
pub mod metrics;
pub mod reason;
mod token_bucket;

use std::collections::HashMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Instant;
use std::time::SystemTime;

use log::debug;
use quiche::hooks;
use quiche::ConnectionId;
use quiche::Header;
use quiche::RecvInfo;
use quiche::RetryConnectionIds;

use crate::admission::connection_limits::ConnectionLimiter;
use crate::admission::connection_limits::ConnectionPermit;
use crate::admission::connection_limits::Outcome;
use crate::admission::metrics::AdmissionMetrics;
use crate::admission::reason::Refusal;
use crate::admission::reason::RetryReason;
use crate::config::limits::Limits;
use crate::quic::connection_id::Cid;
use crate::quic::token::AddressValidation;
use crate::quic::token::TokenKind;
use crate::quic::token::Tokens;
use crate::quic::Quic;

/// What becomes of an Initial packet that belongs to no connection.
pub enum Decision {
    /// It opens a connection.
    Accept(Acceptance),

    /// The client is to prove its address first.
    Retry(RetryReason),

    /// The connection is closed before it is open.
    Refuse(Refusal),
}

/// What a connection begins with.
pub struct Acceptance {
    /// Of the client's address, if there is any.
    pub validation: Option<AddressValidation>,
    pub permit: ConnectionPermit,
}

/// The time by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    pub wall: SystemTime,
}

/// The door of one worker.
pub struct Admission {
    tokens: Tokens,
    limiter: ConnectionLimiter,

    /// Clients whose handshakes are under way, by their connections' slots.
    handshakes: HashMap<usize, IpAddr>,
    metrics: AdmissionMetrics,
}

impl Admission {
    pub fn new(tokens: Tokens, limiter: ConnectionLimiter, metrics: AdmissionMetrics) -> Self {
        Self { tokens, limiter, handshakes: HashMap::new(), metrics }
    }

    /// Judges an Initial packet from `client`.
    pub fn decide(
        &mut self,
        header: &Header<'_>,
        client: SocketAddr,
        limits: &Limits,
        now: Now,
    ) -> Decision {
        let token = header.token.as_deref().unwrap_or_default();
        let validation = self.validate_token(token, client, &header.dcid, now.wall);
        // RFC 9000, 8.1.2: the client takes no second Retry packet. Any other token is as
        // none (8.1.3).
        if validation.is_none() && TokenKind::of(token) == Some(TokenKind::Retry) {
            return Decision::Refuse(Refusal::Token);
        }
        // Before the limiter: a flood does not get as far.
        if validation.is_none() && self.handshakes.len() >= limits.retry_above as usize {
            return Decision::Retry(RetryReason::Handshakes);
        }
        match self.limiter.try_acquire(client.ip(), validation.is_some(), limits, now.instant) {
            Outcome::Allow(permit) => Decision::Accept(Acceptance { validation, permit }),
            Outcome::Retry(limit) => Decision::Retry(RetryReason::Limit(limit)),
            Outcome::Close(limit) => Decision::Refuse(Refusal::Limit(limit)),
        }
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
        let judged = self.tokens.validate(token, client, destination, wall_now);
        self.metrics.count_token(TokenKind::of(token), judged.err());
        judged.inspect_err(|fault| debug!("token from {client}: {}", fault.name())).ok()
    }

    /// Writes a Retry packet, after which the server's connection ID is `changed`.
    /// Returns its length.
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

    /// A connection of `client` begins in a slot.
    pub fn on_accepted(&mut self, slot: usize, client: IpAddr) {
        self.handshakes.insert(slot, client);
    }

    /// The handshake in a slot is complete. Returns the client, the first time.
    pub fn on_established(&mut self, slot: usize) -> Option<IpAddr> {
        let client = self.handshakes.remove(&slot)?;
        self.metrics.count_handshake(true);
        Some(client)
    }

    /// A token for the client's next connection (RFC 9000, 8.1.3).
    pub fn token_for_next(&mut self, client: IpAddr, wall_now: SystemTime) -> Option<Vec<u8>> {
        self.tokens.for_next_connection(client, wall_now)
    }

    /// The connection in a slot is over.
    pub fn on_end(&mut self, slot: usize) {
        if self.handshakes.remove(&slot).is_some() {
            self.metrics.count_handshake(false);
        }
    }
}

/// Accepts a connection whose ID of ours is `id`, upon an Initial packet to the
/// connection ID `client_choice`.
///
/// # Errors
///
/// The transport's.
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
        if validation == Some(AddressValidation::NewToken) {
            hooks::set_peer_address_validated(&mut quic)?;
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
    use crate::admission::connection_limits::Limit;
    use crate::config::limits::tests::limits;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
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

    /// What becomes of a packet, in short.
    #[derive(Debug, PartialEq, Eq)]
    enum Told {
        Admit(Option<AddressValidation>),
        Retry(RetryReason),
        Refuse(Refusal),
    }

    /// Judges a packet with these options. Whoever is admitted leaves at once.
    fn told(admission: &mut Admission, packet: &Header<'_>, options: &[&str]) -> Told {
        let now = Now { instant: quiche::clock::now(), wall: now() };
        match admission.decide(packet, client(), &limits(options), now) {
            Decision::Accept(acceptance) => Told::Admit(acceptance.validation),
            Decision::Retry(reason) => Told::Retry(reason),
            Decision::Refuse(refusal) => Told::Refuse(refusal),
        }
    }

    const ALL_DOUBTED: Told = Told::Retry(RetryReason::Handshakes);

    /// The header of a packet to an ID of eight bytes.
    fn initial(destination: &[u8; 8], token: &[u8]) -> Header<'static> {
        let mut packet = vec![0xc0, 0, 0, 0, 1, 8];
        packet.extend(destination);
        packet.push(0);
        packet.push(token.len() as u8);
        packet.extend(token);
        Header::from_slice(&mut packet, 8).unwrap()
    }

    #[test]
    fn handshakes_under_way_are_counted_once_each() {
        let mut admission = admission();
        let mut judged = |slots: &mut dyn FnMut(&mut Admission)| {
            slots(&mut admission);
            told(&mut admission, &initial(b"anybody!", b""), &["--retry-above", "2"])
        };
        let ip = client().ip();
        assert_eq!(judged(&mut |a| a.on_accepted(0, ip)), Told::Admit(None));
        assert_eq!(judged(&mut |a| a.on_accepted(5, ip)), ALL_DOUBTED);
        assert_eq!(judged(&mut |a| _ = a.on_established(5)), Told::Admit(None));
        assert_eq!(judged(&mut |a| a.on_accepted(7, ip)), ALL_DOUBTED);
        assert_eq!(judged(&mut |a| _ = a.on_established(5)), ALL_DOUBTED);
        assert_eq!(judged(&mut |a| a.on_end(5)), ALL_DOUBTED);
        assert_eq!(judged(&mut |a| a.on_end(7)), Told::Admit(None));
    }

    #[test]
    fn whoever_comes_back_from_a_retry_is_admitted_once() {
        let mut admission = admission();
        let judge = |admission: &mut _, packet| told(admission, packet, &["--retry-above", "0"]);
        let first = initial(b"original", b"");
        assert_eq!(judge(&mut admission, &first), ALL_DOUBTED);

        let changed = Cid::new(b"changed.");
        let mut room = [0; ROOM_BYTES];
        let length = admission.write_retry(&first, client(), &changed, now(), &mut room).unwrap();
        let retry = Header::from_slice(&mut room[..length], 8).unwrap();
        assert_eq!((retry.ty, retry.scid.as_ref()), (Type::Retry, &b"changed."[..]));

        let second = initial(b"changed.", &retry.token.unwrap());
        let validation = AddressValidation::Retry { original: Cid::new(b"original") };
        assert_eq!(judge(&mut admission, &second), Told::Admit(Some(validation)));
        assert_eq!(judge(&mut admission, &second), Told::Refuse(Refusal::Token));
    }

    #[test]
    fn a_token_that_is_for_no_retry_is_as_none() {
        for (retry_above, otherwise) in [("0", ALL_DOUBTED), ("1", Told::Admit(None))] {
            let mut admission = admission();
            admission.on_accepted(0, client().ip());
            let client = admission.on_established(0).unwrap();
            assert_eq!(admission.on_established(0), None);
            let token = admission.token_for_next(client, now()).unwrap();

            let mut judge = |token: &[u8]| {
                let packet = initial(b"anybody!", token);
                told(&mut admission, &packet, &["--retry-above", retry_above])
            };
            assert_eq!(judge(b"of another server"), otherwise);
            assert_eq!(judge(&token), Told::Admit(Some(AddressValidation::NewToken)));
            assert_eq!(judge(&token), otherwise);
        }
    }

    #[test]
    fn whoever_proves_an_address_passes_a_flood_and_no_full_gate() {
        let token = admission().token_for_next(client().ip(), now()).unwrap();
        let validation = Told::Admit(Some(AddressValidation::NewToken));
        let full = |limit| Told::Refuse(Refusal::Limit(limit));
        let reason = |limit| Told::Retry(RetryReason::Limit(limit));
        for (options, unproven, proven) in [
            (&["--retry-above", "0"][..], ALL_DOUBTED, validation),
            (
                &["--handshakes-per-second", "1"],
                reason(Limit::Rate),
                Told::Admit(Some(AddressValidation::NewToken)),
            ),
            (&["--connections-max", "1"], full(Limit::Connections), full(Limit::Connections)),
            (&["--connections-per-subnet", "1"], full(Limit::Subnet), full(Limit::Subnet)),
        ] {
            let mut admission = admission();
            let other = limits(&["--connections-max", "9"]);
            let neighbour = client().ip();
            let now = quiche::clock::now();
            let is_full = unproven == proven;
            let inside =
                is_full.then(|| admission.limiter.try_acquire(neighbour, true, &other, now));
            let packet = initial(b"anybody!", b"");
            assert_eq!(told(&mut admission, &packet, options), unproven, "{options:?}");
            let packet = initial(b"anybody!", &token);
            assert_eq!(told(&mut admission, &packet, options), proven, "{options:?}");
            drop(inside);
        }
    }
}
