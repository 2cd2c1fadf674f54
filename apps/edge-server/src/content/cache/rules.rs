//! Cache settings of the origins of a host.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use globset::Glob;
use globset::GlobMatcher;
use hyper::header::HeaderName;

use crate::config::file::CacheRule;
use crate::config::file::Host;
use crate::config::file::OriginRule;
use crate::content::path_pattern::PathPattern;
use crate::http::request::Request;

/// How long responses may be used if their origin cannot be reached, and nothing else is said.
const DISCONNECTED_TIME: Duration = Duration::from_secs(3600);

/// The longest time that a rule may name, in seconds.
const SECONDS_MAX: u32 = 365 * 24 * 3600;

/// Lengths that slices may have, in bytes.
const SLICE_BYTES: RangeInclusive<u64> = 64 << 10..=16 << 20;

/// Caches of a host, by the paths of its origins.
#[derive(Clone, Debug)]
pub struct PathCaches(Vec<PathCache>);

#[derive(Clone, Debug)]
struct PathCache {
    path: PathPattern,

    /// Absent if the origin's responses are not kept.
    settings: Option<Arc<CacheSettings>>,
}

/// How responses of an origin are kept.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Length of the longest response, in bytes, if it is not that of the cache.
    pub object_bytes_max: u64,

    /// Length of the slices in which long responses are kept, if they are.
    pub slice_bytes: Option<u64>,

    /// How long responses are fresh that do not say it, by status.
    pub lifetimes: BTreeMap<u16, Duration>,

    /// How long responses may be used stale that do not say it.
    pub stale_while_revalidate: Duration,
    pub stale_if_error: Option<Duration>,

    pub ignored_parameters: Vec<NamePattern>,
    pub bypass_cookies: Vec<NamePattern>,
    pub bypass_headers: Vec<Box<str>>,

    /// Whether responses with `Set-Cookie` are kept, too.
    pub keeps_set_cookie: bool,

    /// Whether `Cache-Control` of clients counts.
    pub heeds_clients: bool,
}

/// Pattern of names, in which `*` stands for anything.
#[derive(Clone, Debug)]
pub struct NamePattern(GlobMatcher);

impl PathCaches {
    /// Validates those of a host.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &Host) -> anyhow::Result<Self> {
        let cache = |rule: &OriginRule| -> anyhow::Result<PathCache> {
            let settings = rule.cache.as_ref().map(CacheSettings::new).transpose()?;
            let path = PathPattern::new("origin", &rule.path)?;
            Ok(PathCache { path, settings: settings.map(Arc::new) })
        };
        let rules = host.origin.iter().flatten();
        let caches = rules.map(|rule| cache(rule).context(rule.position));
        Ok(Self(caches.collect::<anyhow::Result<_>>()?))
    }

    /// Returns the settings for a decoded path, if its origin's responses are kept.
    pub fn find(&self, path: &str) -> Option<&Arc<CacheSettings>> {
        self.0.iter().find(|cache| cache.path.is_match(path))?.settings.as_ref()
    }
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            object_bytes_max: u64::MAX,
            slice_bytes: None,
            lifetimes: BTreeMap::new(),
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: None,
            ignored_parameters: Vec::new(),
            bypass_cookies: Vec::new(),
            bypass_headers: Vec::new(),
            keeps_set_cookie: false,
            heeds_clients: true,
        }
    }
}

