//! Configuration file (TOML): options and virtual hosts. An unknown key is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::bail;
use anyhow::Context;
use path_store::small_file;
use serde::de::value::MapAccessDeserializer;
use serde::de::IgnoredAny;
use serde::de::MapAccess;
use serde::de::Visitor;
use serde::Deserialize;
use serde::Deserializer;
use toml::de::DeTable;
use toml::Spanned;
use toml::Value;

use crate::config::acme;
use crate::config::controller::CongestionController;
use crate::config::file_errors::in_our_words;
use crate::config::options::Setting;
use crate::config::position::Position;
use crate::config::quic_lb;
use crate::config::quic_lb::QuicLbConfig;

/// Parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// Options of the command line.
    pub server: Vec<Setting>,

    /// Configurations of QUIC-LB; new connection IDs are of the first.
    pub quic_lb: Vec<QuicLbConfig>,

    /// Hosts; at most one has no names and is the default.
    pub hosts: Vec<Host>,
}

/// Top-level tables of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    server: BTreeMap<Spanned<String>, Spanned<Value>>,

    #[serde(default, rename = "quic-lb")]
    quic_lb: Vec<QuicLbConfig>,

    #[serde(default, rename = "host")]
    hosts: Vec<Host>,
}

/// Virtual host. A missing key has the value of the host without names, or a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Host {
    #[serde(default, deserialize_with = "at_least_one")]
    pub names: Vec<String>,

    /// Folder to serve; the default is `--root`.
    pub root: Option<PathBuf>,

    /// Certificate chains and their keys, one or several; the defaults are `--cert` and `--key`.
    #[serde(default, deserialize_with = "one_or_several")]
    pub cert: Vec<PathBuf>,
    #[serde(default, deserialize_with = "one_or_several")]
    pub key: Vec<PathBuf>,

    /// Whether the certificate comes by ACME, in place of `cert` and `key`.
    #[serde(default)]
    pub acme: bool,

    /// Congestion controller of connections to the host; the default is that of the listener.
    pub cc: Option<CongestionController>,

    /// Index files of a folder; the first that exists is served.
    pub index: Option<Vec<String>>,

    /// Files to serve in place of one that does not exist; the first that exists is served.
    #[serde(rename = "try-files")]
    pub try_files: Option<Vec<String>>,

    /// Whether a file's `.br`, `.zst` and `.gz` siblings are served to clients that accept them.
    pub precompressed: Option<bool>,

    /// Whether files without such a sibling are compressed.
    pub compress: Option<bool>,

    /// Content types that are, and least and largest lengths of files, in bytes.
    #[serde(rename = "compress-types")]
    pub compress_types: Option<Vec<String>>,
    #[serde(rename = "compress-bytes-min")]
    pub compress_bytes_min: Option<u64>,
    #[serde(rename = "compress-bytes-max")]
    pub compress_bytes_max: Option<u64>,

    /// Whether responses to the host's own pages have a `Server-Timing` field.
    #[serde(rename = "server-timing")]
    pub server_timing: Option<bool>,

    /// Charset of text; an empty one is not sent.
    pub charset: Option<String>,

    /// Content types by file extension.
    pub mime: Option<BTreeMap<String, String>>,

    /// Error pages by status.
    pub error: Option<BTreeMap<String, String>>,

    pub access: Option<Vec<AccessRule>>,
    pub cors: Option<Vec<CorsRule>>,
    pub header: Option<Vec<HeaderRule>>,
    pub redirect: Option<Vec<Redirect>>,

    #[serde(rename = "early-hints")]
    pub early_hints: Option<Vec<EarlyHintsRule>>,

    pub origin: Option<Vec<OriginRule>>,

    #[serde(skip)]
    pub position: Position,
}

/// Places of configurations, and of the hosts and their rules.
#[derive(Deserialize)]
struct Spans {
    #[serde(default, rename = "quic-lb")]
    quic_lb: Vec<Spanned<IgnoredAny>>,

    #[serde(default, rename = "host")]
    hosts: Vec<Spanned<HostSpans>>,
}

#[derive(Deserialize)]
struct HostSpans {
    #[serde(default)]
    access: Vec<Spanned<IgnoredAny>>,
    #[serde(default)]
    cors: Vec<Spanned<IgnoredAny>>,
    #[serde(default)]
    header: Vec<Spanned<IgnoredAny>>,
    #[serde(default)]
    redirect: Vec<Spanned<IgnoredAny>>,
    #[serde(default, rename = "early-hints")]
    early_hints: Vec<Spanned<IgnoredAny>>,
    #[serde(default)]
    origin: Vec<Spanned<IgnoredAny>>,
}

