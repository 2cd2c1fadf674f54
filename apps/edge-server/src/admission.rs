//! Who may open a connection: whoever proves an address by a token, and while few
//! handshakes are under way, everybody (RFC 9000, 8.1).
//!
//! Owns the count of handshakes, and what is sent to clients that have no
//! connection yet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::SystemTime;

use log::debug;
use quiche::hooks;
use quiche::ConnectionId;
use quiche::Header;
use quiche::RecvInfo;
use quiche::RetryConnectionIds;

use crate::connection_ids::RoutingId;
use crate::metrics::AdmissionMetrics;
use crate::tokens::Kind;
use crate::tokens::Proof;
use crate::tokens::Tokens;
use crate::transport::Quic;

/// What becomes of an Initial packet that belongs to no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It opens a connection. The proof, if any, is of the client's address.
    Admit(Option<Proof>),

    /// The client is to prove its address first.
    Retry,

    /// The connection is closed before it is open.
    Refuse,
}

/// The door of one worker.
pub struct Admission {
    tokens: Tokens,

    /// With so many handshakes under way, further clients have to prove their
    /// addresses.
    retry_above: usize,

    /// Clients whose handshakes are under way, by their connections' slots.
    handshakes: HashMap<usize, IpAddr>,
    metrics: AdmissionMetrics,
}

impl Admission {
    pub fn new(tokens: Tokens, retry_above: usize, metrics: AdmissionMetrics) -> Self {
        Self { tokens, retry_above, handshakes: HashMap::new(), metrics }
    }

    /// Judges an Initial packet from `client`.
    pub fn judge(
        &mut self,
        header: &Header<'_>,
        client: SocketAddr,
        wall_now: SystemTime,
    ) -> Verdict {
        let token = header.token.as_deref().unwrap_or_default();
        if !token.is_empty() {
            let judged = self.tokens.judge(token, client, &header.dcid, wall_now);
            self.metrics.count_token(Kind::of(token), judged.err());
            match judged {
                Ok(proof) => return Verdict::Admit(Some(proof)),
                Err(fault) => debug!("token from {client}: {}", fault.name()),
            }
            // RFC 9000, 8.1.2: the client takes no second Retry packet. Any other
            // token is as none (8.1.3).
            if Kind::of(token) == Some(Kind::Retry) {
                return Verdict::Refuse;
            }
        }
        match self.handshakes.len() >= self.retry_above {
            true => Verdict::Retry,
            false => Verdict::Admit(None),
        }
    }

    /// Writes a Retry packet, after which the server's connection ID is `changed`.
    /// Returns its length.
    pub fn write_retry(
        &self,
        header: &Header<'_>,
        client: SocketAddr,
        changed: &RoutingId,
        wall_now: SystemTime,
        room: &mut [u8],
    ) -> Option<usize> {
        let changed = changed.as_quic();
        let token = self.tokens.for_retry(client, &header.dcid, &changed, wall_now)?;
        let (scid, dcid) = (&header.scid, &header.dcid);
        let length = quiche::retry(scid, dcid, &changed, &token, header.version, room).ok()?;
        self.metrics.count_retry();
        Some(length)
    }

    /// A connection of `client` begins in a slot.
    pub fn on_accepted(&mut self, slot: usize, client: IpAddr) {
        self.handshakes.insert(slot, client);
    }

    /// The handshake in a slot is complete. Returns, the first time, a token for the
    /// client's next connection (RFC 9000, 8.1.3).
    pub fn on_established(&mut self, slot: usize, wall_now: SystemTime) -> Option<Vec<u8>> {
        let client = self.handshakes.remove(&slot)?;
        self.metrics.count_handshake(true);
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
    id: &RoutingId,
    client_choice: &ConnectionId<'_>,
    proof: Option<Proof>,
    info: RecvInfo,
    config: &mut quiche::Config,
) -> quiche::Result<Quic> {
    let id = id.as_quic();
    let Some(Proof::Retry { original }) = proof else {
        let mut quic = quiche::accept_with_buf_factory(&id, None, info.to, info.from, config)?;
        if proof == Some(Proof::NewToken) {
            hooks::set_peer_address_validated(&mut quic)?;
        }
        return Ok(quic);
    };
    let retry = RetryConnectionIds {
        original_destination_cid: &original.as_quic(),
        retry_source_cid: client_choice,
    };
    quiche::accept_with_retry(&id, retry, info.to, info.from, config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::tests::shared;
    use crate::secrets::tests::ONE;
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

    fn admission(retry_above: usize) -> Admission {
        Admission::new(Tokens::new(shared(&[ONE])), retry_above, AdmissionMetrics::default())
    }

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
        let mut admission = admission(2);
        let mut judged = |slots: &mut dyn FnMut(&mut Admission)| {
            slots(&mut admission);
            admission.judge(&initial(b"anybody!", b""), client(), now())
        };
        let ip = client().ip();
        assert_eq!(judged(&mut |a| a.on_accepted(0, ip)), Verdict::Admit(None));
        assert_eq!(judged(&mut |a| a.on_accepted(5, ip)), Verdict::Retry);
        assert_eq!(judged(&mut |a| drop(a.on_established(5, now()))), Verdict::Admit(None));
        assert_eq!(judged(&mut |a| a.on_accepted(7, ip)), Verdict::Retry);
        assert_eq!(judged(&mut |a| drop(a.on_established(5, now()))), Verdict::Retry);
        assert_eq!(judged(&mut |a| a.on_end(5)), Verdict::Retry);
        assert_eq!(judged(&mut |a| a.on_end(7)), Verdict::Admit(None));
    }

    #[test]
    fn whoever_comes_back_from_a_retry_is_admitted_once() {
        let mut admission = admission(0);
        let first = initial(b"original", b"");
        assert_eq!(admission.judge(&first, client(), now()), Verdict::Retry);

        let changed = RoutingId::new(b"changed.");
        let mut room = [0; ROOM_BYTES];
        let length = admission.write_retry(&first, client(), &changed, now(), &mut room).unwrap();
        let retry = Header::from_slice(&mut room[..length], 8).unwrap();
        assert_eq!((retry.ty, retry.scid.as_ref()), (Type::Retry, &b"changed."[..]));

        let second = initial(b"changed.", &retry.token.unwrap());
        let proof = Proof::Retry { original: RoutingId::new(b"original") };
        assert_eq!(admission.judge(&second, client(), now()), Verdict::Admit(Some(proof)));
        assert_eq!(admission.judge(&second, client(), now()), Verdict::Refuse);
    }

    #[test]
    fn a_token_that_is_for_no_retry_is_as_none() {
        for (retry_above, otherwise) in [(0, Verdict::Retry), (1, Verdict::Admit(None))] {
            let mut admission = admission(retry_above);
            admission.on_accepted(0, client().ip());
            let token = admission.on_established(0, now()).unwrap();
            assert_eq!(admission.on_established(0, now()), None);

            let mut judge =
                |token: &[u8]| admission.judge(&initial(b"anybody!", token), client(), now());
            assert_eq!(judge(b"of another server"), otherwise);
            assert_eq!(judge(&token), Verdict::Admit(Some(Proof::NewToken)));
            assert_eq!(judge(&token), otherwise);
        }
    }
}
