//! Access rules of a virtual host: what clients must be, or bring, to get some of its paths.

mod addresses;
mod bandwidth;
pub mod basic_auth;
pub mod cors;
pub mod covered_paths;
pub mod password_checker;
mod private;
pub mod refusal;
mod request_rate;
pub mod resources;
pub mod rule_limiters;
pub mod signed_urls;

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use anyhow::Context;
use path_store::key_file::KeyFile;
use quiche::path_state::PrefixLengths;

use crate::config::file;
use crate::content::access::addresses::AddressRule;
use crate::content::access::bandwidth::Bandwidth;
use crate::content::access::basic_auth::BasicAuth;
pub use crate::content::access::basic_auth::Denial;
use crate::content::access::covered_paths::CoveredPaths;
pub use crate::content::access::private::make_private;
use crate::content::access::refusal::AccessRefusal;
use crate::content::access::request_rate::RequestRate;
use crate::content::access::resources::AccessResources;
use crate::content::access::rule_limiters::RuleKey;
use crate::content::access::signed_urls::SigningSecrets;
use crate::content::client_context::ClientContext;
use crate::http::request::Request;
use crate::http::response_rate::ByteBucket;
use crate::http::response_rate::ByteRate;

/// The most requests in a second, and at once, that a rule may name.
const REQUESTS_MAX: u32 = 1_000_000;

/// The least and the most bytes in a second that a rule may name: with less than a packet each second,
/// clients give up.
const BYTES_PER_SECOND: RangeInclusive<u64> = 1000..=1_000_000_000_000;

/// Realm of passwords, if a rule names none.
const REALM: &str = "Restricted";

/// Access rules of a host, at least one. A request has to satisfy all that match its path.
#[derive(Clone, Debug)]
pub struct AccessRules(Vec<PathAccess>);

#[derive(Clone, Debug)]
struct PathAccess {
    paths: CoveredPaths,
    addresses: AddressRule,
    rate: Option<Arc<RequestRate>>,
    bandwidth: Option<Arc<Bandwidth>>,
    signed_url: Option<KeyFile<SigningSecrets>>,
    basic_auth: Option<BasicAuth>,
}

/// Path of a request, or of the file that it leads to, which may match rules.
#[derive(Clone, Copy)]
pub struct AccessPath<'a> {
    pub path: &'a str,

    /// Path whose rules have been asked already.
    pub asked: Option<&'a str>,
}

/// What a request that satisfies the rules gets.
#[derive(Debug, Default)]
pub struct AccessGrant {
    /// The response is for this user alone.
    pub is_private: bool,

    /// The user whose password the request has, if a rule asks for one.
    pub user: Option<Box<str>>,

    /// The query has a signature, which is for nobody else.
    pub is_signed: bool,

    /// What limits the rate of the response.
    pub buckets: Vec<Arc<ByteBucket>>,
}

