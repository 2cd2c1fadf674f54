//! Signatures that a ClientHello offers to verify: schemes, and what TLS 1.2 has besides.

use boring::nid::Nid;
use boring::pkey::Id;
use boring::pkey::PKey;
use boring::pkey::Private;
use boring::ssl::ClientHello;
use boring::ssl::ExtensionType;

/// Version that a client has to name, unless it has 1.2 alone (RFC 8446, 4.2.1).
const TLS13: u16 = 0x0304;

/// Schemes of RSA keys in TLS 1.3 (RFC 8446, 4.2.3), and those that 1.2 has besides.
const RSA_PSS: &[u16] = &[0x0804, 0x0805, 0x0806];
const RSA_PKCS1: &[u16] = &[0x0401, 0x0501, 0x0601, 0x0201];

/// Schemes of ECDSA keys of any curve, which in TLS 1.2 name the hash alone.
const ECDSA: &[u16] = &[0x0403, 0x0503, 0x0603, 0x0203];
const ED25519: &[u16] = &[0x0807];

/// Cipher suites of TLS 1.2 that the server has, by the key that signs (RFC 5289, RFC 7905). Those of
/// ECDSA are Ed25519's, too (RFC 8422, 5.10).
const RSA_SUITES: &[u16] = &[0xc02f, 0xc030, 0xcca8];
const ECDSA_SUITES: &[u16] = &[0xc02b, 0xc02c, 0xcca9];

/// Kind of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Rsa,
    Ecdsa(Curve),
    Ed25519,

    /// Of no use in TLS.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P256,
    P384,
    P521,
}

impl KeyKind {
    /// Returns the kind of a key.
    pub fn of(key: &PKey<Private>) -> Self {
        let curve = || match key.ec_key().ok()?.group().curve_name()? {
            Nid::X9_62_PRIME256V1 => Some(Curve::P256),
            Nid::SECP384R1 => Some(Curve::P384),
            Nid::SECP521R1 => Some(Curve::P521),
            _ => None,
        };
        match key.id() {
            Id::RSA => Self::Rsa,
            Id::ED25519 => Self::Ed25519,
            Id::EC => curve().map_or(Self::Other, Self::Ecdsa),
            _ => Self::Other,
        }
    }

    /// Returns the name of the kind, for lists, with the length of a key in bits where that varies.
    pub fn describe(self, bits: u32) -> String {
        match self {
            Self::Rsa => format!("RSA {bits}"),
            Self::Ecdsa(Curve::P256) => "ECDSA P-256".to_owned(),
            Self::Ecdsa(Curve::P384) => "ECDSA P-384".to_owned(),
            Self::Ecdsa(Curve::P521) => "ECDSA P-521".to_owned(),
            Self::Ed25519 => "Ed25519".to_owned(),
            Self::Other => "other".to_owned(),
        }
    }
}

impl Curve {
    /// Returns the group that a client of TLS 1.2 has to have (RFC 8422, 5.1.1).
    fn group(self) -> u16 {
        match self {
            Self::P256 => 23,
            Self::P384 => 24,
            Self::P521 => 25,
        }
    }

    /// Returns the only scheme of the curve in TLS 1.3.
    fn scheme(self) -> u16 {
        match self {
            Self::P256 => 0x0403,
            Self::P384 => 0x0503,
            Self::P521 => 0x0603,
        }
    }
}

/// Lists of a ClientHello, as it has them on the wire.
pub struct OfferedSignatures<'a> {
    has_tls13: bool,

    /// Absent if the client sends none: it then means SHA-1 (RFC 5246, 7.4.1.4.1).
    schemes: Option<&'a [u8]>,
    groups: &'a [u8],
    suites: &'a [u8],
}

impl<'a> OfferedSignatures<'a> {
    /// Reads the lists of a ClientHello.
    pub fn read(hello: &'a ClientHello<'_>) -> Self {
        // Behind its length.
        let list = |extension, length: usize| hello.get_extension(extension)?.get(length..);
        let versions = list(ExtensionType::SUPPORTED_VERSIONS, 1).unwrap_or_default();
        Self {
            has_tls13: contains(versions, TLS13),
            schemes: list(ExtensionType::SIGNATURE_ALGORITHMS, 2),
            groups: list(ExtensionType::SUPPORTED_GROUPS, 2).unwrap_or_default(),
            suites: hello.ciphers(),
        }
    }

