//! Validity of packets, frames and transport parameters: rules of RFC 9000 that
//! the library's parsers do not check.

use crate::*;

/// Reserved bits of the first byte, after header protection is removed.
const RESERVED_BITS_LONG: u8 = 0x0c;
const RESERVED_BITS_SHORT: u8 = 0x18;

/// Bit of a long header.
const FORM_BIT: u8 = 0x80;

impl<F: BufFactory> Connection<F> {
    /// Whether the connection IDs of a packet are the connection's.
    pub(crate) fn has_known_ids(&self, hdr: &Header) -> bool {
        if hdr.ty == Type::Short || !self.got_peer_conn_id {
            return true;
        }
        // RFC 9000, 7.2: the source connection ID of the first packet stays.
        let same_source = hdr.scid == self.destination_id();
        // RFC 9000, 12.2: a coalesced packet may belong to another connection.
        let ours = hdr.ty != Type::Handshake
            || self.ids.find_scid_seq(&hdr.dcid).is_some();
        same_source && ours
    }

    /// Whether the client can read Initial packets only, as no Handshake packet
    /// was sent (RFC 9000, 10.2.3).
    pub(crate) fn has_only_initial_reader(&self) -> bool {
        let handshake = &self.pkt_num_spaces[packet::Epoch::Handshake];
        self.is_server
            && self.crypto_ctx[packet::Epoch::Initial].has_keys()
            && handshake.largest_tx_pkt_num.is_none()
    }

    /// Marks a connection as closed unless the peer has sent something, and is
    /// told.
    pub(crate) fn mark_closed_unless_known(&mut self) {
        if !self.got_peer_conn_id {
            self.mark_closed();
        }
    }

    /// Checks the frame as others of the peer's data (RFC 9000, 19.13 and 4.6).
    pub(crate) fn check_stream_data_blocked(
        &mut self, stream_id: u64,
    ) -> Result<()> {
        if !stream::is_bidi(stream_id)
            && stream::is_local(stream_id, self.is_server)
        {
            return Err(Error::InvalidStreamState(stream_id));
        }
        match self.get_or_create_stream(stream_id, false) {
            Ok(_) | Err(Error::Done) => Ok(()),

            Err(e) => Err(e),
        }
    }
}

/// Returns the reserved bits, which are 0 in every packet (RFC 9000, 17.2,
/// 17.3.1).
pub(crate) fn reserved_bits(first: u8) -> u8 {
    match first & FORM_BIT {
        0 => first & RESERVED_BITS_SHORT,

        _ => first & RESERVED_BITS_LONG,
    }
}

/// Returns the error of a frame: one that ends too early is badly formatted
/// (RFC 9000, 20.1).
pub(crate) fn frame_error(e: Error) -> Error {
    match e {
        Error::BufferTooShort => Error::InvalidFrame,

        e => e,
    }
}

impl TransportParams {
    /// Decodes a peer's transport parameters. If they end too early, they are
    /// invalid (RFC 9000, 7.4).
    pub(crate) fn decode(
        buf: &[u8], is_server: bool, unknown_size: Option<usize>,
    ) -> Result<TransportParams> {
        match Self::decode_fields(buf, is_server, unknown_size) {
            Err(Error::BufferTooShort) => Err(Error::InvalidTransportParam),

            decoded => decoded,
        }
    }
}

/// Whether the value of a transport parameter, an integer or nothing, is
/// followed by more bytes (RFC 9000, 18.2).
pub(crate) fn has_excess(id: u64, unread: usize) -> bool {
    unread > 0 && matches!(id, 0x01 | 0x03..=0x0c | 0x0e | 0x20)
}