impl AccessRules {
    /// Validates the access rules of a host. Returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &file::Host, resources: &mut AccessResources) -> anyhow::Result<Option<Self>> {
        let rules = host.access.iter().flatten().enumerate().map(|(index, rule)| {
            let key = RuleKey::new(host, index, rule);
            PathAccess::new(rule, &key, resources).context(rule.position)
        });
        let rules: Vec<_> = rules.collect::<anyhow::Result<_>>()?;
        Ok((!rules.is_empty()).then_some(Self(rules)))
    }

    /// Asks the rules for a path whether a client may ask for it before it brings anything, as a preflight
    /// does.
    ///
    /// # Errors
    ///
    /// The reason why it may not.
    pub fn check_client(
        &self,
        path: AccessPath<'_>,
        client: &ClientContext<'_>,
    ) -> Result<(), AccessRefusal> {
        let rules: Vec<_> = self.0.iter().filter(|rule| rule.applies_to(path)).collect();
        if rules.is_empty() {
            return Ok(());
        }
        let clients = (client.addresses)();
        let current = *clients.first().ok_or(AccessRefusal::Address)?;
        let is_allowed = rules.iter().all(|rule| rule.addresses.allows(&clients));
        for rate in rules.iter().filter_map(|rule| rule.rate.as_ref()) {
            rate.take(current, client.now)?;
        }
        if is_allowed {
            Ok(())
        } else {
            Err(AccessRefusal::Address)
        }
    }

    /// Asks the rules for a path what a request of a client gets.
    ///
    /// # Errors
    ///
    /// The reason why it does not get the path.
    pub fn check(
        &self,
        path: AccessPath<'_>,
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) -> Result<AccessGrant, Denial> {
        let rules: Vec<_> = self.0.iter().filter(|rule| rule.applies_to(path)).collect();
        if rules.is_empty() {
            return Ok(AccessGrant::default());
        }
        let clients = (client.addresses)();
        let current = *clients.first().ok_or(AccessRefusal::Address)?;
        let judged = ask(&rules, path, request, client, &clients);
        for rate in rules.iter().filter_map(|rule| rule.rate.as_ref()) {
            // It was counted before it waited.
            if !client.has_waited {
                rate.take(current, client.now)?;
            }
        }
        let mut grant = judged?;
        let bandwidths = rules.iter().filter_map(|rule| rule.bandwidth.as_ref());
        grant.buckets = bandwidths.map(|rate| rate.bucket_of(current, client.now)).collect();
        Ok(grant)
    }
}

/// Returns what rules grant, but for the rate of requests.
fn ask(
    rules: &[&PathAccess],
    path: AccessPath<'_>,
    request: &Request<'_>,
    client: &ClientContext<'_>,
    clients: &[IpAddr],
) -> Result<AccessGrant, Denial> {
    let mut grant = AccessGrant::default();
    if !rules.iter().all(|rule| rule.addresses.allows(clients)) {
        return Err(AccessRefusal::Address.into());
    }
    for secrets in rules.iter().filter_map(|rule| rule.signed_url.as_ref()) {
        let (_, query) = request.split_target();
        let path = path.asked.unwrap_or(path.path);
        secrets.get().check(path, query, clients, client.wall_now)?;
        grant.is_signed = true;
    }
    // Last, because to check a password costs most.
    for basic_auth in rules.iter().filter_map(|rule| rule.basic_auth.as_ref()) {
        let current = clients.first().ok_or(AccessRefusal::Address)?;
        grant.user = Some(basic_auth.check(request, *current)?);
        grant.is_private = true;
    }
    Ok(grant)
}

impl PathAccess {
    fn new(
        rule: &file::AccessRule,
        key: &RuleKey,
        resources: &mut AccessResources,
    ) -> anyhow::Result<Self> {
        let file::AccessRule { path, except, allow, deny, basic_auth, realm, signed_url, .. } =
            rule;
        let paths = CoveredPaths::new(path, except)?;
        let rate = rate_of(rule, resources.prefix_lengths)?.map(|rate| resources.rate(key, rate));
        let bandwidth = bandwidth_of(rule)?.map(|bandwidth| resources.bandwidth(key, bandwidth));
        let has_addresses = allow.is_some() || deny.is_some();
        let has_rate = rate.is_some() || bandwidth.is_some();
        ensure!(
            has_addresses || basic_auth.is_some() || signed_url.is_some() || has_rate,
            "access: path = '{path}' asks for nothing; give it allow, deny, basic-auth, signed-url, \
             requests-per-second or bytes-per-second"
        );
        let signed_url = signed_url.as_ref().map(|path| resources.secrets(path)).transpose()?;
        let realm = realm_of(realm.as_deref(), basic_auth.is_some())?;
        let mut authenticate = |path: &PathBuf| {
            let (users, checker) = (resources.users(path)?, resources.checker()?);
            Ok::<_, anyhow::Error>(BasicAuth { users, realm: realm.into(), checker })
        };
        let basic_auth = basic_auth.as_ref().map(&mut authenticate).transpose()?;
        Ok(Self {
            paths,
            addresses: AddressRule::new(allow.as_deref(), deny.as_deref())?,
            rate,
            bandwidth,
            signed_url,
            basic_auth,
        })
    }

