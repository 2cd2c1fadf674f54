//! Tests of the coding of counts.

use super::*;

/// Also those of one byte, for which there is a shorter way.
#[test]
fn counts_are_written_as_three_varints() {
    let values = [0, 1, 63, 64, 0x100, 1 << 14, 1 << 30, (1 << 62) - 1];

    for (ect0, ect1, ce) in values
        .iter()
        .flat_map(|a| values.map(|b| (*a, b)))
        .flat_map(|(a, b)| values.map(|c| (a, b, c)))
    {
        let counts = EcnCounts {
            ect0_count: ect0,
            ect1_count: ect1,
            ecn_ce_count: ce,
        };
        let mut expected = [7; 24];
        let mut b = octets::OctetsMut::with_slice(&mut expected);
        for count in [ect0, ect1, ce] {
            b.put_varint(count).unwrap();
        }
        let len = b.off();

        let mut written = [7; 24];
        let mut b = octets::OctetsMut::with_slice(&mut written);
        counts.to_bytes(&mut b).unwrap();
        assert_eq!((b.off(), counts.wire_len()), (len, len));
        assert_eq!(written, expected);

        let mut b = octets::Octets::with_slice(&written[..len]);
        assert_eq!(EcnCounts::from_bytes(&mut b), Ok(counts));
        assert_eq!(b.cap(), 0);
        let mut b = octets::Octets::with_slice(&written[..len - 1]);
        assert!(EcnCounts::from_bytes(&mut b).is_err());
    }
}