/// What clients must be, or bring, to get the paths that a pattern matches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    #[serde(default = "all_paths")]
    pub path: String,

    /// Patterns of paths that the rule is not for.
    #[serde(default)]
    pub except: Vec<String>,

    /// Subnets of clients: those that get the paths, and those that do not.
    pub allow: Option<Vec<String>>,
    pub deny: Option<Vec<String>>,

    /// File of users and hashes of their passwords, and what browsers call the place.
    #[serde(rename = "basic-auth")]
    pub basic_auth: Option<PathBuf>,
    pub realm: Option<String>,

    /// File of the secrets that sign URLs.
    #[serde(rename = "signed-url")]
    pub signed_url: Option<PathBuf>,

    /// Requests in a second of a client subnet, and how many may come at once.
    #[serde(rename = "requests-per-second")]
    pub requests_per_second: Option<u32>,
    pub burst: Option<u32>,

    /// Bytes of responses in a second of a client, and how many may go at once.
    #[serde(rename = "bytes-per-second")]
    pub bytes_per_second: Option<u64>,
    #[serde(rename = "burst-bytes")]
    pub burst_bytes: Option<u64>,

    #[serde(skip)]
    pub position: Position,
}

/// Web pages of other origins that may read responses for the paths that a pattern matches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CorsRule {
    #[serde(default = "all_paths")]
    pub path: String,

    /// Origins, or `*` alone for all.
    pub origins: Vec<String>,

    /// Methods and request fields that pages may use, besides those that need no permission.
    #[serde(default = "reading_methods")]
    pub methods: Vec<String>,
    #[serde(default)]
    pub headers: Vec<String>,

    /// Response fields that pages may read, besides those that need no permission.
    #[serde(default)]
    pub expose: Vec<String>,

    /// How long browsers may remember the permission, in seconds.
    #[serde(rename = "max-age")]
    pub max_age: Option<u32>,

    /// Whether pages may send credentials.
    #[serde(default)]
    pub credentials: bool,

    #[serde(skip)]
    pub position: Position,
}

/// Response fields for the files that a pattern matches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    pub path: String,

    /// Fields in place of those that earlier rules set, and beside them.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    #[serde(default)]
    pub add: BTreeMap<String, String>,

    /// Fields of earlier rules to leave out.
    #[serde(default)]
    pub unset: Vec<String>,

    /// Whether the rule applies to redirects, errors and everything else, too.
    #[serde(default)]
    pub always: bool,

    #[serde(skip)]
    pub position: Position,
}

/// Redirect from one path, or all paths below it, to another URL.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    pub from: String,
    pub to: String,
    #[serde(default = "permanent")]
    pub status: u16,

    #[serde(skip)]
    pub position: Position,
}

/// Links to what the pages need that a pattern matches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct EarlyHintsRule {
    pub path: String,

    /// Values of `link` fields.
    pub links: Vec<String>,

    #[serde(skip)]
    pub position: Position,
}

/// Server that has the paths that a pattern matches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct OriginRule {
    #[serde(default = "all_paths")]
    pub path: String,

    /// Its upstreams, each of which has all of the paths.
    #[serde(deserialize_with = "one_url_or_several")]
    pub url: Vec<String>,

    /// How requests are spread among them.
    #[serde(default)]
    pub balance: OriginBalance,

    /// Failures in a while after which an upstream gets no requests.
    #[serde(rename = "failures-max")]
    pub failures_max: Option<u32>,

    /// Path that healthy upstreams have, and how often it is asked for, in seconds.
    #[serde(rename = "health-path")]
    pub health_path: Option<String>,
    #[serde(rename = "health-interval")]
    pub health_interval: Option<u32>,

    #[serde(default, rename = "http-version")]
    pub http_version: OriginHttpVersion,

    /// File of the authorities that its certificate may be of; the default is those of the system.
    pub ca: Option<PathBuf>,

    /// How long it may take to connect, to respond, and for more of a response, in seconds.
    #[serde(rename = "connect-timeout")]
    pub connect_timeout: Option<u32>,
    #[serde(rename = "header-timeout")]
    pub header_timeout: Option<u32>,
    #[serde(rename = "body-timeout")]
    pub body_timeout: Option<u32>,

    /// The most bytes of a request's content.
    #[serde(rename = "content-bytes-max")]
    pub content_bytes_max: Option<u64>,

    /// Requests that it may have at a time.
    #[serde(rename = "requests-max")]
    pub requests_max: Option<u32>,

    /// How its responses are kept; they are not by default.
    #[serde(default, deserialize_with = "on_or_rule")]
    pub cache: Option<CacheRule>,

    #[serde(skip)]
    pub position: Position,
}