    fn applies_to(&self, AccessPath { path, asked }: AccessPath<'_>) -> bool {
        self.paths.contains(path) && !asked.is_some_and(|asked| self.paths.contains(asked))
    }
}

/// Returns the rate that a rule limits, whose burst is a second's requests by default.
fn rate_of(rule: &file::AccessRule, lengths: PrefixLengths) -> anyhow::Result<Option<RequestRate>> {
    let file::AccessRule { requests_per_second, burst, .. } = rule;
    let Some(per_second) = *requests_per_second else {
        let burst = burst.unwrap_or_default();
        let is_alone = rule.burst.is_some();
        ensure!(!is_alone, "access: burst = {burst} needs requests-per-second; add that");
        return Ok(None);
    };
    let burst = burst.unwrap_or(per_second);
    for (key, value) in [("requests-per-second", per_second), ("burst", burst)] {
        let range = 1..=REQUESTS_MAX;
        ensure!(range.contains(&value), "access: {key} = {value}: write 1 to {REQUESTS_MAX}");
    }
    Ok(Some(RequestRate::new(per_second, burst, lengths)))
}

/// Returns the bandwidth that a rule limits, whose burst is a second's bytes by default.
fn bandwidth_of(rule: &file::AccessRule) -> anyhow::Result<Option<Bandwidth>> {
    let Some(bytes_per_second) = rule.bytes_per_second else {
        let burst = rule.burst_bytes.unwrap_or_default();
        let is_alone = rule.burst_bytes.is_some();
        ensure!(!is_alone, "access: burst-bytes = {burst} needs bytes-per-second; add that");
        return Ok(None);
    };
    let (least, most) = (BYTES_PER_SECOND.start(), BYTES_PER_SECOND.end());
    ensure!(
        BYTES_PER_SECOND.contains(&bytes_per_second),
        "access: bytes-per-second = {bytes_per_second}: write {least} to {most}"
    );
    let burst_bytes = rule.burst_bytes.unwrap_or(bytes_per_second);
    ensure!(
        (1..=*most).contains(&burst_bytes),
        "access: burst-bytes = {burst_bytes}: write 1 to {most}"
    );
    Ok(Some(Bandwidth::new(ByteRate { bytes_per_second, burst_bytes })))
}

