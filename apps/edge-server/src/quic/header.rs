//! Packet header: the version-independent fields (RFC 8999, 5) that decide where a datagram goes,
//! read in place.

use crate::quic::connection_id;

/// Bit of the first byte that marks a long header.
pub const LONG_HEADER: u8 = 0x80;

/// Type bits of a long header's first byte, which are 0 in an Initial packet (RFC 9000, 17.2.2).
const TYPE_MASK: u8 = 0x30;

const VERSION_BYTES: usize = 4;

/// Version of a Version Negotiation packet (RFC 8999, 6).
const NEGOTIATION: [u8; VERSION_BYTES] = [0; VERSION_BYTES];

/// Returns the destination connection ID of a packet. After a short header it has the length of
/// the server's IDs.
pub fn destination_id(packet: &[u8]) -> Option<&[u8]> {
    let (first, rest) = packet.split_first()?;
    if first & LONG_HEADER == 0 {
        return connection_id::leading(rest);
    }
    let (length, rest) = rest.get(VERSION_BYTES..)?.split_first()?;
    rest.get(..usize::from(*length))
}

/// Returns whether a packet has a long header.
pub fn is_long(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & LONG_HEADER != 0)
}

/// Returns whether a packet is an Initial packet of any version.
pub fn is_initial(packet: &[u8]) -> bool {
    let Some((first, rest)) = packet.split_first() else { return false };
    let is_negotiation = rest.starts_with(&NEGOTIATION);
    first & (LONG_HEADER | TYPE_MASK) == LONG_HEADER && !is_negotiation
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::Header;
    use quiche::Type;

    #[test]
    fn short_header_yields_server_cid() {
        const LEN: usize = connection_id::LEN;
        let packet: Vec<u8> = (0x52..0x72).collect();
        assert_eq!(destination_id(&packet), Some(&packet[1..=LEN]));
        assert_eq!(destination_id(&packet[..=LEN]), Some(&packet[1..=LEN]));
        assert_eq!(destination_id(&packet[..LEN]), None);
        assert_eq!(destination_id(&[]), None);
    }

    #[test]
    fn long_header_yields_cid_of_its_length() {
        let packet = [&[0xc0, 0, 0, 0, 1, 3][..], b"abc", &[0; 30]].concat();
        assert_eq!(destination_id(&packet), Some(&b"abc"[..]));
        assert_eq!(destination_id(&packet[..9]), Some(&b"abc"[..]));
        for length in 1..9 {
            assert_eq!(destination_id(&packet[..length]), None, "{length}");
        }
        assert_eq!(destination_id(&[0xc0, 0, 0, 0, 1, 0]), Some(&[][..]));
    }

    #[test]
    fn header_is_read_as_the_transport_reads_it() {
        for first in 0..=u8::MAX {
            for version in [0, 1, 0x1a2a_3a4a_u32] {
                let start = [&[first][..], &version.to_be_bytes(), &[8], b"original"].concat();
                let mut packet = [start, vec![0; 100]].concat();
                if !is_long(&packet) {
                    packet[1] = 0xf3;
                }
                let Ok(header) = Header::from_slice(&mut packet, connection_id::LEN) else {
                    continue;
                };
                let case = format!("{first:#x} {version:#x}");
                assert_eq!(destination_id(&packet), Some(header.dcid.as_ref()), "{case}");
                assert_eq!(is_initial(&packet), header.ty == Type::Initial, "{case}");
            }
        }
    }
}
