//! Certificates, selected by server name (SNI); without one configured, a self-signed one.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::anyhow;
use anyhow::ensure;
use anyhow::Context;
use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::pkey::Private;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslRef;
use boring::x509::X509Ref;
use boring::x509::X509;
use log::log;
use log::warn;
use log::Level;
use path_store::key_file;
use path_store::small_file;
use quiche::clock;
use rcgen::CertificateParams;
use rcgen::KeyPair;

use crate::config::acme::AcmeFiles;
use crate::config::file::Host;
use crate::config::host_map::HostMap;
use crate::config::tls::TlsOptions;
use crate::config::Config;
use crate::quic::client_authorities::ClientAuthorities;
use crate::quic::ech::EchKeys;
use crate::quic::offered_signatures::KeyKind;
use crate::quic::offered_signatures::OfferedSignatures;
use crate::quic::x509;

/// Names in the self-signed certificate.
const SELF_SIGNED_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Certificate chain, leaf first, and the leaf's private key.
pub struct CertifiedKey {
    chain: Vec<X509>,
    key: PKey<Private>,
    kind: KeyKind,
    origin: CertificateOrigin,
}

/// Certified keys of a host, by preference; at least one.
struct HostKeys(Vec<CertifiedKey>);

/// Word in the PEM form of encrypted private keys (RFC 7468, 11; RFC 1421, 4.6.1.1).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Validity left at which the server warns, and at which it urges, in days.
const DAYS_TO_WARN: i64 = 30;
const DAYS_TO_URGE: i64 = 7;

/// Host name of the default certificate in metrics and lists.
const ANY_HOST: &str = "*";

/// Validity of the certificate that stands in for one that ACME has not brought yet: metrics tell the
/// end, and alerts come when it is near.
const PLACEHOLDER_VALIDITY: Duration = Duration::from_secs(2 * 3600);

/// Part of its validity after which ACME should have renewed a certificate: half of the last third.
const OVERDUE_PART: u32 = 6;

/// Certificate in use, for metrics and lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Names of the host in the configuration; `*` is every other name.
    pub hosts: Vec<String>,

    /// Names in the certificate.
    pub names: Vec<String>,

    /// Hosts that the certificate is not for.
    pub uncovered: Vec<String>,
    pub origin: CertificateOrigin,

    /// Kind of its key, such as `ECDSA P-256`.
    pub key: String,

    /// When all certificates of the chain are valid, and when the first expires.
    pub start: SystemTime,
    pub expiry: SystemTime,
}

/// Origin of a certificate, which decides when the server warns of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateOrigin {
    Files,
    Acme,

    /// Self-signed, until ACME brings one.
    Placeholder,
}

impl CertificateOrigin {
    /// Returns its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Acme => "acme",
            Self::Placeholder => "placeholder",
        }
    }
}

/// Certificates of the server, shared by its workers.
#[derive(Clone)]
pub struct Certificates {
    /// In the order of the configuration, the default one first.
    pub list: Vec<CertificateInfo>,

    named: HostMap<Arc<HostKeys>>,

    /// For names without a certificate of their own, and clients without SNI.
    default: Arc<HostKeys>,

    client_authorities: Option<ClientAuthorities>,
    ech_keys: Option<Arc<EchKeys>>,
}

