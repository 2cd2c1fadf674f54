//! Certificates of clients: names in logs, and reasons for which one is refused.

use std::fmt;
use std::fmt::Write;

use boring::asn1::Asn1StringRef;
use boring::hash::MessageDigest;
use boring::ssl::SslRef;
use boring::ssl::SslVerifyMode;
use boring::x509::X509NameEntryRef;
use boring::x509::X509Ref;
use boring::x509::X509VerifyError;
use boring::x509::X509;

/// The longest name in logs, in bytes, as far as characters are whole.
const NAME_BYTES_MAX: usize = 512;

/// Reason why a client's certificate is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    Missing,
    Expired,
    NotYetValid,
    UnknownAuthority,

    /// Of another kind or use, or with a wrong signature.
    Invalid,
}

impl RefusalReason {
    pub const ALL: [Self; 5] =
        [Self::Missing, Self::Expired, Self::NotYetValid, Self::UnknownAuthority, Self::Invalid];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::UnknownAuthority => "unknown_authority",
            Self::Invalid => "invalid",
        }
    }
}

impl From<X509VerifyError> for RefusalReason {
    fn from(error: X509VerifyError) -> Self {
        match error {
            X509VerifyError::CERT_HAS_EXPIRED => Self::Expired,
            X509VerifyError::CERT_NOT_YET_VALID => Self::NotYetValid,
            X509VerifyError::UNABLE_TO_GET_ISSUER_CERT
            | X509VerifyError::UNABLE_TO_GET_ISSUER_CERT_LOCALLY
            | X509VerifyError::UNABLE_TO_VERIFY_LEAF_SIGNATURE
            | X509VerifyError::DEPTH_ZERO_SELF_SIGNED_CERT
            | X509VerifyError::SELF_SIGNED_CERT_IN_CHAIN => Self::UnknownAuthority,
            _ => Self::Invalid,
        }
    }
}

/// Refusal of a client for its certificate; shown as one line.
#[derive(Debug)]
pub struct CertificateRefusal {
    pub reason: RefusalReason,

    /// Name of the certificate, and BoringSSL's reason, if there is one.
    details: Option<(String, &'static str)>,
}

impl CertificateRefusal {
    /// Returns why a handshake has failed, if the client's certificate is the reason, or that it sent
    /// none and had to.
    pub fn of(ssl: &SslRef, is_missing: bool) -> Option<Self> {
        if ssl.verify_mode() == SslVerifyMode::NONE {
            return None;
        }
        if is_missing {
            return Some(Self { reason: RefusalReason::Missing, details: None });
        }
        // The verdict before there is one.
        let is_verdict = |error: &X509VerifyError| *error != X509VerifyError::INVALID_CALL;
        let error = ssl.verify_result().err().filter(is_verdict)?;
        let name = ssl.peer_certificate().map(|certificate| name_of(&certificate));
        Some(Self {
            reason: error.into(),
            details: Some((name.unwrap_or_default(), error.error_string())),
        })
    }
}

impl fmt::Display for CertificateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.details {
            None => f.write_str("the client has no certificate"),
            Some((name, why)) => write!(f, "the client's certificate, {name}, is refused: {why}"),
        }
    }
}

/// Returns the name of a certificate in DER form, if it is one.
pub fn name(der: &[u8]) -> Option<Box<str>> {
    let certificate = X509::from_der(der).ok()?;
    Some(name_of(&certificate).into())
}

/// Returns the subject of a certificate, the most specific part first (RFC 4514), or the fingerprint
/// of one without.
pub fn name_of(certificate: &X509Ref) -> String {
    let parts: Vec<_> = certificate.subject_name().entries().map(part).collect();
    let parts: Vec<_> = parts.into_iter().rev().collect();
    if parts.is_empty() {
        let digest = certificate.digest(MessageDigest::sha256());
        let mut text = "SHA256:".to_owned();
        digest.iter().flat_map(|digest| digest.iter()).for_each(|byte| {
            let _ = write!(text, "{byte:02x}");
        });
        return text;
    }
    let mut text = parts.join(",");
    let end = (0..=text.len().min(NAME_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

/// Returns an attribute of a subject and its value.
fn part(entry: &X509NameEntryRef) -> String {
    let kind = entry.object();
    let mut text = match kind.nid().short_name() {
        Ok(name) if name != "UNDEF" => name.to_owned(),
        _ => kind.to_string(),
    };
    text.push('=');
    let value = value(entry.data());
    for (at, character) in value.char_indices() {
        let is_edge = at == 0 || at + character.len_utf8() == value.len();
        let is_escaped = match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            ' ' => is_edge,
            '#' => at == 0,
            _ => false,
        };
        if is_escaped {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

fn value(data: &Asn1StringRef) -> String {
    data.as_utf8().map(|text| text.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::DnType;

    fn named(subject: &[(DnType, &str)]) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        name(params.self_signed(&key).unwrap().der()).unwrap().into()
    }

    #[test]
    fn name_is_the_subject_or_the_fingerprint() {
        let long = "é".repeat(NAME_BYTES_MAX);
        for (subject, expected) in [
            (
                &[
                    (DnType::CountryName, "FI"),
                    (DnType::OrganizationName, "A, B"),
                    (DnType::CommonName, "#alice é"),
                ][..],
                "CN=\\#alice é,O=A\\, B,C=FI".to_owned(),
            ),
            (&[(DnType::CommonName, "\"a\"\n b ")], "CN=\\\"a\\\"\n b\\ ".to_owned()),
            (&[(DnType::CustomDnType(vec![1, 2, 3, 4]), "x")], "1.2.3.4=x".to_owned()),
            (&[(DnType::CommonName, &long)], format!("CN={}", &long[..NAME_BYTES_MAX - 4])),
        ] {
            assert_eq!(named(subject), expected);
        }
        let fingerprint = named(&[]);
        assert!(fingerprint.starts_with("SHA256:") && fingerprint.len() == 7 + 64, "{fingerprint}");
    }
}
