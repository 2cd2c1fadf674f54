//! QUIC packets with arbitrary field values (RFC 9000, 17) and their protection (RFC 9001, 5).

use rustls::quic::HeaderProtectionKey;
use rustls::quic::PacketKey;

pub const VERSION: u32 = 1;

const LONG: u8 = 0x80;
pub const FIXED_BIT: u8 = 0x40;

/// Length of encoded packet numbers.
const NUMBER_BYTES: usize = 4;

const SAMPLE_BYTES: usize = 16;

/// Packet number space (RFC 9000, 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Initial,
    Handshake,
    Data,
}

pub const SPACES: [Space; 3] = [Space::Initial, Space::Handshake, Space::Data];

/// Packet before protection.
#[derive(Clone, Debug)]
pub struct PlainPacket {
    /// The first byte.
    pub first: u8,
    pub version: u32,
    pub destination: Vec<u8>,
    pub source: Vec<u8>,
    pub token: Vec<u8>,
    pub number: u64,
    pub payload: Vec<u8>,

    /// Value of the Length field, if not the actual length.
    pub length: Option<u64>,
}

impl PlainPacket {
    /// Returns the first byte of a packet in a space.
    pub fn first_byte(space: Space) -> u8 {
        let number_bytes = NUMBER_BYTES as u8 - 1;
        FIXED_BIT
            | number_bytes
            | match space {
                Space::Initial => LONG,
                Space::Handshake => LONG | 0x20,
                Space::Data => 0,
            }
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = vec![self.first];
        if self.first & LONG == 0 {
            bytes.extend(&self.destination);
        } else {
            bytes.extend(self.version.to_be_bytes());
            for id in [&self.destination, &self.source] {
                bytes.push(id.len() as u8);
                bytes.extend(id);
            }
            if self.first & 0x30 == 0 {
                bytes.extend(super::wire::varint(self.token.len() as u64));
                bytes.extend(&self.token);
            }
            let actual = NUMBER_BYTES + self.payload.len() + 16;
            let length = self.length.unwrap_or(actual as u64);
            bytes.extend(super::wire::varint_in(length, if length < 1 << 14 { 2 } else { 8 }));
        }
        bytes.extend((self.number as u32).to_be_bytes());
        bytes
    }

    /// Returns the protected packet.
    pub fn seal(&self, key: &dyn PacketKey, header_key: &dyn HeaderProtectionKey) -> Vec<u8> {
        let mut bytes = self.header();
        let mut payload = self.payload.clone();
        let tag = key.encrypt_in_place(self.number, &bytes, &mut payload).unwrap();
        let number_offset = bytes.len() - NUMBER_BYTES;
        bytes.extend(payload);
        bytes.extend(tag.as_ref());

        let sample_offset = number_offset + 4;
        let sample = bytes[sample_offset..sample_offset + SAMPLE_BYTES].to_vec();
        let (start, rest) = bytes.split_at_mut(number_offset);
        header_key.encrypt_in_place(&sample, &mut start[0], &mut rest[..NUMBER_BYTES]).unwrap();
        bytes
    }
}

/// Received packet without its protection.
pub struct OpenedPacket {
    pub number: u64,
    pub payload: Vec<u8>,
}

/// Removes the protection of a packet whose number is at `number_offset`. `keys` are those of the
/// first key phase and of each update. Returns `None` if no key fits.
pub fn open(
    packet: &[u8],
    number_offset: usize,
    keys: &[&dyn PacketKey],
    header_key: &dyn HeaderProtectionKey,
    largest: Option<u64>,
) -> Option<OpenedPacket> {
    let mut bytes = packet.to_vec();
    let sample = bytes.get(number_offset + 4..number_offset + 4 + SAMPLE_BYTES)?.to_vec();
    let (start, rest) = bytes.split_at_mut(number_offset);
    header_key.decrypt_in_place(&sample, &mut start[0], &mut rest[..4]).ok()?;
    let number_bytes = usize::from(bytes[0] & 3) + 1;
    let truncated = bytes[number_offset..number_offset + number_bytes]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    let number = expand_number(truncated, number_bytes, largest);
    let phase = usize::from(bytes[0] & (LONG | 0x04) == 0x04);
    let (header, payload) = bytes.split_at(number_offset + number_bytes);
    let opened = |key: &&dyn PacketKey| {
        let mut payload = payload.to_vec();
        Some(key.decrypt_in_place(number, header, &mut payload).ok()?.to_vec())
    };
    let payload = keys.iter().skip(phase).step_by(2).find_map(opened)?;
    Some(OpenedPacket { number, payload })
}

/// Expands a truncated packet number (RFC 9000, A.3).
fn expand_number(truncated: u64, bytes: usize, largest: Option<u64>) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1 << (8 * bytes);
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}