impl Certificates {
    /// Reads the configured certificates, or makes a self-signed one.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read(config: &Config) -> anyhow::Result<Self> {
        let default = read_default(config)?;
        let has_default = config.has_default_certificate();
        let mut list = default.infos(&[ANY_HOST.to_owned()]);
        let mut named = HostMap::default();
        for host in config.file.named() {
            if host.cert.is_empty() && !host.acme {
                let uncovered =
                    if has_default { default.uncovered(&host.names) } else { Vec::new() };
                list[0].uncovered.extend(uncovered);
                continue;
            }
            let keys = Arc::new(HostKeys::of_host(config, &host)?);
            list.extend(keys.infos(&host.names));
            for name in &host.names {
                named.insert(name, Arc::clone(&keys))?;
            }
        }
        let client_authorities = config.flags.tls.client_ca.as_deref().map(ClientAuthorities::read);
        let client_authorities = client_authorities.transpose();
        let client_authorities =
            client_authorities.map_err(|e| config.option_error("client-ca", &e))?;
        let ech_keys = EchKeys::read(&config.flags.tls.ech_keys);
        let ech_keys = ech_keys.map_err(|e| config.option_error("ech-keys", &e))?.map(Arc::new);
        Ok(Self { list, named, default: Arc::new(default), client_authorities, ech_keys })
    }

    /// Returns the certificates with those that ACME has brought since they were read, if there are
    /// any. A host whose file cannot be used keeps its certificate.
    pub fn with_acme_renewals(&self, config: &Config) -> Option<Self> {
        let mut renewed = self.clone();
        for host in config.file.named().filter(|host| host.acme) {
            let Some(in_use) = host.names.first().and_then(|name| self.named.find(name)) else {
                continue;
            };
            let of_acme = CertifiedKey::of_acme(config, &host).unwrap_or_else(|e| {
                warn!("{e:#}; the certificate in use stays");
                None
            });
            let Some(certified_key) = of_acme else { continue };
            if in_use.only().is_some_and(|in_use| in_use.is_same(&certified_key)) {
                continue;
            }
            let info = certified_key.info(host.names.clone());
            let old = renewed.list.iter_mut().find(|info| info.hosts == host.names);
            old.into_iter().for_each(|old| *old = info.clone());
            let keys = Arc::new(HostKeys(vec![certified_key]));
            for name in &host.names {
                renewed.named.replace(name, Arc::clone(&keys));
            }
        }
        (renewed.list != self.list).then_some(renewed)
    }

    /// Returns when the first certificate of each host expires.
    pub fn expiries(&self) -> Vec<(String, SystemTime)> {
        let mut first = BTreeMap::new();
        for info in &self.list {
            for host in &info.hosts {
                let expiry = first.entry(host.clone()).or_insert(info.expiry);
                *expiry = info.expiry.min(*expiry);
            }
        }
        first.into_iter().collect()
    }

    /// Warns of certificates that expire, and of those that clients reject for their names.
    pub fn warn(&self) {
        self.warn_of_validity(clock::wall_now());
        self.warn_of_public_names();
        for info in &self.list {
            for host in &info.uncovered {
                match info.names.as_slice() {
                    [] => warn!(
                        "the certificate of {host} has no subjectAltName: clients reject it; get \
                         one that has the host's name there"
                    ),
                    names => warn!(
                        "the certificate of {host} is for {} only: clients reject it; name another",
                        names.join(", ")
                    ),
                }
            }
        }
    }

    /// Warns of names that clients send in the clear without a certificate for them: they reject it if
    /// their configuration is old.
    fn warn_of_public_names(&self) {
        let public_names = self.ech_keys.iter().flat_map(|keys| &keys.public_names);
        for name in public_names.collect::<BTreeSet<_>>() {
            let keys = self.named.find(name).unwrap_or(&self.default);
            if !keys.uncovered(slice::from_ref(name)).is_empty() {
                warn!(
                    "there is no certificate for {name}, the public name of --ech-keys: clients whose \
                     configuration is old are refused; add a host with that name"
                );
            }
        }
    }

    /// Warns of certificates that expire, and of those that are not valid yet.
    pub fn warn_of_validity(&self, now: SystemTime) {
        for (level, warning) in self.list.iter().filter_map(|info| info.validity_warning(now)) {
            log!(level, "{warning}");
        }
    }

    /// Returns whether the certificate depends on the client.
    pub fn is_by_client(&self) -> bool {
        !self.named.is_empty() || self.default.only().is_none()
    }

    /// Configures TLS with the only certificate, if there is one only, and with what clients' have to
    /// be.
    ///
    /// # Errors
    ///
    /// BoringSSL rejects a certificate.
    pub fn configure(&self, tls: &mut SslContextBuilder) -> anyhow::Result<()> {
        if let Some(authorities) = &self.client_authorities {
            authorities.configure(tls).context("cannot use --client-ca")?;
        }
        if let Some(keys) = &self.ech_keys {
            keys.configure(tls).context("cannot use --ech-keys")?;
        }
        match self.default.only() {
            Some(only) if !self.is_by_client() => {
                only.configure_context(tls).context("cannot use the certificate")
            }
            _ => Ok(()),
        }
    }

    /// Returns the certificate for a client that has this server name and verifies these signatures, if
    /// it depends on them.
    pub fn find(
        &self,
        server_name: Option<&str>,
        offered: &OfferedSignatures<'_>,
    ) -> Option<&CertifiedKey> {
        let named = server_name.and_then(|name| self.named.find(name));
        self.is_by_client().then(|| named.unwrap_or(&self.default).choose(offered))
    }
}