impl CacheSettings {
    /// Validates those of a rule.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(rule: &CacheRule) -> anyhow::Result<Self> {
        let lifetime = |(name, seconds): (&String, &u32)| {
            let status: Option<u16> = name.parse().ok();
            let can_be_kept =
                |status: &u16| (200..600).contains(status) && ![206, 304].contains(status);
            let status = status.filter(can_be_kept).with_context(|| {
                format!("cache: ttl: {name}: write a status of whole responses, such as 404")
            })?;
            Ok((status, time("ttl", *seconds)?))
        };
        let lifetimes = rule.ttl.iter().flatten().map(lifetime);
        let stale = rule.stale_while_revalidate.unwrap_or_default();
        let if_error = rule.stale_if_error.map(|seconds| time("stale-if-error", seconds));
        let headers = rule.bypass_headers.iter().flatten();
        ensure!(
            rule.object_bytes_max != Some(0),
            "cache: object-bytes-max = 0 keeps nothing; raise it, or write cache = false"
        );
        Ok(Self {
            object_bytes_max: rule.object_bytes_max.unwrap_or(u64::MAX),
            slice_bytes: rule.slice_bytes.map(slice_bytes).transpose()?,
            lifetimes: lifetimes.collect::<anyhow::Result<_>>()?,
            stale_while_revalidate: time("stale-while-revalidate", stale)?,
            stale_if_error: if_error.transpose()?,
            ignored_parameters: patterns("ignore-query", rule.ignore_query.as_deref())?,
            bypass_cookies: patterns("bypass-cookies", rule.bypass_cookies.as_deref())?,
            bypass_headers: headers.map(|name| field_name(name)).collect::<anyhow::Result<_>>()?,
            keeps_set_cookie: rule.keep_set_cookie.unwrap_or_default(),
            heeds_clients: !rule.ignore_client_directives.unwrap_or_default(),
        })
    }

    /// Returns how long a response may be used stale if its origin fails, or cannot even be reached.
    pub fn stale_time(&self, is_disconnected: bool) -> Duration {
        let default = if is_disconnected { DISCONNECTED_TIME } else { Duration::ZERO };
        self.stale_if_error.unwrap_or(default)
    }

    /// Returns the part of a query that counts, which the origin gets, too.
    pub fn query<'a>(&self, query: &'a str) -> Cow<'a, str> {
        let Some(parameters) =
            query.strip_prefix('?').filter(|_| !self.ignored_parameters.is_empty())
        else {
            return query.into();
        };
        let is_ignored = |parameter: &&str| {
            let name = parameter.split('=').next().unwrap_or_default();
            self.ignored_parameters.iter().any(|pattern| pattern.0.is_match(name))
        };
        let kept: Vec<_> =
            parameters.split('&').filter(|parameter| !is_ignored(parameter)).collect();
        match kept.is_empty() {
            true => "".into(),
            false => format!("?{}", kept.join("&")).into(),
        }
    }

    /// Returns whether the cookies that matter are named: others are not of one user.
    pub fn names_cookies(&self) -> bool {
        !self.bypass_cookies.is_empty()
    }

    /// Returns whether a request goes to the origin, whatever is kept.
    pub fn bypasses(&self, request: &Request<'_>) -> bool {
        let is_named = |cookie: &str| {
            let name = cookie.split('=').next().unwrap_or_default().trim();
            self.bypass_cookies.iter().any(|own| own.0.is_match(name))
        };
        self.bypass_headers.iter().any(|name| request.raw_values(name).next().is_some())
            || !self.bypass_cookies.is_empty()
                && request.lossy_values("cookie").any(|line| line.split(';').any(is_named))
    }
}

fn slice_bytes(bytes: u64) -> anyhow::Result<u64> {
    ensure!(
        SLICE_BYTES.contains(&bytes),
        "cache: slice-bytes = {bytes}: write {} to {}",
        SLICE_BYTES.start(),
        SLICE_BYTES.end()
    );
    Ok(bytes)
}

fn patterns(key: &str, names: Option<&[String]>) -> anyhow::Result<Vec<NamePattern>> {
    let pattern = |name: &String| {
        let glob =
            Glob::new(name).ok().filter(|_| !name.is_empty() && !name.contains(['=', ';', '&']));
        let glob = glob.with_context(|| format!("cache: {key} = '{name}': write a name"))?;
        Ok(NamePattern(glob.compile_matcher()))
    };
    names.iter().copied().flatten().map(pattern).collect()
}

