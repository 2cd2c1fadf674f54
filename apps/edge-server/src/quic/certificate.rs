//! Certificates, selected by server name (SNI); without one configured, a self-signed one.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use anyhow::Context;
use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::pkey::Private;
use boring::ssl::ClientHello;
use boring::ssl::NameType;
use boring::ssl::SelectCertError;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::ssl::SslRef;
use boring::x509::X509;
use log::debug;

use crate::config::host_map::HostMap;
use crate::config::Config;

/// Names in the self-signed certificate.
const SELF_SIGNED_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Certificate chain, leaf first, and the leaf's private key.
struct CertifiedKey {
    chain: Vec<X509>,
    key: PKey<Private>,
}

/// Certificates of the server, shared by its workers.
#[derive(Clone)]
pub struct Certificates {
    named: HostMap<Arc<CertifiedKey>>,

    /// For names without a certificate of their own, and clients without SNI.
    default: Arc<CertifiedKey>,
}

impl Certificates {
    /// Reads the configured certificates, or makes a self-signed one.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read(config: &Config) -> anyhow::Result<Self> {
        let default = match config.certificate() {
            Some((cert, key)) if config.flags.cert.is_some() => {
                CertifiedKey::read(cert, key, ["--cert", "--key"])?
            }
            Some((cert, key)) => CertifiedKey::read(cert, key, ["cert =", "key ="])?,
            None => CertifiedKey::self_signed()?,
        };
        let mut named = HostMap::default();
        for host in config.file.named() {
            let Some((cert, key)) = host.cert.as_deref().zip(host.key.as_deref()) else { continue };
            let certified_key = CertifiedKey::read(cert, key, ["cert =", "key ="]);
            let certified_key = Arc::new(certified_key.with_context(|| host.to_string())?);
            for name in &host.names {
                named.insert(name, Arc::clone(&certified_key))?;
            }
        }
        Ok(Self { named, default: Arc::new(default) })
    }

    /// Returns TLS settings with these certificates, for one worker.
    ///
    /// # Errors
    ///
    /// BoringSSL rejects a certificate.
    pub fn tls(&self) -> anyhow::Result<SslContextBuilder> {
        let mut tls = SslContextBuilder::new(SslMethod::tls()).context("cannot set up TLS")?;
        if self.named.is_empty() {
            self.default.configure_context(&mut tls).context("cannot use the certificate")?;
        } else {
            let certificates = self.clone();
            tls.set_select_certificate_callback(move |hello| certificates.select(hello));
        }
        Ok(tls)
    }

    /// Selects the certificate by the client's server name (RFC 6066, 3).
    fn select(&self, mut hello: ClientHello<'_>) -> Result<(), SelectCertError> {
        let name = hello.servername(NameType::HOST_NAME);
        let certified_key = name.and_then(|name| self.named.find(name)).unwrap_or(&self.default);
        certified_key.configure_connection(hello.ssl_mut()).map_err(|e| {
            debug!("cannot use a certificate: {e}");
            SelectCertError::ERROR
        })
    }
}

impl CertifiedKey {
    /// Reads the chain from the PEM file `cert` and the private key from the PEM file `key`.
    /// Messages call the two files by `names`.
    fn read(cert: &Path, key: &Path, names: [&str; 2]) -> anyhow::Result<Self> {
        let [cert_name, key_name] = names;
        let chain = read(cert_name, cert)?;
        let private = read(key_name, key)?;
        let (cert, key) = (cert.display(), key.display());
        let chain = X509::stack_from_pem(&chain).unwrap_or_default();
        if chain.is_empty() {
            bail!("{cert_name} {cert} holds no certificate in PEM form; name a PEM file");
        }
        let Ok(private) = PKey::private_key_from_pem(&private) else {
            bail!("{key_name} {key} holds no private key in PEM form; name a PEM file");
        };
        if !chain[0].public_key().is_ok_and(|public| public.public_eq(&private)) {
            bail!("{key_name} {key} is not the key of {cert_name} {cert}; name a matching pair");
        }
        Ok(Self { chain, key: private })
    }

    /// Makes a self-signed certificate for this machine.
    fn self_signed() -> anyhow::Result<Self> {
        let names = SELF_SIGNED_NAMES.map(str::to_owned);
        let made =
            rcgen::generate_simple_self_signed(names).context("cannot create a certificate")?;
        let cert = X509::from_der(made.cert.der()).context("cannot create a certificate")?;
        let key = PKey::private_key_from_der(&made.signing_key.serialize_der())
            .context("cannot create a certificate")?;
        Ok(Self { chain: vec![cert], key })
    }

    fn configure_context(&self, tls: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let mut chain = self.chain.iter();
        chain.next().map_or(Ok(()), |leaf| tls.set_certificate(leaf))?;
        chain.try_for_each(|issuer| tls.add_extra_chain_cert(issuer.clone()))?;
        tls.set_private_key(&self.key)
    }

    fn configure_connection(&self, ssl: &mut SslRef) -> Result<(), ErrorStack> {
        let mut chain = self.chain.iter();
        chain.next().map_or(Ok(()), |leaf| ssl.set_certificate(leaf))?;
        chain.try_for_each(|issuer| ssl.add_chain_cert(issuer))?;
        ssl.set_private_key(&self.key)
    }
}

fn read(name: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path)
        .with_context(|| format!("cannot read {name} {}; name a readable PEM file", path.display()))
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

    fn certified_key() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn certificate_with_its_key_is_read() {
        let (cert, key) = certified_key();
        let files = files(&cert, &key);
        assert!(CertifiedKey::read(&files.cert, &files.key, ["--cert", "--key"]).is_ok());
        assert!(CertifiedKey::self_signed().is_ok());
    }

    #[test]
    fn error_names_unusable_file() {
        let (cert, key) = certified_key();
        let (_, other_key) = certified_key();
        for (cert, key, named) in [
            ("nothing", key.as_str(), "--cert"),
            (cert.as_str(), "nothing", "--key"),
            (cert.as_str(), other_key.as_str(), "is not the key"),
        ] {
            let files = files(cert, key);
            let certified_key = CertifiedKey::read(&files.cert, &files.key, ["--cert", "--key"]);
            let error = certified_key.map(drop).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn error_names_missing_file() {
        let missing = Path::new("/nonexistent/cert.pem");
        let certified_key = CertifiedKey::read(missing, missing, ["--cert", "--key"]);
        let error = certified_key.map(drop).unwrap_err();
        assert!(error.to_string().contains("--cert /nonexistent/cert.pem"), "{error}");
        assert!(error.to_string().contains("name a readable PEM file"), "{error}");
    }
}
