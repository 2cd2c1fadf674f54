//! Connection IDs: those the server makes, and the form in which packets are
//! looked up by them. The first byte of ours names the worker, so that packets
//! can be steered to it.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::hash::Hasher;

use quiche::ConnectionId;
use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

/// Length of our connection IDs, in bytes.
pub const LEN: usize = 16;

/// A connection ID of either side, kept in place.
#[derive(Clone, Copy)]
pub struct RoutingId {
    bytes: [u8; quiche::MAX_CONN_ID_LEN],
    len: u8,
}

impl RoutingId {
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

impl Borrow<[u8]> for RoutingId {
    fn borrow(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Hash for RoutingId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bytes: &[u8] = self.borrow();
        bytes.hash(state);
    }
}

impl PartialEq for RoutingId {
    fn eq(&self, other: &Self) -> bool {
        let (one, other): (&[u8], &[u8]) = (self.borrow(), other.borrow());
        one == other
    }
}

impl Eq for RoutingId {}

impl fmt::Debug for RoutingId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for RoutingId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let bytes: &[u8] = self.borrow();
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Makes connection IDs and stateless reset tokens of one worker.
pub struct IdMaker {
    worker: u8,
    random: SystemRandom,
}

impl IdMaker {
    pub fn new(worker: u8) -> Self {
        Self { worker, random: SystemRandom::new() }
    }

    /// A fresh ID, unpredictable but for the worker it names. `None` when the
    /// system has no randomness.
    pub fn connection_id(&self) -> Option<RoutingId> {
        let mut id = [0; LEN];
        self.random.fill(&mut id).ok()?;
        id[0] = self.worker;
        Some(RoutingId::new(&id))
    }

    /// A fresh token. `None` when the system has no randomness.
    pub fn reset_token(&self) -> Option<u128> {
        let mut token = [0; 16];
        self.random.fill(&mut token).ok()?;
        Some(u128::from_be_bytes(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn an_id_is_found_by_its_bytes() {
        let mut routes = HashMap::new();
        routes.insert(RoutingId::new(&[1, 2, 3]), 7);
        assert_eq!(routes.get(&[1u8, 2, 3][..]), Some(&7));
        assert_eq!(routes.get(&[1u8, 2, 3, 0][..]), None);
        assert_eq!(routes.get(&RoutingId::new(&[1, 2])), None);
    }

    #[test]
    fn our_ids_name_their_worker_and_differ() {
        let maker = IdMaker::new(9);
        let (one, other) = (maker.connection_id().unwrap(), maker.connection_id().unwrap());
        assert_ne!(one, other);
        for id in [one, other] {
            assert_eq!(id.as_quic().len(), LEN);
            assert_eq!(id.as_quic()[0], 9);
            assert_eq!(id.to_string().len(), 2 * LEN);
        }
        assert_ne!(maker.reset_token(), maker.reset_token());
    }
}