fn field_name(name: &str) -> anyhow::Result<Box<str>> {
    let valid = HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| !name.contains('*'));
    let valid = valid
        .with_context(|| format!("cache: bypass-headers = '{name}': write the name of a field"))?;
    Ok(valid.as_str().into())
}

fn time(key: &str, seconds: u32) -> anyhow::Result<Duration> {
    ensure!(seconds <= SECONDS_MAX, "cache: {key} = {seconds}: write 0 to {SECONDS_MAX} seconds");
    Ok(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3;

    fn settings(toml: &str) -> anyhow::Result<CacheSettings> {
        CacheSettings::new(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("ttl = { 404 = 10, 200 = 0 }\nstale-if-error = 0", None),
            ("ttl = { ok = 10 }", Some("cache: ttl: ok: write a status of whole responses")),
            ("ttl = { 100 = 10 }", Some("cache: ttl: 100: write a status of whole responses")),
            ("ttl = { 206 = 10 }", Some("cache: ttl: 206: write a status of whole responses")),
            ("bypass-cookies = ['a;b']", Some("cache: bypass-cookies = 'a;b': write a name")),
            ("ignore-query = ['']", Some("cache: ignore-query = '': write a name")),
            ("bypass-headers = ['X Y']", Some("cache: bypass-headers = 'X Y': write the name of")),
            ("bypass-headers = ['x-*']", Some("cache: bypass-headers = 'x-*': write the name of")),
            ("ttl = { 200 = 4000000000 }", Some("cache: ttl = 4000000000: write 0 to 31536000")),
            ("stale-if-error = 4000000000", Some("cache: stale-if-error = 4000000000: write 0")),
            ("object-bytes-max = 1", None),
            ("object-bytes-max = 0", Some("cache: object-bytes-max = 0 keeps nothing; raise it")),
            ("slice-bytes = 1048576", None),
            ("slice-bytes = 1", Some("cache: slice-bytes = 1: write 65536 to 16777216")),
            ("ignore-query = ['a[']", Some("cache: ignore-query = 'a[': write a name")),
        ] {
            let error = settings(toml).err().map(|e| format!("{e:#}"));
            let is_named =
                error.as_ref().zip(named).is_some_and(|(error, named)| error.starts_with(named));
            assert!(is_named || error.is_none() && named.is_none(), "{toml}: {error:?}");
        }
    }

    #[test]
    fn ignored_parameters_are_removed() {
        for (ignored, query, expected) in [
            ("[]", "?a=1&b=2", "?a=1&b=2"),
            ("['b']", "?a=1&b=2&bb=3", "?a=1&bb=3"),
            ("['utm_*', 'a']", "?utm_x=1&a&utm_y=2", ""),
            ("['*']", "?a=1", ""),
            ("['*']", "", ""),
        ] {
            let settings = settings(&format!("ignore-query = {ignored}")).unwrap();
            assert_eq!(settings.query(query), expected, "{ignored} {query}");
        }
    }

    #[test]
    fn request_with_named_cookie_or_field_bypasses() {
        let settings =
            settings("bypass-cookies = ['session*']\nbypass-headers = ['X-Preview']").unwrap();
        for (field, expected) in [
            (("cookie", &b"a=1; b=session"[..]), false),
            (("cookie", b"a=1; session_id=2"), true),
            (("cookie", b"a=\xe9; session_id=2"), true),
            (("x-preview", b""), true),
            (("x-preview", b"\xff"), true),
            (("x-other", b"x-preview"), false),
        ] {
            let start =
                [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
            let start = start.map(|(name, value)| (name, value.as_bytes()));
            let lines = start.into_iter().chain([field]);
            let lines = lines.map(|(name, value)| h3::Header::new(name.as_bytes(), value));
            let lines: Vec<_> = lines.collect();
            assert_eq!(settings.bypasses(&Request::read(&lines).unwrap()), expected, "{field:?}");
        }
    }
}
