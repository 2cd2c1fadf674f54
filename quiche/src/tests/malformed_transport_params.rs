//! Transport parameters with too few or too many bytes (RFC 9000, 7.4 and 18.2).

use super::*;

/// Returns what a client's transport parameters are for a server.
fn decode(encoded: &[u8]) -> Result<TransportParams> {
    TransportParams::decode(encoded, true, None)
}

#[test]
fn truncated_transport_parameter_is_invalid() {
    let truncated: [&[u8]; 7] = [
        // A type, a length, a value.
        &[0x40],
        &[0x03],
        &[0x03, 8, 0],
        // Values that end within their integer.
        &[0x03, 0],
        &[0x03, 3, 0x80, 0, 5],
        &[0x0a, 0],
        &[0x20, 0],
    ];
    for encoded in truncated {
        let decoded = decode(encoded);
        assert_eq!(decoded, Err(Error::InvalidTransportParam), "{encoded:?}");
    }
}

#[test]
fn transport_parameter_with_excess_bytes_is_invalid() {
    let with_excess: [&[u8]; 4] = [
        &[0x01, 2, 3, 3],
        &[0x0a, 2, 3, 3],
        &[0x0e, 2, 4, 0],
        // disable_active_migration, which has no value.
        &[0x0c, 1, 1],
    ];
    for encoded in with_excess {
        let decoded = decode(encoded);
        assert_eq!(decoded, Err(Error::InvalidTransportParam), "{encoded:?}");
    }
}

#[test]
fn complete_transport_parameters_are_valid() {
    let complete: [&[u8]; 4] =
        [&[], &[0x0a, 1, 3], &[0x0c, 0], &[0x3f, 3, 1, 2, 3]];
    for encoded in complete {
        assert!(decode(encoded).is_ok(), "{encoded:?}");
    }
}
