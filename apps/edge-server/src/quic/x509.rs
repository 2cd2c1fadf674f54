//! X.509 certificates: PEM files of them (RFC 7468), and what they say that the library does not tell.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::bail;
use anyhow::ensure;
use boring::asn1::Asn1Time;
use boring::asn1::Asn1TimeRef;
use boring::x509::X509Ref;
use boring::x509::X509;

/// What a block of a certificate begins and ends with.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Tags of DER: a sequence, an object identifier, a truth value, an octet string, and the fields
/// `version` and `extensions` of a certificate (RFC 5280, 4.1).
const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// Object identifier of basicConstraints, 2.5.29.19.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// Returns the certificates of a PEM file, at least one. Other blocks and text are skipped.
///
/// # Errors
///
/// There is none, or one is broken: what follows the name of the file in a message.
pub fn certificates(pem: &[u8]) -> anyhow::Result<Vec<X509>> {
    let text = String::from_utf8_lossy(pem);
    let parsed = X509::stack_from_pem(pem);
    let is_complete = |certificates: &Vec<X509>| certificates.len() >= text.matches(BEGIN).count();
    if !parsed.as_ref().is_ok_and(is_complete) {
        let mut blocks = (1..).zip(text.split(BEGIN).skip(1));
        let broken = blocks.find(|(_, rest)| !is_certificate(rest));
        let number = broken.map_or_else(|| "a block".to_owned(), |(n, _)| format!("block {n}"));
        bail!("{number} is no certificate; copy it again, complete, or remove it");
    }
    let certificates = parsed?;
    ensure!(!certificates.is_empty(), "holds no certificate in PEM form; name a PEM file");
    Ok(certificates)
}

/// Returns whether there is a certificate in a block that goes on with `rest`, and maybe more.
fn is_certificate(rest: &str) -> bool {
    let body = rest.split_once(END).map(|(body, _)| format!("{BEGIN}{body}{END}\n"));
    body.is_some_and(|block| X509::from_pem(block.as_bytes()).is_ok())
}

/// Returns a time of a certificate, if that is after 1970.
pub fn time(time: &Asn1TimeRef) -> Option<SystemTime> {
    let since_1970 = Asn1Time::from_unix(0).ok()?.diff(time).ok()?;
    let seconds = i64::from(since_1970.days) * 86_400 + i64::from(since_1970.secs);
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Returns whether a certificate is that of an authority: basicConstraints says so, or it is a root of
/// version 1, which has no extensions.
pub fn is_authority(certificate: &X509Ref) -> bool {
    let der = certificate.to_der().unwrap_or_default();
    is_marked(&der, || certificate.issued(certificate).is_ok()).unwrap_or(false)
}

fn is_marked(der: &[u8], is_self_issued: impl Fn() -> bool) -> Option<bool> {
    let to_be_signed = element(element(der, SEQUENCE)?.0, SEQUENCE)?.0;
    if element(to_be_signed, VERSION).is_none() {
        return Some(is_self_issued());
    }
    let mut fields = to_be_signed;
    while let Some((tag, contents, rest)) = first(fields) {
        if tag == EXTENSIONS {
            return basic_constraints(element(contents, SEQUENCE)?.0);
        }
        fields = rest;
    }
    None
}

/// Returns what basicConstraints, one of some extensions, says.
fn basic_constraints(mut extensions: &[u8]) -> Option<bool> {
    while let Some((extension, rest)) = element(extensions, SEQUENCE) {
        let (name, value) = element(extension, OBJECT_IDENTIFIER)?;
        if name == BASIC_CONSTRAINTS {
            // It may be critical.
            let value = element(value, BOOLEAN).map_or(value, |(_, value)| value);
            let constraints = element(element(value, OCTET_STRING)?.0, SEQUENCE)?.0;
            return Some(element(constraints, BOOLEAN)?.0 != [0]);
        }
        extensions = rest;
    }
    None
}

/// Returns the contents of the first element, if that has a tag, and what follows it.
fn element(der: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, contents, rest) = first(der)?;
    (tag == expected).then_some((contents, rest))
}

/// Returns tag and contents of the first element, and what follows it.
fn first(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*length) {
        length @ ..0x80 => (length, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f)?;
            let digits = digits.iter().map(|digit| usize::from(*digit));
            (digits.fold(0_usize, |length, digit| length.wrapping_mul(256) + digit), rest)
        }
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((*tag, contents, rest))
}