/// How requests are spread among the upstreams of an origin.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OriginBalance {
    /// To the one that has the fewest.
    #[default]
    LeastConnections,

    /// Those for a path to the same one.
    ConsistentHash,
}

/// Version of HTTP that an origin is spoken to in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "VersionName")]
pub enum OriginHttpVersion {
    /// The later one of those that it has, by ALPN; without TLS 1.1.
    #[default]
    Auto,
    Http11,

    /// Without TLS by prior knowledge.
    Http2,
}

/// Name of a version, which people write as a number, too.
#[derive(Deserialize)]
#[serde(untagged)]
enum VersionName {
    Text(String),
    Whole(i64),
    Decimal(f64),
}

impl TryFrom<VersionName> for OriginHttpVersion {
    type Error = String;

    fn try_from(name: VersionName) -> Result<Self, String> {
        let name = match name {
            VersionName::Text(name) => name,
            VersionName::Whole(number) => number.to_string(),
            VersionName::Decimal(number) => number.to_string(),
        };
        match name.as_str() {
            "auto" => Ok(Self::Auto),
            "1.1" => Ok(Self::Http11),
            "2" => Ok(Self::Http2),
            _ => Err(format!("http-version = '{name}': write 'auto', '1.1' or '2'")),
        }
    }
}

/// How responses of an origin are kept.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CacheRule {
    /// The most bytes of a response.
    #[serde(rename = "object-bytes-max")]
    pub object_bytes_max: Option<u64>,

    /// Length of the slices in which long responses are kept, in bytes.
    #[serde(rename = "slice-bytes")]
    pub slice_bytes: Option<u64>,

    /// How long responses are fresh that do not say it, in seconds, by status.
    pub ttl: Option<BTreeMap<String, u32>>,

    /// How long responses may be used stale that do not say it, in seconds: while they are fetched
    /// again, and if the origin fails.
    #[serde(rename = "stale-while-revalidate")]
    pub stale_while_revalidate: Option<u32>,
    #[serde(rename = "stale-if-error")]
    pub stale_if_error: Option<u32>,

    /// Parameters of the query that the origin does not get.
    #[serde(rename = "ignore-query")]
    pub ignore_query: Option<Vec<String>>,

    /// Cookies and fields with which requests go to the origin.
    #[serde(rename = "bypass-cookies")]
    pub bypass_cookies: Option<Vec<String>>,
    #[serde(rename = "bypass-headers")]
    pub bypass_headers: Option<Vec<String>>,

    /// Whether responses with `Set-Cookie` are kept, too.
    #[serde(rename = "keep-set-cookie")]
    pub keep_set_cookie: Option<bool>,

    /// Whether what clients say of caching counts for nothing.
    #[serde(rename = "ignore-client-directives")]
    pub ignore_client_directives: Option<bool>,
}

fn all_paths() -> String {
    "**".to_owned()
}

fn reading_methods() -> Vec<String> {
    vec!["GET".to_owned(), "HEAD".to_owned()]
}

fn permanent() -> u16 {
    308
}

