//! The fixed bit of a packet's first byte (RFC 9000, 17.2 and 17.3.1).

use super::*;

/// Returns the header of a datagram with this first byte and version.
fn header_of(first: u8, version: u32) -> Result<Header<'static>> {
    let mut packet = vec![first];
    packet.extend(version.to_be_bytes());
    packet.extend([8; 9]);
    packet.extend([8; 9]);
    packet.extend([0; 52]);
    Header::from_slice(&mut packet, 8)
}

#[test]
fn packet_without_the_fixed_bit_is_invalid() {
    for first in [0x00, 0x3f] {
        let header = header_of(first, 0);
        assert_eq!(header, Err(Error::InvalidPacket), "{first:#x}");
        assert!(header_of(first | 0x40, 0).is_ok());
    }
    for first in [0x80, 0xa3] {
        let header = header_of(first, PROTOCOL_VERSION);
        assert_eq!(header, Err(Error::InvalidPacket), "{first:#x}");
        assert!(header_of(first | 0x40, PROTOCOL_VERSION).is_ok());
    }
}

// RFC 8999, 5.1.
#[test]
fn another_version_may_have_no_fixed_bit() {
    for version in [0, 0x1a2a_3a4a] {
        assert!(header_of(0x80, version).is_ok(), "{version:#x}");
    }
}
