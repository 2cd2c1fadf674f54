//! Strings with an invalid Huffman code (RFC 7541, 5.2), or too long a text.

use super::*;

/// Returns the error of a section whose field has this value, Huffman-coded.
fn error_of(value: &[u8], max_size: u64) -> Option<qpack::Error> {
    // ":path" of the static table, and its value.
    let mut section = vec![0, 0, 0x51, 0x80 | value.len() as u8];
    section.extend(value);
    qpack::Decoder::new().decode(&section, max_size).err()
}

#[test]
fn invalid_huffman_code_is_not_too_long() {
    // The end-of-string symbol, and more padding than 7 bits.
    for value in [&[0xff; 4][..], &[0x1f, 0xff, 0xff]] {
        let error = error_of(value, u64::MAX);
        let invalid = qpack::Error::InvalidHuffmanEncoding;
        assert_eq!(error, Some(invalid), "{value:?}");
    }
    // A name, as well.
    let section = [0, 0, 0x2c, 0xff, 0xff, 0xff, 0xff, 0x00];
    let decoded = qpack::Decoder::new().decode(&section, u64::MAX);
    assert_eq!(decoded, Err(qpack::Error::InvalidHuffmanEncoding));
}

#[test]
fn valid_huffman_code_may_be_too_long() {
    // "aaaaa", in five bits each.
    let text = [0x18, 0xc6, 0x31, 0x8f];
    assert_eq!(error_of(&text, 1000), None);
    let error = error_of(&text, 41);
    assert_eq!(error, Some(qpack::Error::HeaderListTooLarge));
}