impl ConfigFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// One line that names the file, the line and the key.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = small_file::read_text(path)
            .with_context(|| format!("cannot read --config {shown}; name a readable TOML file"))?;
        Self::parse(&text).with_context(|| format!("--config {shown}"))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let tables: Tables = toml::from_str(text).map_err(|error| explained(text, &error))?;
        let Tables { server, mut quic_lb, mut hosts } = tables;
        let spans: Spans = toml::from_str(text).map_err(|error| explained(text, &error))?;
        for (host, spans) in hosts.iter_mut().zip(spans.hosts) {
            host.locate(text, spans);
        }
        for (config, span) in quic_lb.iter_mut().zip(spans.quic_lb) {
            config.position = Position::of(text, span.span().start);
        }
        quic_lb::check(&quic_lb).map_err(anyhow::Error::msg)?;
        let setting = |(name, value): (Spanned<String>, Spanned<Value>)| Setting {
            position: Position::of(text, name.span().start),
            name: name.into_inner(),
            value: value.into_inner(),
        };
        let file = Self { server: server.into_iter().map(setting).collect(), quic_lb, hosts };
        if let Some(second) = file.hosts.iter().filter(|host| host.names.is_empty()).nth(1) {
            bail!("{second}: more than one [[host]] has no names; give names to all but one");
        }
        for host in &file.hosts {
            let pair = host.cert.is_empty() == host.key.is_empty();
            anyhow::ensure!(pair, "{host}: cert and key go together; set both or neither");
            host.check_acme().map_err(|why| anyhow::anyhow!("{host}: {why}"))?;
        }
        Ok(file)
    }

    /// Returns the host without names, which serves all other names.
    pub fn default_host(&self) -> Host {
        self.hosts.iter().find(|host| host.names.is_empty()).cloned().unwrap_or_default()
    }

    /// Returns the hosts with names, completed with the values of the host without.
    pub fn named(&self) -> impl Iterator<Item = Host> + '_ {
        let default_host = self.default_host();
        self.named_alone().map(move |host| host.clone().or(&default_host))
    }

    /// Returns the hosts with names, with their own values alone.
    pub fn named_alone(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| !host.names.is_empty())
    }
}

/// Reads the names of a host: without any it would serve all other names.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::deserialize(deserializer)?;
    match names.is_empty() {
        true => Err(serde::de::Error::custom(
            "names: the list is empty; write a name, or leave the key out to serve all other names",
        )),
        false => Ok(names),
    }
}

/// Reads a URL, or a list of them.
fn one_url_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "write a URL, or a list of URLs")]
    enum OneOrSeveralUrls {
        One(String),
        Several(Vec<String>),
    }
    match OneOrSeveralUrls::deserialize(deserializer)? {
        OneOrSeveralUrls::One(url) => Ok(vec![url]),
        OneOrSeveralUrls::Several(urls) if urls.is_empty() => {
            Err(serde::de::Error::custom("url: the list is empty; write http://host:port"))
        }
        OneOrSeveralUrls::Several(urls) => Ok(urls),
    }
}

/// Reads a path, or a list of them.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "write a path, or a list of paths")]
    enum OneOrSeveral {
        One(PathBuf),
        Several(Vec<PathBuf>),
    }
    match OneOrSeveral::deserialize(deserializer)? {
        OneOrSeveral::One(path) => Ok(vec![path]),
        OneOrSeveral::Several(paths) if paths.is_empty() => {
            Err(serde::de::Error::custom("the list is empty; name a file, or leave the key out"))
        }
        OneOrSeveral::Several(paths) => Ok(paths),
    }
}

