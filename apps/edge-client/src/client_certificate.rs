//! Certificate of the client (mutual TLS), from PEM files.

use std::path::Path;

use boring::pkey::PKey;
use boring::pkey::Private;
use boring::ssl::SslContextBuilder;
use boring::x509::X509;

/// Word in the PEM form of encrypted private keys (RFC 7468, 11; RFC 1421, 4.6.1.1).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Has the client present the certificate in `cert`, whose key is in `key`, or else in the same file.
///
/// # Errors
///
/// One line that names the unusable file.
pub fn configure(
    tls: &mut SslContextBuilder,
    cert: &Path,
    key: Option<&Path>,
) -> Result<(), String> {
    let chain = read("--cert", cert)?;
    let key_pem = key.map(|key| read("--key", key)).transpose()?;
    let key_name = key.map_or_else(|| name("--cert", cert), |key| name("--key", key));
    let private = parse_key(key_pem.as_ref().unwrap_or(&chain), &key_name, key.is_none())?;
    let chain = X509::stack_from_pem(&chain).unwrap_or_default();
    let Some((leaf, issuers)) = chain.split_first() else {
        return Err(format!(
            "{} holds no certificate in PEM form; name a PEM file",
            name("--cert", cert)
        ));
    };
    if !leaf.public_key().is_ok_and(|public| public.public_eq(&private)) {
        return Err(format!(
            "{key_name} does not hold the key of {}; name a matching pair",
            name("--cert", cert)
        ));
    }
    let mut set = || {
        tls.set_certificate(leaf)?;
        issuers.iter().try_for_each(|issuer| tls.add_extra_chain_cert(issuer.clone()))?;
        tls.set_private_key(&private)
    };
    set()
        .map_err(|e: boring::error::ErrorStack| format!("cannot use {}: {e}", name("--cert", cert)))
}

fn name(option: &str, path: &Path) -> String {
    format!("{option} {}", path.display())
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path)
        .map_err(|e| format!("cannot read {}: {e}; name a readable PEM file", name(option, path)))
}

fn parse_key(pem: &[u8], name: &str, may_be_apart: bool) -> Result<PKey<Private>, String> {
    PKey::private_key_from_pem(pem).map_err(|_| {
        if pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
            return format!(
                "{name} is encrypted; write it without a passphrase, as openssl pkey does"
            );
        }
        let hint = if may_be_apart { "name its file with --key" } else { "name a PEM file" };
        format!("{name} holds no private key in PEM form; {hint}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use boring::ssl::SslMethod;

    #[test]
    fn error_names_unusable_file() {
        let made = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let other_key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let both = format!("{key}{cert}");
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n".to_owned();
        let dir = tempfile::tempdir().unwrap();
        let (cert_file, key_file) = (dir.path().join("c"), dir.path().join("k"));
        for (cert, key, expected) in [
            (&cert, Some(&key), Ok(())),
            (&both, None, Ok(())),
            (&cert, None, Err(("--cert", "holds no private key"))),
            (&cert, Some(&other_key), Err(("--key", "does not hold the key of --cert"))),
            (&cert, Some(&encrypted), Err(("--key", "is encrypted"))),
            (&key, Some(&key), Err(("--cert", "holds no certificate"))),
        ] {
            std::fs::write(&cert_file, cert).unwrap();
            key.inspect(|key| std::fs::write(&key_file, key).unwrap());
            let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
            let result = configure(&mut tls, &cert_file, key.map(|_| &*key_file));
            match expected {
                Ok(()) => assert_eq!(result, Ok(())),
                Err((option, why)) => {
                    let error = result.unwrap_err();
                    assert!(error.contains(option) && error.contains(why), "{error}");
                    assert!(!error.contains('\n'), "{error}");
                }
            }
        }
        let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
        let error = configure(&mut tls, &dir.path().join("missing"), None).unwrap_err();
        assert!(error.contains("cannot read --cert ") && error.contains("name a"), "{error}");
    }
}