    /// Returns whether the client can verify what a key of this kind signs.
    pub fn suit(&self, kind: KeyKind) -> bool {
        let any = |schemes: &[u16]| {
            let offered = self.schemes.unwrap_or_default();
            schemes.iter().any(|scheme| contains(offered, *scheme))
        };
        if self.has_tls13 {
            return match kind {
                KeyKind::Rsa => any(RSA_PSS),
                KeyKind::Ecdsa(curve) => any(&[curve.scheme()]),
                KeyKind::Ed25519 => any(ED25519),
                KeyKind::Other => false,
            };
        }
        let has_suite = |suites: &[u16]| suites.iter().any(|suite| contains(self.suites, *suite));
        let has_none = self.schemes.is_none();
        match kind {
            KeyKind::Rsa => (has_none || any(RSA_PSS) || any(RSA_PKCS1)) && has_suite(RSA_SUITES),
            KeyKind::Ecdsa(curve) => {
                let has_curve = contains(self.groups, curve.group());
                (has_none || any(ECDSA)) && has_curve && has_suite(ECDSA_SUITES)
            }
            KeyKind::Ed25519 => any(ED25519) && has_suite(ECDSA_SUITES),
            KeyKind::Other => false,
        }
    }
}

/// Returns whether a list of 16-bit numbers has this one.
fn contains(list: &[u8], number: u16) -> bool {
    list.chunks_exact(2).any(|pair| pair == number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn key_suits_by_version_schemes_suites_and_curve() {
        let (rsa, p256, p384) =
            (KeyKind::Rsa, KeyKind::Ecdsa(Curve::P256), KeyKind::Ecdsa(Curve::P384));
        let both = Some(&[0x0403, 0x0804][..]);
        let (rsa_suite, ecdsa_suite) = (&[0xc02f][..], &[0xc02c][..]);
        for (has_tls13, schemes, groups, suites, kind, suits) in [
            // TLS 1.3: the suites name no kind, and PKCS #1 is for certificates alone.
            (true, both, &[][..], &[0x1301][..], rsa, true),
            (true, both, &[], &[0x1301], p256, true),
            (true, both, &[], rsa_suite, p256, true),
            (true, Some(&[0x0401]), &[], rsa_suite, rsa, false),
            (true, both, &[24], ecdsa_suite, p384, false),
            (true, None, &[23], ecdsa_suite, p256, false),
            (true, Some(&[0x0807]), &[], &[0x1301], KeyKind::Ed25519, true),
            // TLS 1.2: a suite of the key's kind as well.
            (false, both, &[23], rsa_suite, rsa, true),
            (false, both, &[23], rsa_suite, p256, false),
            (false, both, &[23], ecdsa_suite, rsa, false),
            (false, both, &[23], ecdsa_suite, p256, true),
            (false, both, &[23], &[0xc02f, 0xcca9], p256, true),
            (false, Some(&[0x0401]), &[23], rsa_suite, rsa, true),
            (false, Some(&[0x0403]), &[23], rsa_suite, rsa, false),
            // A scheme of TLS 1.2 names no curve, but the client has to have that.
            (false, both, &[24], ecdsa_suite, p384, true),
            (false, both, &[23], ecdsa_suite, p384, false),
            // Without schemes: SHA-1.
            (false, None, &[23], rsa_suite, rsa, true),
            (false, None, &[23], ecdsa_suite, p256, true),
            (false, None, &[23], ecdsa_suite, KeyKind::Ed25519, false),
            (false, Some(&[0x0807]), &[], ecdsa_suite, KeyKind::Ed25519, true),
            (false, both, &[23], ecdsa_suite, KeyKind::Other, false),
        ] {
            let (listed, groups_listed, suites_listed) =
                (schemes.map(bytes), bytes(groups), bytes(suites));
            let offered = OfferedSignatures {
                has_tls13,
                schemes: listed.as_deref(),
                groups: &groups_listed,
                suites: &suites_listed,
            };
            let case = format!("{has_tls13} {schemes:x?} {groups:?} {suites:x?} {kind:?}");
            assert_eq!(offered.suit(kind), suits, "{case}");
        }
    }
}
