//! ACME renewal information (RFC 9773): when an authority wants a certificate to be renewed.

use std::borrow::Cow;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use boring::x509::X509Ref;
use instant_acme::Account;
use instant_acme::CertificateIdentifier;
use instant_acme::Error;

/// Bounds of the time from one question to the next, and the time after a failure.
const INTERVAL_MIN: Duration = Duration::from_secs(3600);
const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

/// Response of an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestedRenewal {
    /// When to renew.
    pub at: SystemTime,

    /// When to ask again.
    pub ask_again: SystemTime,
}

/// Returns the identifier of a certificate, unless it lacks what that is made of (RFC 9773, 4.1).
pub fn identifier(leaf: &X509Ref) -> Option<CertificateIdentifier<'static>> {
    let authority = URL_SAFE_NO_PAD.encode(leaf.authority_key_id()?.as_slice());
    let mut serial = leaf.serial_number().to_bn().ok()?.to_vec();
    // As DER has it: without the zero, the number would be negative.
    if serial.first().is_none_or(|byte| byte & 0x80 != 0) {
        serial.insert(0, 0);
    }
    Some(CertificateIdentifier {
        authority_key_identifier: Cow::Owned(authority),
        serial: Cow::Owned(URL_SAFE_NO_PAD.encode(serial)),
    })
}

/// Asks the authority about a certificate. `random` is from 0 to 1.
///
/// # Errors
///
/// The authority cannot be reached, or does not know the certificate, or has no such information.
pub async fn ask(
    account: &Account,
    identifier: &CertificateIdentifier<'_>,
    now: SystemTime,
    random: f64,
) -> Result<SuggestedRenewal, Error> {
    let (info, interval) = account.renewal_info(identifier).await?;
    let window = [info.suggested_window.start, info.suggested_window.end];
    let window =
        window.map(|time| UNIX_EPOCH + Duration::from_secs(time.unix_timestamp().max(0) as u64));
    Ok(SuggestedRenewal {
        at: within(window, random),
        ask_again: now + interval.clamp(INTERVAL_MIN, INTERVAL_MAX),
    })
}

/// Returns when to ask again after a failure.
pub fn after_failure(now: SystemTime) -> SystemTime {
    now + INTERVAL_MIN
}

/// Returns a time of the window (RFC 9773, 4.2).
fn within([start, end]: [SystemTime; 2], random: f64) -> SystemTime {
    let length = end.duration_since(start).unwrap_or_default();
    start + length.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use boring::x509::X509;
    use rcgen::CertificateParams;
    use rcgen::KeyIdMethod;
    use rcgen::KeyPair;
    use rcgen::SerialNumber;

    #[test]
    fn identifier_is_that_of_the_rfc() {
        let authority =
            b"\x69\x88\x5b\x6b\x87\x46\x40\x41\xe1\xb3\x7b\x84\x7b\xa0\xae\x2c\xde\x01\xc8\xd4";
        for (serial, expected) in [
            (&[0x87, 0x65, 0x43, 0x21], "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"),
            (&[0x07, 0x65, 0x43, 0x21], "aYhba4dGQEHhs3uEe6CuLN4ByNQ.B2VDIQ"),
        ] {
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.serial_number = Some(SerialNumber::from_slice(serial));
            params.key_identifier_method = KeyIdMethod::PreSpecified(authority.to_vec());
            params.use_authority_key_identifier_extension = true;
            let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let leaf = X509::from_der(made.der()).unwrap();
            assert_eq!(identifier(&leaf).unwrap().to_string(), expected);
        }
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        assert!(identifier(&X509::from_der(made.cert.der()).unwrap()).is_none());
    }

    #[test]
    fn renewal_is_within_the_window() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (start, end, random, expected) in
            [(100, 200, 0.0, 100), (100, 200, 0.5, 150), (100, 200, 1.0, 200), (200, 100, 0.5, 200)]
        {
            assert_eq!(
                within([at(start), at(end)], random),
                at(expected),
                "{start} {end} {random}"
            );
        }
    }
}