/// Returns the certificates for names without their own, or a self-signed one.
fn read_default(config: &Config) -> anyhow::Result<HostKeys> {
    let TlsOptions { cert, key, .. } = &config.flags.tls;
    if !cert.is_empty() {
        let located = |option: &str, e| config.option_error(option, &e);
        return Ok(HostKeys::read(cert, key, ["--cert", "--key"], located)?);
    }
    let host = config.file.default_host();
    if host.cert.is_empty() {
        let names = SELF_SIGNED_NAMES.map(str::to_owned).to_vec();
        return Ok(HostKeys(vec![CertifiedKey::self_signed(names, |_| ())?]));
    }
    let located = |_: &str, e| config.host_error(&host, &e);
    Ok(HostKeys::read(&host.cert, &host.key, ["cert =", "key ="], located)?)
}

impl HostKeys {
    /// Reads the certificates of a host that has its own.
    fn of_host(config: &Config, host: &Host) -> anyhow::Result<Self> {
        if host.acme {
            return Ok(Self(vec![CertifiedKey::of_acme_or_placeholder(config, host)?]));
        }
        let located = |_: &str, e| config.host_error(host, &e);
        Ok(Self::read(&host.cert, &host.key, ["cert =", "key ="], located)?)
    }

    /// Reads pairs of files, as [`CertifiedKey::read()`] does.
    fn read<E>(
        certs: &[PathBuf],
        keys: &[PathBuf],
        names: [&str; 2],
        located: impl Fn(&str, anyhow::Error) -> E,
    ) -> Result<Self, E> {
        if certs.len() != keys.len() {
            let [cert, key] = names;
            let (certs, keys) = (certs.len(), keys.len());
            let error = anyhow!(
                "{cert} names {certs} files and {key} {keys}; name a key for each certificate, in the \
                 same order"
            );
            return Err(located("key", error));
        }
        let pairs = certs.iter().zip(keys);
        let read = pairs.map(|(cert, key)| CertifiedKey::read(cert, key, names, &located));
        let keys = Self(read.collect::<Result<_, E>>()?);
        for unused in keys.unused() {
            warn!(
                "{} {} is for nobody: an earlier one of this host has the same kind of key; leave it \
                 out, or name a [[host]] for it",
                names[0],
                certs[unused].display()
            );
        }
        Ok(keys)
    }

    /// Returns those that no client gets, by their places: it gets the first that it can verify.
    fn unused(&self) -> Vec<usize> {
        let is_unused =
            |at: &usize| self.0[..*at].iter().any(|earlier| earlier.kind == self.0[*at].kind);
        (0..self.0.len()).filter(is_unused).collect()
    }

    /// Returns the first whose signatures a client verifies, or the first.
    fn choose(&self, offered: &OfferedSignatures<'_>) -> &CertifiedKey {
        self.0.iter().find(|key| offered.suit(key.kind)).unwrap_or(&self.0[0])
    }

    fn only(&self) -> Option<&CertifiedKey> {
        if let [only] = &self.0[..] {
            Some(only)
        } else {
            None
        }
    }

    fn infos(&self, hosts: &[String]) -> Vec<CertificateInfo> {
        self.0.iter().map(|key| key.info(hosts.to_vec())).collect()
    }

