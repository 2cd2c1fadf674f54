//! Packets of versions that are not supported: what follows their connection
//! IDs is unknown (RFC 8999, 5.1).

use super::*;

/// Returns an Initial packet with `rest` after its connection IDs.
fn initial(version: u32, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0];
    packet.extend(version.to_be_bytes());
    packet.extend([4, 1, 2, 3, 4]);
    packet.extend([2, 5, 6]);
    packet.extend(rest);
    packet
}

#[test]
fn unknown_version_may_have_something_else_than_a_token() {
    for rest in [&[][..], &[0x40], &[9, 9], &[0xff; 9]] {
        let mut packet = initial(0x1a2a_3a4a, rest);
        let header = Header::from_slice(&mut packet, 0).unwrap();
        assert_eq!(header.dcid.as_ref(), [1, 2, 3, 4]);
        assert_eq!(header.scid.as_ref(), [5, 6]);

        let mut packet = initial(PROTOCOL_VERSION, rest);
        assert!(Header::from_slice(&mut packet, 0).is_err());
    }
}