/// Checks the realm of a rule, which is for passwords alone.
fn realm_of(realm: Option<&str>, is_asked: bool) -> anyhow::Result<&str> {
    let Some(realm) = realm else { return Ok(REALM) };
    ensure!(is_asked, "access: realm = '{realm}' is for basic-auth; add that, or leave it out");
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let is_valid = !realm.is_empty() && realm.bytes().all(is_plain);
    ensure!(is_valid, "access: realm = '{realm}': write printable ASCII without quotes");
    Ok(realm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("path = '/a'", "line 2, column 1: access: path = '/a' asks for nothing"),
            ("path = 'a/b'\ndeny = ['::/0']", "access: path = 'a/b': begin with /"),
            ("except = ['/[']\ndeny = ['::/0']", "access: except: path = '/['"),
            ("path = ''\ndeny = ['::/0']", "line 2, column 1: access: path = '': it is empty"),
            ("path = '/a'\nexcept = ['/b']\ndeny = ['::/0']", "access: except = '/b': path = '/a'"),
            ("deny = []", "access: deny = [] denies nobody"),
            ("burst = 5\ndeny = ['::/0']", "access: burst = 5 needs requests-per-second"),
            ("requests-per-second = 0", "access: requests-per-second = 0: write 1 to"),
            ("requests-per-second = 5\nburst = 0", "access: burst = 0: write 1 to"),
            ("burst-bytes = 5\ndeny = ['::/0']", "access: burst-bytes = 5 needs bytes-per-second"),
            (
                "bytes-per-second = 999",
                "access: bytes-per-second = 999: write 1000 to 1000000000000",
            ),
            ("bytes-per-second = 1000\nburst-bytes = 0", "access: burst-bytes = 0: write 1 to"),
            ("realm = 'x'\ndeny = ['::/0']", "access: realm = 'x' is for basic-auth"),
            ("realm = '\"'\nbasic-auth = '/x'", "access: realm = '\"'"),
            ("signed-url = '/nonexistent'", "access: cannot use signed-url: /nonexistent: No such"),
            ("basic-auth = '/nonexistent'", "access: cannot use basic-auth: /nonexistent: No such"),
            ("allow = ['example.org']", "access: allow: 'example.org' is no subnet"),
            ("deny = ['192.0.2.0/33']", "access: deny: '192.0.2.0/33' is no subnet"),
            ("deny = ['::ffff:192.0.2.0/120']", "write it as IPv4"),
            ("allow = ['192.0.2.7/24']", "access: allow: '192.0.2.7/24' is an address in"),
        ] {
            let error = new(toml).expect_err(toml);
            let error = format!("{error:#}");
            assert!(error.contains(named) && !error.contains('\n'), "{toml}: {error}");
        }
    }

    #[test]
    fn limiters_of_unchanged_rules_are_kept() {
        let rule = "requests-per-second = 5\nbytes-per-second = 5000\n";
        let read = |toml: &str, previous| {
            let (_dir, host) = host(toml);
            let lengths = PrefixLengths { v4: 24, v6: 48 };
            let mut resources = AccessResources::new(lengths, previous);
            let rules = AccessRules::new(&host, &mut resources).unwrap().unwrap();
            (rules.0, resources.into_limiters())
        };
        for (before, after, kept) in [
            (rule.to_owned(), rule.to_owned(), [true, true]),
            (rule.to_owned(), format!("{rule}deny = ['::/0']\n"), [true, true]),
            (rule.to_owned(), format!("{rule}burst = 9\n"), [false, true]),
            (rule.to_owned(), format!("{rule}burst-bytes = 9\n"), [true, false]),
            (rule.to_owned(), format!("{rule}path = '/a'\n"), [false; 2]),
            (rule.to_owned(), format!("{rule}except = ['/a']\n"), [false; 2]),
        ] {
            let (old, limiters) = read(&before, Arc::default());
            let (new, _) = read(&after, limiters);
            let rates = [&old, &new].map(|rules| rules[0].rate.as_ref().unwrap());
            let bandwidths = [&old, &new].map(|rules| rules[0].bandwidth.as_ref().unwrap());
            let found =
                [Arc::ptr_eq(rates[0], rates[1]), Arc::ptr_eq(bandwidths[0], bandwidths[1])];
            assert_eq!(found, kept, "{after}");
        }
        let twice = format!("{rule}[[host.access]]\n{rule}");
        let (old, limiters) = read(&twice, Arc::default());
        let (new, _) = read(&twice, limiters);
        let rate = |rules: &[PathAccess], at: usize| Arc::clone(rules[at].rate.as_ref().unwrap());
        for (one, other) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let is_same = Arc::ptr_eq(&rate(&old, one), &rate(&new, other));
            assert_eq!(is_same, one == other, "{one} {other}");
        }
    }

    /// Returns a host with one rule.
    fn host(toml: &str) -> (tempfile::TempDir, file::Host) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        std::fs::write(&file, format!("[[host]]\n[[host.access]]\n{toml}\n")).unwrap();
        let host = file::ConfigFile::read(&file).unwrap().default_host();
        (dir, host)
    }

    /// Returns the rules of a host with one rule.
    fn new(toml: &str) -> anyhow::Result<Option<AccessRules>> {
        let (_dir, host) = host(toml);
        let lengths = PrefixLengths { v4: 24, v6: 48 };
        let mut resources = AccessResources::new(lengths, Arc::default());
        AccessRules::new(&host, &mut resources)
    }
}