    /// Returns those of these names that a certificate is not for.
    fn uncovered(&self, names: &[String]) -> Vec<String> {
        let uncovered = self.0.iter().flat_map(|key| key.uncovered(names));
        uncovered.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl CertificateInfo {
    /// Returns a line about the validity, and how urgent it is, if that has not begun or ends soon.
    fn validity_warning(&self, now: SystemTime) -> Option<(Level, String)> {
        let seconds =
            |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let days = (seconds(self.expiry) - seconds(now)).div_euclid(86_400);
        let hosts = self.hosts.join(", ");
        match self.origin {
            CertificateOrigin::Files => (),
            CertificateOrigin::Acme => return self.overdue_warning(now),
            CertificateOrigin::Placeholder => {
                let line = format!(
                    "there is no certificate of {hosts} yet: clients get a self-signed one until ACME \
                     brings one"
                );
                return Some((Level::Warn, line));
            }
        }
        if self.start > now {
            let start = humantime::format_rfc3339_seconds(self.start);
            let line = format!(
                "the certificate of {hosts} is not valid before {start}: clients reject it; set this \
                 machine's clock, or use another certificate"
            );
            return Some((Level::Error, line));
        }
        match days {
            ..0 => {
                let line = format!("the certificate of {hosts} has expired; renew it now");
                Some((Level::Error, line))
            }
            0..DAYS_TO_URGE => {
                let line = format!("the certificate of {hosts} expires in {days} days; renew it");
                Some((Level::Error, line))
            }
            DAYS_TO_URGE..DAYS_TO_WARN => {
                let line = format!("the certificate of {hosts} expires in {days} days");
                Some((Level::Warn, line))
            }
            _ => None,
        }
    }

    /// Returns a line about a certificate that ACME should have renewed, however short its validity is.
    fn overdue_warning(&self, now: SystemTime) -> Option<(Level, String)> {
        let validity = self.expiry.duration_since(self.start).unwrap_or_default();
        let left = self.expiry.duration_since(now).unwrap_or_default();
        let expiry = humantime::format_rfc3339_seconds(self.expiry);
        (left < validity / OVERDUE_PART).then(|| {
            let hosts = self.hosts.join(", ");
            let line = format!(
                "ACME has not renewed the certificate of {hosts}, which expires at {expiry}; see \
                 earlier lines for the reason"
            );
            (Level::Error, line)
        })
    }
}

impl CertifiedKey {
    /// Reads what ACME has brought for a host. Until it brings something, makes a self-signed
    /// certificate.
    fn of_acme_or_placeholder(config: &Config, host: &Host) -> anyhow::Result<Self> {
        let of_acme = Self::of_acme(config, host).unwrap_or_else(|e| {
            warn!("{e:#}; ACME will bring another");
            None
        });
        of_acme.map_or_else(|| Self::placeholder(&host.names), Ok)
    }

    /// Reads what ACME has brought for a host, if it has brought anything.
    fn of_acme(config: &Config, host: &Host) -> anyhow::Result<Option<Self>> {
        let files = config.flags.acme.files();
        files.map_or(Ok(None), |files| Self::read_acme(&files, &host.names))
    }

    /// Reads what ACME has brought for a host with these names, if it has brought anything.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read_acme(files: &AcmeFiles, names: &[String]) -> anyhow::Result<Option<Self>> {
        let Some(path) = names.first().map(|name| files.certificate(name)) else {
            return Ok(None);
        };
        if path.try_exists().is_ok_and(|exists| !exists) {
            return Ok(None);
        }
        let read = Self::read(&path, &path, ["the certificate"; 2], |_, e| e)?;
        Ok(Some(Self { origin: CertificateOrigin::Acme, ..read }))
    }

    /// Checks what an authority has issued, in PEM form, for hosts.
    ///
    /// # Errors
    ///
    /// It is not for this key or these hosts.
    pub fn check_issued(chain: &str, key: &str, hosts: &[String]) -> anyhow::Result<()> {
        let chain = X509::stack_from_pem(chain.as_bytes()).unwrap_or_default();
        let key = PKey::private_key_from_pem(key.as_bytes()).context("cannot read the key")?;
        let leaf = chain.first().context("the authority sent no certificate")?;
        let is_pair = leaf.public_key().is_ok_and(|public| public.public_eq(&key));
        ensure!(is_pair, "the authority's certificate is for another key");
        let (kind, origin) = (KeyKind::of(&key), CertificateOrigin::Acme);
        let uncovered = Self { chain, key, kind, origin }.uncovered(hosts);
        ensure!(
            uncovered.is_empty(),
            "the authority's certificate is not for {}",
            uncovered.join(", ")
        );
        Ok(())
    }

    /// Makes a self-signed certificate for a host.
    fn placeholder(names: &[String]) -> anyhow::Result<Self> {
        let made = Self::self_signed(names.to_vec(), |params| {
            params.not_before = clock::wall_now().into();
            params.not_after = (clock::wall_now() + PLACEHOLDER_VALIDITY).into();
        })?;
        Ok(Self { origin: CertificateOrigin::Placeholder, ..made })
    }

    /// Reads the chain from the PEM file `cert` and the private key from the PEM file `key`.
    /// Messages call the two files by `names`; `located` adds the place of an option.
    fn read<E>(
        cert: &Path,
        key: &Path,
        names: [&str; 2],
        located: impl Fn(&str, anyhow::Error) -> E,
    ) -> Result<Self, E> {
        let [cert_name, key_name] = names;
        let chain = read(cert_name, cert).map_err(|e| located("cert", e))?;
        let private = read(key_name, key).map_err(|e| located("key", e))?;
        let chain = parse_chain(&chain, cert_name, cert).map_err(|e| located("cert", e))?;
        let private = parse_key(&private, key_name, key).map_err(|e| located("key", e))?;
        if !chain[0].public_key().is_ok_and(|public| public.public_eq(&private)) {
            let (cert, key) = (cert.display(), key.display());
            let error = anyhow!(
                "{key_name} {key} is not the key of {cert_name} {cert}; name a matching pair"
            );
            return Err(located("key", error));
        }
        let mode = key_file::check_writers(cert, "o-w");
        mode.map_err(|why| located("cert", anyhow!("{cert_name} {}: {why}", cert.display())))?;
        let mode = key_file::check_mode(key);
        mode.map_err(|why| located("key", anyhow!("{key_name} {}: {why}", key.display())))?;
        let (kind, origin) = (KeyKind::of(&private), CertificateOrigin::Files);
        if kind == KeyKind::Other {
            let error = anyhow!(
                "{key_name} {} is of a kind that clients do not accept; make one on P-256, or for RSA",
                key.display()
            );
            return Err(located("key", error));
        }
        Ok(Self { chain, kind, key: private, origin })
    }

    /// Makes a self-signed certificate.
    ///
    /// # Errors
    ///
    /// A name is no host name, or the system has no randomness.
    pub fn self_signed(
        names: Vec<String>,
        set: impl FnOnce(&mut CertificateParams),
    ) -> anyhow::Result<Self> {
        let make = || {
            let mut params = CertificateParams::new(names)?;
            set(&mut params);
            let key = KeyPair::generate()?;
            let cert = X509::from_der(params.self_signed(&key)?.der())?;
            let key = PKey::private_key_from_der(&key.serialize_der())?;
            let origin = CertificateOrigin::Files;
            Ok(Self { chain: vec![cert], kind: KeyKind::of(&key), key, origin })
        };
        make().map_err(|e: anyhow::Error| e.context("cannot create a certificate"))
    }

    /// Returns the host's own certificate of the chain.
    pub fn leaf(&self) -> Option<&X509Ref> {
        self.chain.first().map(|leaf| &**leaf)
    }

    fn is_same(&self, other: &Self) -> bool {
        let der = |key: &Self| key.leaf().and_then(|leaf| leaf.to_der().ok());
        der(self) == der(other)
    }

    /// Describes the certificate, which `hosts` use.
    pub fn info(&self, hosts: Vec<String>) -> CertificateInfo {
        let names = self.chain.first().map(|leaf| names(leaf)).unwrap_or_default();
        let start = self.chain.iter().filter_map(|cert| x509::time(cert.not_before())).max();
        let expiry = self.chain.iter().filter_map(|cert| x509::time(cert.not_after())).min();
        // The default certificate has no host to compare its names with; it needs one at least.
        let is_compared = |host: &&String| *host != ANY_HOST || names.is_empty();
        let compared: Vec<_> = hosts.iter().filter(is_compared).cloned().collect();
        CertificateInfo {
            uncovered: self.uncovered(&compared),
            hosts,
            origin: self.origin,
            key: self.kind.describe(self.key.bits()),
            names,
            start: start.unwrap_or(UNIX_EPOCH),
            expiry: expiry.unwrap_or(UNIX_EPOCH),
        }
    }

    /// Returns those of these names that the certificate is not for.
    fn uncovered(&self, names: &[String]) -> Vec<String> {
        let Some(leaf) = self.chain.first() else { return Vec::new() };
        // Without any, BoringSSL compares the common name, which no client does (RFC 9525, 1.4.2).
        let alternatives = leaf.subject_alt_names();
        let has_names = alternatives.iter().flatten().any(|name| name.dnsname().is_some());
        let covers = |name: &str| match name.parse::<IpAddr>() {
            Ok(_) => leaf.check_ip_asc(name).unwrap_or(false),
            // Any label stands for the wildcard.
            Err(_) => has_names && leaf.check_host(&name.replacen('*', "any", 1)).unwrap_or(false),
        };
        names.iter().filter(|name| !covers(name)).cloned().collect()
    }

    fn configure_context(&self, tls: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let mut chain = self.chain.iter();
        chain.next().map_or(Ok(()), |leaf| tls.set_certificate(leaf))?;
        chain.try_for_each(|issuer| tls.add_extra_chain_cert(issuer.clone()))?;
        tls.set_private_key(&self.key)
    }

    /// Has a connection use the certificate.
    ///
    /// # Errors
    ///
    /// BoringSSL rejects it.
    pub fn configure_connection(&self, ssl: &mut SslRef) -> Result<(), ErrorStack> {
        let mut chain = self.chain.iter();
        chain.next().map_or(Ok(()), |leaf| ssl.set_certificate(leaf))?;
        chain.try_for_each(|issuer| ssl.add_chain_cert(issuer))?;
        ssl.set_private_key(&self.key)
    }
}

/// Parses a chain, of one certificate at least.
fn parse_chain(pem: &[u8], name: &str, path: &Path) -> anyhow::Result<Vec<X509>> {
    x509::certificates(pem).map_err(|why| anyhow!("{name} {}: {why:#}", path.display()))
}

fn parse_key(pem: &[u8], name: &str, path: &Path) -> anyhow::Result<PKey<Private>> {
    PKey::private_key_from_pem(pem).map_err(|_| {
        let path = path.display();
        match pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
            true => anyhow!(
                "{name} {path} is encrypted; write it without a passphrase, as openssl pkey does"
            ),
            false => anyhow!(
                "{name} {path} holds no private key in PEM form of RSA, ECDSA or Ed25519; name a PEM \
                 file"
            ),
        }
    })
}

