//! Field sections that refer to the dynamic table, whose capacity is 0
//! (RFC 9204, 4.5.1).

use super::*;

#[test]
fn reference_to_the_dynamic_table_is_an_error() {
    // The prefix of a section, and ":method: GET" of the static table.
    for (prefix, is_valid) in [
        ([0x00, 0x00], true),
        ([0x01, 0x00], false),
        ([0x7f, 0x00], false),
        ([0x00, 0x80], false),
    ] {
        let section = [&prefix[..], &[0xd1]].concat();
        let decoded = qpack::Decoder::new().decode(&section, u64::MAX);
        match is_valid {
            true => assert_eq!(decoded.unwrap().len(), 1),

            false => {
                let invalid = qpack::Error::InvalidHeaderValue;
                assert_eq!(decoded, Err(invalid), "{prefix:?}")
            },
        }
    }
}
