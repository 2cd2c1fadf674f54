//! Certificates: the operator's certificates by the name that a client asks for, or
//! a throw-away one.

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

/// HostMap that the throw-away certificate is good for.
const THROW_AWAY_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate chain, its leaf first, and the leaf's key.
struct Pair {
    chain: Vec<X509>,
    key: PKey<Private>,
}

/// The certificates of a server, which all its workers present.
#[derive(Clone)]
pub struct Certificates {
    named: HostMap<Arc<Pair>>,

    /// For all other names.
    unnamed: Arc<Pair>,
}

impl Certificates {
    /// Those that a configuration names, or a throw-away one.
    ///
    /// # Errors
    ///
    /// One line that names the file which cannot be used.
    pub fn read(config: &Config) -> anyhow::Result<Self> {
        let unnamed = match config.certificate() {
            Some((cert, key)) if config.flags.cert.is_some() => {
                Pair::read(cert, key, ["--cert", "--key"])?
            }
            Some((cert, key)) => Pair::read(cert, key, ["cert =", "key ="])?,
            None => Pair::throw_away()?,
        };
        let mut named = HostMap::default();
        for host in config.file.named() {
            let Some((cert, key)) = host.cert.as_deref().zip(host.key.as_deref()) else { continue };
            let pair = Pair::read(cert, key, ["cert =", "key ="]);
            let pair = Arc::new(pair.with_context(|| host.to_string())?);
            for name in &host.names {
                named.insert(name, Arc::clone(&pair))?;
            }
        }
        Ok(Self { named, unnamed: Arc::new(unnamed) })
    }

    /// TLS settings with them, for one worker.
    ///
    /// # Errors
    ///
    /// BoringSSL refuses a certificate.
    pub fn tls(&self) -> anyhow::Result<SslContextBuilder> {
        let mut tls = SslContextBuilder::new(SslMethod::tls()).context("cannot set up TLS")?;
        if self.named.is_empty() {
            self.unnamed.present_to_all(&mut tls).context("cannot use the certificate")?;
        } else {
            let certificates = self.clone();
            tls.set_select_certificate_callback(move |hello| certificates.select(hello));
        }
        Ok(tls)
    }

    /// Presents the certificate of the name that the client asks for (RFC 6066, 3).
    fn select(&self, mut hello: ClientHello<'_>) -> Result<(), SelectCertError> {
        let name = hello.servername(NameType::HOST_NAME);
        let pair = name.and_then(|name| self.named.find(name)).unwrap_or(&self.unnamed);
        pair.present(hello.ssl_mut()).map_err(|e| {
            debug!("cannot use a certificate: {e}");
            SelectCertError::ERROR
        })
    }
}

impl Pair {
    /// The chain in the PEM file `cert` and the private key in the PEM file `key`,
    /// which messages call by these names.
    fn read(cert: &Path, key: &Path, names: [&str; 2]) -> anyhow::Result<Self> {
        let [cert_name, key_name] = names;
        let chain = read(cert_name, cert)?;
        let private = read(key_name, key)?;
        let (cert, key) = (cert.display(), key.display());
        let chain = X509::stack_from_pem(&chain).unwrap_or_default();
        if chain.is_empty() {
            bail!("{cert_name} {cert}: holds no certificate in PEM form; name one that does");
        }
        let Ok(private) = PKey::private_key_from_pem(&private) else {
            bail!("{key_name} {key}: holds no private key in PEM form; name one that does");
        };
        if !chain[0].public_key().is_ok_and(|public| public.public_eq(&private)) {
            bail!("{key_name} {key}: is not the key of {cert_name} {cert}; name a matching pair");
        }
        Ok(Self { chain, key: private })
    }

    /// A new self-signed certificate for this machine.
    fn throw_away() -> anyhow::Result<Self> {
        let names = THROW_AWAY_NAMES.map(str::to_owned);
        let made =
            rcgen::generate_simple_self_signed(names).context("cannot create a certificate")?;
        let cert = X509::from_der(made.cert.der()).context("cannot create a certificate")?;
        let key = PKey::private_key_from_der(&made.signing_key.serialize_der())
            .context("cannot create a certificate")?;
        Ok(Self { chain: vec![cert], key })
    }

    fn present_to_all(&self, tls: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let mut chain = self.chain.iter();
        chain.next().map_or(Ok(()), |leaf| tls.set_certificate(leaf))?;
        chain.try_for_each(|issuer| tls.add_extra_chain_cert(issuer.clone()))?;
        tls.set_private_key(&self.key)
    }

    fn present(&self, ssl: &mut SslRef) -> Result<(), ErrorStack> {
        let mut chain = self.chain.iter();
        chain.next().map_or(Ok(()), |leaf| ssl.set_certificate(leaf))?;
        chain.try_for_each(|issuer| ssl.add_chain_cert(issuer))?;
        ssl.set_private_key(&self.key)
    }
}

fn read(name: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path)
        .with_context(|| format!("cannot read {name} {}, name a readable PEM file", path.display()))
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
        assert!(Pair::read(&files.cert, &files.key, ["--cert", "--key"]).is_ok());
        assert!(Pair::throw_away().is_ok());
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
            let pair = Pair::read(&files.cert, &files.key, ["--cert", "--key"]);
            let error = pair.map(drop).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let missing = Path::new("/nonexistent/cert.pem");
        let pair = Pair::read(missing, missing, ["--cert", "--key"]);
        let error = pair.map(drop).unwrap_err();
        assert!(error.to_string().contains("--cert /nonexistent/cert.pem"), "{error}");
        assert!(error.to_string().contains("name a readable PEM file"), "{error}");
    }
}
