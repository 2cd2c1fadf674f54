//! Wire format of QUIC and HTTP/3: variable-length integers (RFC 9000, 16), frames and error codes.

/// RFC 9000, 20.1.
pub const CONNECTION_REFUSED: u64 = 0x2;
pub const FLOW_CONTROL_ERROR: u64 = 0x3;
pub const STREAM_LIMIT_ERROR: u64 = 0x4;
pub const STREAM_STATE_ERROR: u64 = 0x5;
pub const FINAL_SIZE_ERROR: u64 = 0x6;
pub const FRAME_ENCODING_ERROR: u64 = 0x7;
pub const TRANSPORT_PARAMETER_ERROR: u64 = 0x8;
pub const CONNECTION_ID_LIMIT_ERROR: u64 = 0x9;
pub const PROTOCOL_VIOLATION: u64 = 0xa;
pub const INVALID_TOKEN: u64 = 0xb;
pub const CRYPTO_BUFFER_EXCEEDED: u64 = 0xd;
pub const KEY_UPDATE_ERROR: u64 = 0xe;

/// RFC 9114, 8.1.
pub const H3_STREAM_CREATION_ERROR: u64 = 0x103;
pub const H3_CLOSED_CRITICAL_STREAM: u64 = 0x104;
pub const H3_FRAME_UNEXPECTED: u64 = 0x105;
pub const H3_FRAME_ERROR: u64 = 0x106;
pub const H3_EXCESSIVE_LOAD: u64 = 0x107;
pub const H3_ID_ERROR: u64 = 0x108;
pub const H3_SETTINGS_ERROR: u64 = 0x109;
pub const H3_MISSING_SETTINGS: u64 = 0x10a;
pub const H3_REQUEST_CANCELLED: u64 = 0x10c;
pub const H3_REQUEST_INCOMPLETE: u64 = 0x10d;
pub const H3_MESSAGE_ERROR: u64 = 0x10e;

/// RFC 9204, 6.
pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;

/// Largest value of a variable-length integer.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Encodes an integer in the fewest bytes.
pub fn varint(value: u64) -> Vec<u8> {
    let bytes = [1, 2, 4, 8].into_iter().find(|bytes| value >> (8 * bytes - 2) == 0);
    varint_in(value, bytes.expect("an integer of at most 62 bits"))
}

/// Encodes an integer in 1, 2, 4 or 8 bytes.
pub fn varint_in(value: u64, bytes: usize) -> Vec<u8> {
    let tagged = value | (bytes.trailing_zeros() as u64) << (8 * bytes - 2);
    tagged.to_be_bytes()[8 - bytes..].to_vec()
}

/// Encodes a list of integers, which most frames consist of.
pub fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| varint(*value)).collect()
}

/// Encodes a list of integers followed by bytes.
pub fn with_bytes(values: &[u64], bytes: &[u8]) -> Vec<u8> {
    [&numbers(values), bytes].concat()
}

/// Returns a STREAM frame with offset and length.
pub fn stream(id: u64, offset: u64, bytes: &[u8], last: bool) -> Vec<u8> {
    with_bytes(&[0x0e | u64::from(last), id, offset, bytes.len() as u64], bytes)
}

/// Returns a CRYPTO frame.
pub fn crypto(offset: u64, bytes: &[u8]) -> Vec<u8> {
    with_bytes(&[0x06, offset, bytes.len() as u64], bytes)
}

/// Returns a NEW_CONNECTION_ID frame whose token repeats one byte.
pub fn new_connection_id(number: u64, retire_prior_to: u64, id: &[u8], token: u8) -> Vec<u8> {
    let head = numbers(&[0x18, number, retire_prior_to]);
    [&head[..], &[id.len() as u8], id, &[token; 16]].concat()
}

/// Returns an HTTP/3 frame.
pub fn h3_frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    with_bytes(&[kind, payload.len() as u64], payload)
}

/// Returns a HEADERS frame.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    h3_frame(0x01, &section(fields))
}

/// Returns a field section of literals (RFC 9204, 4.5.6).
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    for (name, value) in fields {
        literal(&mut bytes, name.as_bytes(), value.as_bytes());
    }
    bytes
}

/// Appends a literal field line with a literal name.
pub fn literal(bytes: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    prefixed(bytes, 0x20, 3, name.len() as u64);
    bytes.extend(name);
    prefixed(bytes, 0x00, 7, value.len() as u64);
    bytes.extend(value);
}

/// Appends an integer with a prefix of `bits` bits (RFC 7541, 5.1).
pub fn prefixed(bytes: &mut Vec<u8>, pattern: u8, bits: u32, value: u64) {
    let full = (1 << bits) - 1;
    if value < full {
        return bytes.push(pattern | value as u8);
    }
    bytes.push(pattern | full as u8);
    let mut rest = value - full;
    while rest >= 0x80 {
        bytes.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Reader of received bytes. Panics if they are truncated, which fails the test.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub fn varint(&mut self) -> u64 {
        let bytes = 1 << (self.0[0] >> 6);
        let all = self.take(bytes).iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        all & (u64::MAX >> (66 - 8 * bytes))
    }

    /// Reads bytes after their count.
    pub fn counted(&mut self) -> &'a [u8] {
        let count = self.varint() as usize;
        self.take(count)
    }
}
