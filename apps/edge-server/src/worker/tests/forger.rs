//! Optimistic ACKs (RFC 9000, 21.4).
//!
//! quiche sends no ACK of a packet that it has not received, so these packets are made here: a
//! short header and an ACK frame, protected with the keys that the handshake gave the client (RFC
//! 9001, 5).

use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;

use ring::aead;
use ring::aead::quic::HeaderProtectionKey;
use ring::hkdf;

/// Fixed bit, and a packet number of four bytes.
const SHORT_HEADER: u8 = 0x43;
const NUMBER_BYTES: usize = 4;

const ACK_FRAME: u8 = 0x02;

/// So many numbers are ahead of the packets that the client has sent: enough, and not so many
/// that the server takes those for old ones.
const NUMBERS_AHEAD: u64 = 64;

/// The secrets that a connection tells.
#[derive(Clone, Default)]
pub struct KeyLog(Arc<Mutex<Vec<u8>>>);

impl Write for KeyLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl KeyLog {
    fn client_secret(&self) -> Vec<u8> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = text.lines().find(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 "));
        let digits = line.and_then(|line| line.rsplit(' ').next()).expect("the client's secret");
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }
}

/// Makes acknowledgements.
pub struct Forger {
    key: aead::LessSafeKey,
    iv: [u8; 12],
    header_key: HeaderProtectionKey,
    destination: Vec<u8>,
    next_number: u64,
}

impl Forger {
    /// For a connection whose server has chosen this ID, whose client has sent so many packets,
    /// and AES-128-GCM, which BoringSSL prefers on every processor that has instructions for it.
    pub fn new(keys: &KeyLog, destination: &[u8], sent_packets: u64) -> Self {
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &keys.client_secret());
        let (mut key, mut iv, mut header_key) = ([0; 16], [0; 12], [0; 16]);
        expand(&secret, "quic key", &mut key);
        expand(&secret, "quic iv", &mut iv);
        expand(&secret, "quic hp", &mut header_key);
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).unwrap();

        Self {
            key: aead::LessSafeKey::new(key),
            iv,
            header_key: HeaderProtectionKey::new(&aead::quic::AES_128, &header_key).unwrap(),
            destination: destination.to_vec(),
            next_number: sent_packets + NUMBERS_AHEAD,
        }
    }

    /// A packet that acknowledges every packet up to this one.
    pub fn acknowledge(&mut self, largest: u32) -> Vec<u8> {
        let number = self.next_number;
        self.next_number += 1;
        let mut packet = [&[SHORT_HEADER], &self.destination[..]].concat();
        let number_at = packet.len();
        packet.extend(u32::try_from(number).unwrap().to_be_bytes());

        // The largest, without delay, in one range of so many more.
        let varint = (0x8000_0000 | largest).to_be_bytes();
        let mut payload = [&[ACK_FRAME], &varint[..], &[0, 0], &varint].concat();
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, aead::Aad::from(&packet), &mut payload).unwrap();
        packet.extend(payload);

        let sample_at = number_at + NUMBER_BYTES;
        let sample = &packet[sample_at..sample_at + self.header_key.algorithm().sample_len()];
        let mask = self.header_key.new_mask(sample).unwrap();
        packet[0] ^= mask[0] & 0x1f;
        for (byte, mask) in packet[number_at..sample_at].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        packet
    }
}

/// HKDF-Expand-Label of TLS 1.3, without a context.
fn expand(secret: &hkdf::Prk, label: &str, out: &mut [u8]) {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let label = format!("tls13 {label}");
    let head = [0, out.len() as u8, label.len() as u8];
    let info = [&head[..], label.as_bytes(), &[0]];
    secret.expand(&info, Length(out.len())).unwrap().fill(out).unwrap();
}
