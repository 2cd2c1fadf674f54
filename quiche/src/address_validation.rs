//! Address validation by tokens.
//!
//! The NEW_TOKEN frame of a server and the token of a client (RFC 9000, 8.1.3),
//! and the answer to a client with an invalid token (8.1.2). The application
//! makes and validates tokens, as with `retry()`.

use crate::*;

/// The longest token, in bytes: a client's first packet has room for it, and for
/// part of the ClientHello.
const TOKEN_LEN_MAX: usize = 1000;

/// The tokens of one connection for later ones.
#[derive(Default)]
pub(crate) struct NewToken {
    /// The server's token, until the client acknowledges it.
    unacked: Option<Vec<u8>>,

    /// Whether it is due to be sent, for the first time or again.
    due: bool,

    /// The latest token that the client received.
    received: Option<Vec<u8>>,
}

impl NewToken {
    /// Whether a frame is due.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns the frame to send.
    pub(crate) fn frame(&self) -> Option<frame::Frame> {
        let token = self.unacked.as_ref().filter(|_| self.due)?;
        Some(frame::Frame::NewToken {
            token: token.clone(),
        })
    }

    pub(crate) fn on_sent(&mut self) {
        self.due = false;
    }

    /// Sends a lost token again, unless there is a newer one (RFC 9000, 13.3).
    pub(crate) fn on_lost(&mut self, token: &[u8]) {
        self.due |= self.is_unacked(token);
    }

    pub(crate) fn on_acked(&mut self, token: &[u8]) {
        if self.is_unacked(token) {
            self.unacked = None;
            self.due = false;
        }
    }

    pub(crate) fn on_received(&mut self, token: Vec<u8>) {
        self.received = Some(token);
    }

    fn is_unacked(&self, token: &[u8]) -> bool {
        self.unacked.as_deref() == Some(token)
    }
}

impl<F: BufFactory> Connection<F> {
    /// Sends the client a token for its next connection, in a NEW_TOKEN frame
    /// (RFC 9000, 8.1.3), once the handshake is complete. It replaces a token
    /// that the client has not acknowledged.
    ///
    /// # Errors
    ///
    /// `InvalidState` on a client, or if the token is empty or longer than 1000
    /// bytes.
    pub fn send_new_token(&mut self, token: Vec<u8>) -> Result<()> {
        if !self.is_server || token.is_empty() || token.len() > TOKEN_LEN_MAX {
            return Err(Error::InvalidState);
        }

        self.new_token.unacked = Some(token);
        self.new_token.due = true;

        Ok(())
    }

    /// Returns the latest token from the server for the client's next
    /// connection. Use it once, with [`set_token()`].
    ///
    /// [`set_token()`]: struct.Connection.html#method.set_token
    pub fn new_token(&self) -> Option<&[u8]> {
        self.new_token.received.as_deref()
    }

    /// Offers the server a token of an earlier connection. A Retry packet
    /// replaces it.
    ///
    /// # Errors
    ///
    /// `InvalidState` on a server, after the first packet, or if the token is
    /// longer than 1000 bytes.
    pub fn set_token(&mut self, token: &[u8]) -> Result<()> {
        if self.is_server || self.sent_count > 0 || token.len() > TOKEN_LEN_MAX {
            return Err(Error::InvalidState);
        }

        self.token = Some(token.to_vec());

        Ok(())
    }

    /// Marks the client's address as validated, as a token in its first packet
    /// proves: the limit of three times the received bytes is lifted.
    ///
    /// # Errors
    ///
    /// `InvalidState` on a client.
    pub fn set_peer_address_validated(&mut self) -> Result<()> {
        if !self.is_server {
            return Err(Error::InvalidState);
        }

        self.paths.get_active_mut()?.verified_peer_address = true;

        Ok(())
    }
}

/// Writes an Initial packet that refuses a connection, for example with
/// `INVALID_TOKEN` (0xb) for an invalid token of a Retry packet (RFC 9000,
/// 8.1.2). Keeps no state.
///
/// `scid` and `dcid` are those of the client's Initial packet.
///
/// # Errors
///
/// `UnknownVersion`; `BufferTooShort` if the packet is longer than `out`;
/// `InvalidState` if a connection ID or the error code is longer than QUIC
/// allows.
pub fn refuse(
    scid: &ConnectionId, dcid: &ConnectionId, version: u32, error_code: u64,
    out: &mut [u8],
) -> Result<usize> {
    /// A server without state sends each Initial packet as its first.
    const PKT_NUM: u64 = 0;
    const PKT_NUM_LEN: usize = 1;

    if !version_is_supported(version) {
        return Err(Error::UnknownVersion);
    }

    let is_too_long = |id: &ConnectionId| id.len() > MAX_CONN_ID_LEN;
    if is_too_long(scid) || is_too_long(dcid) || error_code > octets::MAX_VAR_INT
    {
        return Err(Error::InvalidState);
    }

    let close = frame::Frame::ConnectionClose {
        error_code,
        frame_type: 0,
        reason: Vec::new(),
    };
    let (_, mut seal) =
        crypto::derive_initial_key_material(dcid, version, true, false)?;

    let hdr = Header {
        ty: Type::Initial,
        version,
        dcid: scid.clone(),
        scid: dcid.clone(),
        pkt_num: PKT_NUM,
        pkt_num_len: PKT_NUM_LEN,
        token: None,
        versions: None,
        key_phase: false,
    };

    let mut b = octets::OctetsMut::with_slice(out);
    hdr.to_bytes(&mut b)?;
    let payload_len = close.wire_len();
    let len = PKT_NUM_LEN + payload_len + seal.alg().tag_len();
    b.put_varint(len as u64)?;
    packet::encode_pkt_num(PKT_NUM, PKT_NUM_LEN, &mut b)?;
    let payload_offset = b.off();
    if b.cap() < payload_len + seal.alg().tag_len() {
        return Err(Error::BufferTooShort);
    }
    close.to_bytes(&mut b)?;

    packet::encrypt_pkt(
        &mut b,
        PKT_NUM,
        PKT_NUM_LEN,
        payload_len,
        payload_offset,
        None,
        &mut seal,
    )
}

#[cfg(all(test, feature = "internal"))]
#[path = "address_validation_tests.rs"]
mod tests;