/// Reads `true` or a table of keys.
fn on_or_rule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CacheRule>, D::Error> {
    struct OnOrRule;

    impl<'de> Visitor<'de> for OnOrRule {
        type Value = Option<CacheRule>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, or a table below a line [host.origin.cache]")
        }

        fn visit_bool<E>(self, is_on: bool) -> Result<Self::Value, E> {
            Ok(is_on.then(CacheRule::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            CacheRule::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    deserializer.deserialize_any(OnOrRule)
}

impl Host {
    /// Notes where the host and its rules are.
    fn locate(&mut self, text: &str, spans: Spanned<HostSpans>) {
        self.position = Position::of(text, spans.span().start);
        let HostSpans { access, cors, header, redirect, early_hints, origin } = spans.into_inner();
        for (rule, span) in self.origin.iter_mut().flatten().zip(origin) {
            rule.position = Position::of(text, span.span().start);
        }
        for (rule, span) in self.early_hints.iter_mut().flatten().zip(early_hints) {
            rule.position = Position::of(text, span.span().start);
        }
        for (rule, span) in self.cors.iter_mut().flatten().zip(cors) {
            rule.position = Position::of(text, span.span().start);
        }
        for (rule, span) in self.access.iter_mut().flatten().zip(access) {
            rule.position = Position::of(text, span.span().start);
        }
        for (rule, span) in self.header.iter_mut().flatten().zip(header) {
            rule.position = Position::of(text, span.span().start);
        }
        for (rule, span) in self.redirect.iter_mut().flatten().zip(redirect) {
            rule.position = Position::of(text, span.span().start);
        }
    }

    /// Returns the first of its names, for messages.
    pub fn first_name(&self) -> &str {
        self.names.first().map_or("without names", String::as_str)
    }

    /// Returns the files that are read for the host, with the keys that name them.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let certs = self.cert.iter().map(|path| ("cert", path));
        let keys = self.key.iter().map(|path| ("key", path));
        let rules = || self.access.iter().flatten();
        let users = rules().filter_map(|rule| Some(("basic-auth", rule.basic_auth.as_ref()?)));
        let secrets = rules().filter_map(|rule| Some(("signed-url", rule.signed_url.as_ref()?)));
        let origins = self.origin.iter().flatten();
        let authorities = origins.filter_map(|rule| Some(("ca", rule.ca.as_ref()?)));
        let all = certs.chain(keys).chain(users).chain(secrets).chain(authorities);
        all.map(|(key, path)| (key, path.as_path()))
    }

    fn check_acme(&self) -> Result<(), String> {
        if !self.acme {
            return Ok(());
        }
        if !self.cert.is_empty() {
            return Err("acme = true is in place of cert and key; set one or the other".into());
        }
        if self.names.is_empty() {
            return Err("acme = true needs names, which the certificate is for".into());
        }
        self.names.iter().try_for_each(|name| acme::check_name(name))
    }

    /// Returns the host with missing values taken from `other`.
    fn or(self, other: &Self) -> Self {
        let pair = match self.cert.is_empty() && !self.acme {
            true => (other.cert.clone(), other.key.clone()),
            false => (self.cert, self.key),
        };
        Self {
            names: self.names,
            root: self.root.or_else(|| other.root.clone()),
            cert: pair.0,
            key: pair.1,
            acme: self.acme,
            cc: self.cc.or(other.cc),
            index: self.index.or_else(|| other.index.clone()),
            try_files: self.try_files.or_else(|| other.try_files.clone()),
            precompressed: self.precompressed.or(other.precompressed),
            compress: self.compress.or(other.compress),
            compress_types: self.compress_types.or_else(|| other.compress_types.clone()),
            compress_bytes_min: self.compress_bytes_min.or(other.compress_bytes_min),
            compress_bytes_max: self.compress_bytes_max.or(other.compress_bytes_max),
            server_timing: self.server_timing.or(other.server_timing),
            charset: self.charset.or_else(|| other.charset.clone()),
            mime: self.mime.or_else(|| other.mime.clone()),
            error: self.error.or_else(|| other.error.clone()),
            cors: self.cors.or_else(|| other.cors.clone()),
            access: joined(other.access.clone(), self.access),
            header: joined(other.header.clone(), self.header),
            redirect: self.redirect.or_else(|| other.redirect.clone()),
            early_hints: joined(other.early_hints.clone(), self.early_hints),
            origin: self.origin.or_else(|| other.origin.clone()),
            position: self.position,
        }
    }
}

/// Formats the host's name for messages.
impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[[host]] {}, {}", self.first_name(), self.position)
    }
}

/// Returns the rules of both, one after the other.
fn joined<T>(first: Option<Vec<T>>, second: Option<Vec<T>>) -> Option<Vec<T>> {
    match (first, second) {
        (None, rules) | (rules, None) => rules,
        (Some(mut first), Some(second)) => {
            first.extend(second);
            Some(first)
        }
    }
}

/// Returns an error as one line with the position, the host at fault and the key.
fn explained(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let reason = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(span) = error.span() else { return anyhow::anyhow!("{reason}") };
    let reason = in_our_words(&reason, text, span.clone());
    let position = Position::of(text, span.start);
    match host_at(text, span.start) {
        Some(host) => anyhow::anyhow!("{position}: [[host]] {host}: {reason}"),
        None => anyhow::anyhow!("{position}: {reason}"),
    }
}

