//! TLS settings: the operator's certificate, or a throw-away one.

use std::path::Path;

use anyhow::bail;
use anyhow::Context;
use boring::pkey::PKey;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::x509::X509;

/// Names that the throw-away certificate is good for.
const THROW_AWAY_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// TLS settings with the certificate chain of the PEM file `cert` and its
/// private key, the PEM file `key`.
///
/// # Errors
///
/// One line that names the file which cannot be used.
pub fn from_files(cert: &Path, key: &Path) -> anyhow::Result<SslContextBuilder> {
    let chain = read("--cert", cert)?;
    let private = read("--key", key)?;
    let chain = X509::stack_from_pem(&chain).unwrap_or_default();
    if chain.is_empty() {
        bail!("--cert {}: holds no certificate in PEM form; name one that does", cert.display());
    }
    let Ok(private) = PKey::private_key_from_pem(&private) else {
        bail!("--key {}: holds no private key in PEM form; name one that does", key.display());
    };
    if !chain[0].public_key().is_ok_and(|public| public.public_eq(&private)) {
        bail!("--key {}: is not the key of --cert {}; name a pair", key.display(), cert.display());
    }
    settings(chain, &private)
}

/// TLS settings with a new self-signed certificate for this machine.
///
/// # Errors
///
/// None is expected.
pub fn throw_away() -> anyhow::Result<SslContextBuilder> {
    let names = THROW_AWAY_NAMES.map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
    let cert = X509::from_der(made.cert.der()).context("cannot make a certificate")?;
    let key = PKey::private_key_from_der(&made.signing_key.serialize_der())
        .context("cannot make a certificate")?;
    settings(vec![cert], &key)
}

fn read(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path)
        .with_context(|| format!("cannot read {flag} {}, name a readable PEM file", path.display()))
}

fn settings(
    chain: Vec<X509>,
    key: &boring::pkey::PKeyRef<boring::pkey::Private>,
) -> anyhow::Result<SslContextBuilder> {
    let mut tls = SslContextBuilder::new(SslMethod::tls()).context("cannot set TLS up")?;
    let mut chain = chain.into_iter();
    if let Some(leaf) = chain.next() {
        tls.set_certificate(&leaf).context("cannot use the certificate")?;
    }
    for issuer in chain {
        tls.add_extra_chain_cert(issuer).context("cannot use the certificate chain")?;
    }
    tls.set_private_key(key).context("cannot use the private key")?;
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files {
        _dir: tempfile::TempDir,
        cert: std::path::PathBuf,
        key: std::path::PathBuf,
    }

    fn files(cert: &str, key: &str) -> Files {
        let dir = tempfile::tempdir().unwrap();
        let (cert_path, key_path) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert_path, cert).unwrap();
        std::fs::write(&key_path, key).unwrap();
        Files { _dir: dir, cert: cert_path, key: key_path }
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_and_its_key_are_taken() {
        let (cert, key) = pair();
        let files = files(&cert, &key);
        assert!(from_files(&files.cert, &files.key).is_ok());
        assert!(throw_away().is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let (cert, key) = pair();
        let (_, other_key) = pair();
        for (cert, key, named) in [
            ("nothing", key.as_str(), "--cert"),
            (cert.as_str(), "nothing", "--key"),
            (cert.as_str(), other_key.as_str(), "is not the key"),
        ] {
            let files = files(cert, key);
            let error = from_files(&files.cert, &files.key).map(drop).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let missing = Path::new("/nonexistent/cert.pem");
        let error = from_files(missing, missing).map(drop).unwrap_err();
        assert!(error.to_string().contains("--cert /nonexistent/cert.pem"), "{error}");
        assert!(error.to_string().contains("name a readable PEM file"), "{error}");
    }
}