/// Returns the names in a certificate.
fn names(certificate: &X509Ref) -> Vec<String> {
    let names = certificate.subject_alt_names();
    let names = names.iter().flatten().filter_map(|name| {
        let address = name.ipaddress().and_then(|bytes| match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        });
        name.dnsname().map(str::to_owned).or_else(|| address.map(|address| address.to_string()))
    });
    names.collect()
}

fn read(name: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    small_file::read(path)
        .with_context(|| format!("cannot read {name} {}; name a readable PEM file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use boring::asn1::Asn1Time;
    use boring::ec::EcGroup;
    use boring::ec::EcKey;
    use boring::hash::MessageDigest;
    use boring::nid::Nid;
    use std::os::unix::fs::PermissionsExt;

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

    /// Reads files, or returns the option to blame and the error.
    fn read_files(files: &Files) -> Result<CertifiedKey, (String, String)> {
        let located = |option: &str, e: anyhow::Error| (option.to_owned(), e.to_string());
        CertifiedKey::read(&files.cert, &files.key, ["--cert", "--key"], located)
    }

    #[test]
    fn certificate_with_its_key_is_read() {
        let (cert, key) = certified_key();
        let files = files(&cert, &key);
        assert!(read_files(&files).is_ok());
        assert!(CertifiedKey::self_signed(vec!["localhost".to_owned()], |_| ()).is_ok());
    }

    #[test]
    fn error_names_unusable_file() {
        let (cert, key) = certified_key();
        let (_, other_key) = certified_key();
        let of_p224 = p224_key();
        let cut = format!("{cert}{}", &cert[..cert.len() - 50]);
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n";
        for (cert, key, option, why) in [
            ("nothing", key.as_str(), "cert", "holds no certificate"),
            (cut.as_str(), key.as_str(), "cert", "block 2 is no certificate"),
            (cert.as_str(), "nothing", "key", "holds no private key"),
            (cert.as_str(), encrypted, "key", "is encrypted"),
            (
                of_p224.0.as_str(),
                of_p224.1.as_str(),
                "key",
                "is of a kind that clients do not accept",
            ),
            (cert.as_str(), other_key.as_str(), "key", "is not the key"),
        ] {
            let files = files(cert, key);
            let (blamed, error) = read_files(&files).map(drop).unwrap_err();
            assert_eq!(blamed, option, "{error}");
            assert!(error.contains(&format!("--{option}")) && error.contains(why), "{error}");
        }
    }

    /// Returns a certificate with a key on a curve that TLS 1.3 has not.
    fn p224_key() -> (String, String) {
        let group = EcGroup::from_curve_name(Nid::SECP224R1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut cert = X509::builder().unwrap();
        cert.set_pubkey(&key).unwrap();
        cert.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        cert.set_not_after(&Asn1Time::from_unix(1 << 31).unwrap()).unwrap();
        cert.sign(&key, MessageDigest::sha256()).unwrap();
        let pem = |pem: Vec<u8>| String::from_utf8(pem).unwrap();
        (pem(cert.build().to_pem().unwrap()), pem(key.private_key_to_pem_pkcs8().unwrap()))
    }

    #[test]
    fn second_key_of_a_kind_is_for_nobody() {
        let made = |algorithm| {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let der = key.serialize_der();
            let key = PKey::private_key_from_der(&der).unwrap();
            let kind = KeyKind::of(&key);
            CertifiedKey { chain: Vec::new(), key, kind, origin: CertificateOrigin::Files }
        };
        let [p256, p384] = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384];
        for (algorithms, unused) in [
            (&[p256][..], &[][..]),
            (&[p256, p384], &[]),
            (&[p256, p384, p256], &[2]),
            (&[p384, p384, p384], &[1, 2]),
        ] {
            let keys = algorithms.iter().map(|algorithm| made(algorithm)).collect();
            assert_eq!(HostKeys(keys).unused(), unused);
        }
    }

    /// Returns a certificate and its key, valid from a year to another.
    fn named_key(names: &[&str], years: [i32; 2]) -> (String, String) {
        let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "cn.example");
        [params.not_before, params.not_after] = years.map(|y| rcgen::date_time_ymd(y, 3, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    #[test]
    fn kind_of_key_is_told() {
        use rcgen::*;
        for (algorithm, expected) in
            [(&PKCS_ECDSA_P256_SHA256, "ECDSA P-256"), (&PKCS_ECDSA_P384_SHA384, "ECDSA P-384")]
        {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let key = PKey::private_key_from_der(&key.serialize_der()).unwrap();
            assert_eq!(KeyKind::of(&key).describe(key.bits()), expected);
        }
        let key = PKey::from_rsa(boring::rsa::Rsa::generate(2048).unwrap()).unwrap();
        assert_eq!(KeyKind::of(&key).describe(key.bits()), "RSA 2048");
    }

    #[test]
    fn common_name_covers_no_host() {
        for (names, host, uncovered) in [
            (&[][..], "cn.example", true),
            (&[], ANY_HOST, true),
            (&["192.0.2.1"], "cn.example", true),
            (&["192.0.2.1"], "192.0.2.1", false),
            (&["192.0.2.1"], ANY_HOST, false),
            (&["cn.example"], "cn.example", false),
        ] {
            let (cert, key) = named_key(names, [2001, 2040]);
            let files = files(&cert, &key);
            let read = read_files(&files).unwrap();
            let info = read.info(vec![host.to_owned()]);
            assert_eq!(!info.uncovered.is_empty(), uncovered, "{names:?} {host}");
        }
    }

    #[test]
    fn certificate_info_has_names_and_first_expiry_of_chain() {
        let (leaf, key) =
            named_key(&["a.example", "*.b.example", "192.0.2.1", "::1"], [2001, 2040]);
        let (issuer, _) = named_key(&["issuer"], [2002, 2030]);
        let files = files(&format!("{leaf}{issuer}"), &key);
        let read = read_files(&files).unwrap();
        let info = read.info(vec!["a.example".into()]);
        assert_eq!(info.hosts, ["a.example"]);
        assert_eq!(info.names, ["a.example", "*.b.example", "192.0.2.1", "::1"]);
        let expiry = humantime::format_rfc3339(info.expiry).to_string();
        assert_eq!(expiry, "2030-03-01T00:00:00Z");
        let start = humantime::format_rfc3339(info.start).to_string();
        assert_eq!(start, "2002-03-01T00:00:00Z");

        let names = ["A.example", "*.b.example", "x.b.example", "192.0.2.1", "::1"];
        let wrong = ["b.example", "y.x.b.example", "*.example", "192.0.2.2", "::2"];
        let all: Vec<_> = names.iter().chain(&wrong).map(|name| name.to_string()).collect();
        assert_eq!(read.info(all).uncovered, wrong);
    }

    #[test]
    fn certificate_warning_is_urgent_before_the_start_and_in_the_last_week() {
        let at = |day: u64| UNIX_EPOCH + Duration::from_secs(day * 86_400);
        let (hosts, names) = (vec!["a".to_owned(), "b".to_owned()], Vec::new());
        let (start, expiry) = (at(50), at(100));
        let (origin, key) = (CertificateOrigin::Files, "RSA 2048".to_owned());
        let mut info =
            CertificateInfo { hosts, names, uncovered: Vec::new(), origin, key, start, expiry };
        let early = "the certificate of a, b is not valid before 1970-02-20T00:00:00Z: clients \
                     reject it; set this machine's clock, or use another certificate";
        for (day, expected) in [
            (49, Some((Level::Error, early))),
            (50, None),
            (70, None),
            (71, Some((Level::Warn, "the certificate of a, b expires in 29 days"))),
            (93, Some((Level::Warn, "the certificate of a, b expires in 7 days"))),
            (94, Some((Level::Error, "the certificate of a, b expires in 6 days; renew it"))),
            (101, Some((Level::Error, "the certificate of a, b has expired; renew it now"))),
        ] {
            let warning = info.validity_warning(at(day));
            let expected = expected.map(|(level, line)| (level, line.to_owned()));
            assert_eq!(warning, expected, "{day}");
        }
        info.origin = CertificateOrigin::Acme;
        for (day, is_warned) in [(50, false), (91, false), (92, true), (101, true)] {
            let warning = info.validity_warning(at(day));
            let is_overdue = |(level, line): (Level, String)| {
                level == Level::Error
                    && line.contains("ACME has not renewed the certificate of a, b")
            };
            assert_eq!(warning.is_some_and(is_overdue), is_warned, "{day}");
        }
        info.origin = CertificateOrigin::Placeholder;
        let (level, warning) = info.validity_warning(at(50)).unwrap();
        assert!(
            level == Level::Warn && warning.contains("no certificate of a, b yet"),
            "{warning}"
        );
    }

    #[test]
    fn file_that_others_may_write_is_refused() {
        let (cert, key) = certified_key();
        let files = files(&cert, &key);
        for (path, option) in [(&files.key, "--key"), (&files.cert, "--cert")] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
            let (_, error) = read_files(&files).map(drop).unwrap_err();
            assert!(error.contains(option) && error.contains("(mode 0666)"), "{error}");
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
        }
        assert!(read_files(&files).is_ok());
    }

    #[test]
    fn error_names_missing_file() {
        let missing = Path::new("/nonexistent/cert.pem");
        let certified_key = CertifiedKey::read(missing, missing, ["--cert", "--key"], |_, e| e);
        let error = certified_key.map(drop).unwrap_err();
        assert!(error.to_string().contains("--cert /nonexistent/cert.pem"), "{error}");
        assert!(error.to_string().contains("name a readable PEM file"), "{error}");
    }
}