/// Returns the first name of the host that a place in the file belongs to.
fn host_at(text: &str, offset: usize) -> Option<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let hosts = table.get_ref().get("host")?.get_ref().as_array()?;
    let host = hosts.iter().rfind(|host| host.span().start <= offset)?;
    let next_table = text[host.span().start..offset].lines().skip(1);
    let is_other = |line: &str| {
        let line = line.trim_start();
        line.starts_with('[') && !line.starts_with("[[host.") && !line.starts_with("[host.")
    };
    if next_table.clone().any(is_other) {
        return None;
    }
    let names =
        host.get_ref().as_table()?.get("names").and_then(|names| names.get_ref().as_array());
    let name = names.and_then(|names| names.first()?.get_ref().as_str().map(str::to_owned));
    Some(name.map_or_else(|| "without names".to_owned(), |name| name.escape_default().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_parsed() {
        let file = ConfigFile::parse(
            r#"
            [[host]]
            index = ["index.html", "index.htm"]
            try-files = ["{path}.html", "/index.html"]
            precompressed = false
            compress = false
            compress-types = ["default", "model/stl"]
            compress-bytes-min = 100
            compress-bytes-max = 2000
            server-timing = true
            charset = ""
            cert = "all.pem"
            key = "all.key"
            cc = "bbr2"
            mime = { m3u8 = "application/vnd.apple.mpegurl" }
            error = { 404 = "/404.html" }

            [[host.access]]
            path = "/private/**"
            except = ["/private/logo.svg"]
            allow = ["192.0.2.0/24"]
            deny = ["192.0.2.7"]

            [[host.cors]]
            path = "/fonts/**"
            origins = ["https://www.example.com"]

            [[host.header]]
            path = "/assets/**"
            set = { cache-control = "max-age=31536000, immutable" }

            [[host.redirect]]
            from = "/old/*"
            to = "/new/*"
            status = 301

            [[host.origin]]
            path = "/api/**"
            url = ["https://127.0.0.1:8443", "https://127.0.0.1:8444"]
            balance = "consistent-hash"
            failures-max = 6
            health-path = "/health"
            health-interval = 7
            http-version = "2"
            ca = "/ca.pem"
            connect-timeout = 1
            header-timeout = 2
            body-timeout = 3
            requests-max = 4
            content-bytes-max = 5

            [[host]]
            names = ["www.example.org"]
            root = "/srv/example"
            charset = "latin1"
            "#,
        )
        .unwrap();
        let default_host = file.default_host();
        assert_eq!(default_host.index.as_ref().map(Vec::len), Some(2));
        assert_eq!(default_host.redirect.as_ref().unwrap()[0].status, 301);

        let named = file.named().next().unwrap();
        assert_eq!(named.names, ["www.example.org"]);
        assert_eq!(
            (named.root, named.charset),
            (Some("/srv/example".into()), Some("latin1".into()))
        );
        assert_eq!((named.cert, named.key), (default_host.cert, default_host.key));
        assert_eq!(
            (named.index, named.precompressed),
            (default_host.index, default_host.precompressed)
        );
        assert_eq!(default_host.compress_types.as_ref().map(Vec::len), Some(2));
        assert_eq!((default_host.compress, named.compress), (Some(false), Some(false)));
        assert_eq!(named.compress_types, default_host.compress_types);
        let lengths = (named.compress_bytes_min, named.compress_bytes_max);
        assert_eq!(lengths, (Some(100), Some(2000)));
        assert_eq!(default_host.try_files.as_ref().map(Vec::len), Some(2));
        assert_eq!(named.try_files, default_host.try_files);
        assert_eq!(default_host.cc, Some(CongestionController::Bbr2));
        assert_eq!(named.cc, default_host.cc);
        assert_eq!((default_host.server_timing, named.server_timing), (Some(true), Some(true)));
        assert_eq!((named.mime, named.error), (default_host.mime, default_host.error));
        let access = &default_host.access.as_ref().unwrap()[0];
        assert_eq!((access.except.len(), access.allow.is_some()), (1, true));
        assert_eq!(access.position.to_string(), "line 18, column 13");
        assert_eq!(named.access, default_host.access);
        let cors = &default_host.cors.as_ref().unwrap()[0];
        assert_eq!((cors.methods.join(" "), cors.credentials), ("GET HEAD".to_owned(), false));
        assert_eq!(cors.position.to_string(), "line 24, column 13");
        assert_eq!(named.cors, default_host.cors);
        assert_eq!((named.header, named.redirect), (default_host.header, default_host.redirect));
        let origin = &default_host.origin.as_ref().unwrap()[0];
        let times = [origin.connect_timeout, origin.header_timeout, origin.body_timeout];
        assert_eq!((times, origin.requests_max), ([1, 2, 3].map(Some), Some(4)));
        assert_eq!(origin.content_bytes_max, Some(5));
        assert_eq!(origin.url, ["https://127.0.0.1:8443", "https://127.0.0.1:8444"]);
        assert_eq!(origin.balance, OriginBalance::ConsistentHash);
        assert_eq!(origin.http_version, OriginHttpVersion::Http2);
        let health = (origin.failures_max, origin.health_path.as_deref(), origin.health_interval);
        assert_eq!(health, (Some(6), Some("/health"), Some(7)));
        assert_eq!(origin.ca.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(origin.position.to_string(), "line 37, column 13");
        assert_eq!(named.origin, default_host.origin);
    }

    #[test]
    fn access_rules_of_named_host_are_beside_those_of_default_host() {
        let rule = |path: &str| format!("[[host.access]]\npath = '{path}'\ndeny = ['::/0']\n");
        let text = format!("[[host]]\n{}[[host]]\nnames = ['a']\n{}", rule("/a"), rule("/b"));
        let host = ConfigFile::parse(&text).unwrap().named().next().unwrap();
        let paths: Vec<_> = host.access.iter().flatten().map(|rule| rule.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b"]);
        let all = ConfigFile::parse("[[host]]\naccess = [{ deny = ['::/0'] }]").unwrap();
        assert_eq!(all.default_host().access.unwrap()[0].path, "**");
    }

    #[test]
    fn header_rules_of_named_host_follow_those_of_default_host() {
        let rule = |name: &str| format!("[[host.header]]\npath = '**'\nset = {{ {name} = '1' }}\n");
        let text = format!("[[host]]\n{}[[host]]\nnames = ['a']\n{}", rule("hsts"), rule("own"));
        let host = ConfigFile::parse(&text).unwrap().named().next().unwrap();
        let header = host.header.unwrap();
        let names: Vec<_> = header.iter().flat_map(|rule| rule.set.keys()).collect();
        assert_eq!(names, ["hsts", "own"]);
        let positions = [&header[0], &header[1]].map(|rule| rule.position.to_string());
        assert_eq!(positions, ["line 2, column 1", "line 7, column 1"]);
    }

    #[test]
    fn host_with_acme_has_no_certificate_of_the_host_without_names() {
        let text = "[[host]]\ncert = 'c'\nkey = 'k'\n[[host]]\nnames = ['a']\nacme = true\n\
                    [[host]]\nnames = ['b']";
        let file = ConfigFile::parse(text).unwrap();
        let of = |host: Host| (host.acme, !host.cert.is_empty(), !host.key.is_empty());
        let hosts: Vec<_> = file.named().map(of).collect();
        assert_eq!(hosts, [(true, false, false), (false, true, true)]);
    }

    #[test]
    fn redirect_defaults_to_permanent() {
        assert_eq!(ConfigFile::parse("").unwrap(), ConfigFile::default());
        let file = ConfigFile::parse("[[host]]\nredirect = [{ from = \"/a\", to = \"/b\" }]");
        assert_eq!(file.unwrap().default_host().redirect.unwrap()[0].status, 308);
    }

    #[test]
    fn error_names_key_and_line() {
        let table = [
            ("hosts = 1", &["line 1, column 1: ", "hosts"][..]),
            ("listen = '[::]:443'", &["line 1, column 1: ", "listen", "below a line [server]"]),
            ("[[host]]\n\nindx = []", &["line 3, column 1: [[host]] without names: ", "indx"]),
            (
                "[[host]]\nindex = 5",
                &["line 2, column 9: [[host]] without names: index: write a list"],
            ),
            ("[[host]]\ncert = []\nkey = []", &["line 2, column 8: ", "the list is empty; name a"]),
            ("[[host]]\nnames = []", &["line 2, column 9: ", "names: the list is empty; write a"]),
            ("[[host]]\nnames = 'a'", &["line 2, column 9: ", "names: write a list"]),
            (
                "[[host.access]]\ndeny = []",
                &["line 1, column 3: [[host.access]]: write a line [[host]] above it"],
            ),
            (
                "[server]\n[[host.cors]]\n\n[[host]]\nnames = ['a']",
                &["line 4, column 3: ", "[[host.cors]]: write a line [[host]] above it"],
            ),
            (
                "[[host]]\n[[host.cors]]\npath = '/a'",
                &["line 2, column 1: [[host]] without names: origins is missing; add it"],
            ),
            (
                "[[host]]\n[[host.origin]]\npath = '/a'",
                &["line 2, column 1: [[host]] without names: url is missing; add it"],
            ),
            (
                "[[host]]\n[[host.origin]]\nurl = 1",
                &["line 3, column 7: [[host]] without names: write a URL, or a list of URLs"],
            ),
            (
                "[[host]]\n[[host.origin]]\nurl = []",
                &["line 3, column 7: [[host]] without names: url: the list is empty; write http://host:port"],
            ),
            (
                "[[host]]\n[[host.origin]]\nurl = 'http://a'\nbalance = 'x'",
                &["line 4, column 11", "balance", "least-connections", "consistent-hash"],
            ),
            (
                "[[host]]\norigin = 'http://a'",
                &["origin: write tables, each below a line [[host.origin]]"],
            ),
            (
                "[[host]]\nnames = ['a']\ncc = 'bbr3'",
                &["line 3, column 6: [[host]] a: cc = 'bbr3': use cubic, reno or bbr2"],
            ),
            (
                "[[host]]\nnames = ['b']\n[[host.header]]\npath = \"x\"\n sets = {}",
                &["line 5, column 2: [[host]] b: ", "sets"],
            ),
            (
                "[[host]]\nnames = ['a']\n[[host]]\nnames = ['b', 'c']\nindex = ['']\nindex = ['']",
                &["line 6, column 1: [[host]] b: duplicate key 'index'"],
            ),
            (
                "[[host]]\nnames = ['a']\n[server]\nx = 1\nx = 2",
                &["line 5, column 1: duplicate key 'x'"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 7",
                &["line 2, column 13: config-id = 7: write a number from 0 to 6"],
            ),
            (
                "[[host]]\nnames = ['a']\n[[quic-lb]]\nconfig-id = 'a'",
                &["line 4, column 13: config-id: write a whole number"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0g'",
                &["line 3, column 13: server-id = '0g': write 1 to 10 octets as pairs"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'",
                &["line 1, column 1: nonce-length is missing; add it"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 4",
                &["line 4, column 16: nonce-length = 4: use 8 or more, of which two octets name"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 18",
                &["line 4, column 16: nonce-length = 18: use 17 at most"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a02'\nnonce-length = 17",
                &["[[quic-lb]], line 1, column 1: server-id has 2 octets and nonce-length is 17; shorten"],
            ),
            (
                "quic-lb = [{ config-id = 0, server-id = '01', nonce-length = 8 },\n\
                 { config-id = 0, server-id = '02', nonce-length = 8 }]",
                &["[[quic-lb]], line 2, column 1: config-id 0 is that of [[quic-lb]], line 1, column 12, \
                   too; give each its own"],
            ),
            (
                "quic-lb = [{ config-id = 0, server-id = '01', nonce-length = 8, key = 'k' },\n\
                 { config-id = 1, server-id = '01', nonce-length = 8 }]",
                &["[[quic-lb]], line 2, column 1: server-id '01' is that of", "one of them has no key; use another"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 8\nnodes = { 0b = 'b' }",
                &["line 5, column 16: nodes: 'b': write ADDR:PORT, such as"],
            ),
            (
                "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 8\n\
                 nodes = { 0b01 = '[::1]:1' }",
                &["[[quic-lb]], line 1, column 1: nodes: '0b01' has another length than server-id; all have 1"],
            ),
            ("[quic-lb]\nconfig-id = 0", &["line 1, column 1: [quic-lb]: write it in double brackets"]),
            ("[[quic-lb]]\nserver = '0a'", &["there is no key 'server'; use config-id, server-id"]),
            ("[[host]\n", &["line 1"]),
            ("[[host]]\n[[host]]\n", &["[[host]] without names, line 2, column 1: more than one"]),
            (
                "\n[[host]]\nnames = [\"a\"]\ncert = \"c\"",
                &["[[host]] a, line 2, column 1: cert and key"],
            ),
            ("[[host]]\nkey = \"c\"", &["without names", "cert and key"]),
            (
                "[[host]]\nnames = ['a']\nacme = true\ncert = 'c'\nkey = 'k'",
                &["[[host]] a, line 1, column 1: acme = true is in place of cert and key; set one"],
            ),
            ("[[host]]\nacme = true", &["[[host]] without names", "acme = true needs names"]),
            (
                "[[host]]\nnames = ['a', '*.a']\nacme = true",
                &["[[host]] a", "the wildcard '*.a'; list the names, or set cert and key"],
            ),
            ("[[host]]\nnames = ['::1']\nacme = true", &["'::1' is an address; set cert and key"]),
            ("[[host]]\nnames = ['a/b']\nacme = true", &["'a/b' is not a host name"]),
            ("[[host]]\nnames = ['a']\nacme = 'yes'", &["line 3, column 8: [[host]] a: "]),
        ];
        for (text, named) in table {
            let error = format!("{:#}", ConfigFile::parse(text).unwrap_err());
            assert!(!error.contains('\n'), "{error}");
            assert!(named.iter().all(|name| error.contains(name)), "{text}: {error}");
        }
    }
}
