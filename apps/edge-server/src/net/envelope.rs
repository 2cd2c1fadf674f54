//! Envelope of a datagram that a server of a fleet forwards to another one: the addresses and the ECN
//! codepoint with which it arrived, authenticated by a key of the servers' shared secrets.
//!
//! It is not encrypted: what it adds to the datagram is in the headers of the packets that clients send.
//! A repeated envelope delivers its datagram again, as a repeated packet of the client does.

use std::ops::Range;

use quiche::ecn::Codepoint;
use quiche::RecvInfo;
use ring::hmac;

use crate::net::process_link::decode_address;
use crate::net::process_link::encode_address;
use crate::net::process_link::ADDRESS_BYTES;
use crate::net::route::Arrival;
use crate::quic::secrets::Secrets;

/// First bytes of an envelope of this form.
const FORM: [u8; 4] = *b"edg1";

/// Length of the authentication code at the end, in bytes.
const CODE_BYTES: usize = 32;

/// Length of what is in front of the datagram, in bytes: form, name of the secret, ECN codepoint, and the
/// addresses of client and server.
const HEAD_BYTES: usize = FORM.len() + 2 + 2 * ADDRESS_BYTES;

/// Returns the envelope of a datagram, by the first of the secrets.
pub fn seal(secrets: &Secrets, arrival: Arrival, datagram: &[u8]) -> Vec<u8> {
    let Arrival { info, ecn } = arrival;
    let secret = secrets.current();
    let mut envelope = Vec::with_capacity(HEAD_BYTES + datagram.len() + CODE_BYTES);
    envelope.extend(FORM);
    envelope.extend([secret.name(), ecn as u8]);
    envelope.extend(encode_address(info.from));
    envelope.extend(encode_address(info.to));
    envelope.extend(datagram);
    let code = hmac::sign(secret.envelope_key(), &envelope);
    envelope.extend(code.as_ref());
    envelope
}

/// Returns the arrival of the datagram in an envelope, and where it is, unless another than these servers has
/// written it.
pub fn open(secrets: &Secrets, envelope: &[u8]) -> Option<(Arrival, Range<usize>)> {
    let (contents, code) = envelope.split_last_chunk::<CODE_BYTES>()?;
    let [name, ecn, rest @ ..] = contents.strip_prefix(&FORM)? else { return None };
    let secret = secrets.named(*name)?;
    hmac::verify(secret.envelope_key(), contents, code).ok()?;
    let (from, rest) = rest.split_first_chunk()?;
    let (to, datagram) = rest.split_first_chunk()?;
    let info = RecvInfo { from: decode_address(from)?, to: decode_address(to)? };
    let arrival = Arrival { info, ecn: Codepoint::from_bits(*ecn) };
    Some((arrival, contents.len() - datagram.len()..contents.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::secrets::tests::ONE;
    use crate::quic::secrets::tests::OTHER;

    fn secrets(lines: &[&str]) -> Secrets {
        lines.join("\n").parse().unwrap()
    }

    fn arrival(from: &str) -> Arrival {
        let info = RecvInfo { from: from.parse().unwrap(), to: "192.0.2.1:443".parse().unwrap() };
        Arrival { info, ecn: Codepoint::Ect0 }
    }

    #[test]
    fn envelope_preserves_datagram_and_arrival() {
        for (from, datagram) in [
            ("198.51.100.7:4433", &b"datagram"[..]),
            ("[2001:db8::7]:1", &[7; 1500]),
            ("[::1]:1", b""),
        ] {
            let envelope = seal(&secrets(&[ONE]), arrival(from), datagram);
            let (opened, at) = open(&secrets(&[OTHER, ONE]), &envelope).unwrap();
            assert_eq!((opened, &envelope[at]), (arrival(from), datagram));
        }
    }

    #[test]
    fn forged_envelope_is_refused() {
        let envelope = seal(&secrets(&[ONE]), arrival("198.51.100.7:4433"), b"datagram");
        assert_eq!(open(&secrets(&[OTHER]), &envelope), None);
        for at in 0..envelope.len() {
            let mut changed = envelope.clone();
            changed[at] ^= 1;
            assert_eq!(open(&secrets(&[ONE]), &changed), None, "{at}");
            assert_eq!(open(&secrets(&[ONE]), &envelope[..at]), None, "{at}");
        }
    }
}
