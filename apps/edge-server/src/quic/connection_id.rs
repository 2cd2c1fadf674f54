//! Connection IDs: those the server makes, and the form in which packets are
//! looked up by them. The first byte of ours names the worker, so that packets
//! can be steered to it, the second the secret that the stateless reset token
//! comes of.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::hash::Hasher;

use quiche::ConnectionId;

use crate::quic::random;
use crate::quic::secrets::SharedSecrets;

/// Length of our connection IDs, in bytes.
pub const LEN: usize = 16;

/// Where our connection IDs name their worker and their secret.
const WORKER_AT: usize = 0;
pub const SECRET_AT: usize = 1;

/// The bit of the first byte that tells a long header (RFC 8999, 5).
pub const LONG_HEADER: u8 = 0x80;

/// The connection ID of ours in a packet with a short header (RFC 9000, 17.3.1).
pub fn of_short_header(packet: &[u8]) -> Option<&[u8]> {
    let (first, rest) = packet.split_first()?;
    let is_short = first & LONG_HEADER == 0;
    rest.get(..LEN).filter(|_| is_short)
}

/// A connection ID of either side, kept in place.
#[derive(Clone, Copy)]
pub struct Cid {
    bytes: [u8; quiche::MAX_CONN_ID_LEN],
    len: u8,
}

impl Cid {
    /// The ID of these bytes, at most 20; further ones are cut off.
    pub fn new(id: &[u8]) -> Self {
        let len = id.len().min(quiche::MAX_CONN_ID_LEN);
        let mut bytes = [0; quiche::MAX_CONN_ID_LEN];
        bytes[..len].copy_from_slice(&id[..len]);
        Self { bytes, len: len as u8 }
    }

    /// The form that quiche takes.
    pub fn as_quic(&self) -> ConnectionId<'_> {
        ConnectionId::from_ref(self.borrow())
    }
}

impl Borrow<[u8]> for Cid {
    fn borrow(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Hash for Cid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bytes: &[u8] = self.borrow();
        bytes.hash(state);
    }
}

impl PartialEq for Cid {
    fn eq(&self, other: &Self) -> bool {
        let (one, other): (&[u8], &[u8]) = (self.borrow(), other.borrow());
        one == other
    }
}

impl Eq for Cid {}

impl fmt::Debug for Cid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let bytes: &[u8] = self.borrow();
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Makes connection IDs of one worker.
pub struct ConnectionIdGenerator {
    worker: u8,
    secrets: SharedSecrets,
}

impl ConnectionIdGenerator {
    pub fn new(worker: u8, secrets: SharedSecrets) -> Self {
        Self { worker, secrets }
    }

    /// A fresh ID, unpredictable but for what it names. `None` when the system has
    /// no randomness.
    pub fn connection_id(&self) -> Option<Cid> {
        let mut id = [0; LEN];
        random::fill(&mut id)?;
        id[WORKER_AT] = self.worker;
        id[SECRET_AT] = self.secrets.get().current().name();
        Some(Cid::new(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use std::collections::HashMap;

    #[test]
    fn an_id_is_found_by_its_bytes() {
        let mut routes = HashMap::new();
        routes.insert(Cid::new(&[1, 2, 3]), 7);
        assert_eq!(routes.get(&[1u8, 2, 3][..]), Some(&7));
        assert_eq!(routes.get(&[1u8, 2, 3, 0][..]), None);
        assert_eq!(routes.get(&Cid::new(&[1, 2])), None);
    }

    #[test]
    fn a_short_header_begins_with_the_id() {
        let packet: Vec<u8> = (0x40..0x60).collect();
        assert_eq!(of_short_header(&packet), Some(&packet[1..=LEN]));
        assert_eq!(of_short_header(&packet[..=LEN]), Some(&packet[1..=LEN]));
        assert_eq!(of_short_header(&packet[..LEN]), None);
        assert_eq!(of_short_header(&[]), None);
        let long: Vec<u8> = (0xc0..0xe0).collect();
        assert_eq!(of_short_header(&long), None);
    }

    #[test]
    fn our_ids_name_their_worker_and_secret_and_differ() {
        let secrets = shared(&[ONE]);
        let maker = ConnectionIdGenerator::new(9, secrets.clone());
        let (one, other) = (maker.connection_id().unwrap(), maker.connection_id().unwrap());
        assert_ne!(one, other);
        for id in [one, other] {
            assert_eq!(id.as_quic().len(), LEN);
            assert_eq!(id.as_quic()[..2], [9, secrets.get().current().name()]);
            assert_eq!(id.to_string().len(), 2 * LEN);
        }
    }
}
