//! Rules of a virtual host: index files, header fields by pattern, redirects, error pages and
//! content types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::Path;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use percent_encoding::utf8_percent_encode;
use percent_encoding::AsciiSet;
use percent_encoding::CONTROLS;

use crate::config::file;
use crate::config::file::Host;
use crate::config::position::Position;
use crate::content::compression::policy::CompressionPolicy;
use crate::content::media_types;
use crate::content::path_pattern::never_matches;
use crate::content::path_pattern::PathPattern;
use crate::content::try_files::TryFiles;
use crate::content::url_path::UrlPath;
use crate::http::response::Field;

/// Characters that are percent-encoded in the path of a `location` field (RFC 3986, 3.3).
const PATH_ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Fields that the server sets itself, and those that HTTP/3 forbids.
const RESERVED_FIELDS: [&str; 16] = [
    "accept-ranges",
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Statuses that a redirect may have.
const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// Validated rules of a host.
#[derive(Clone, Debug)]
pub struct Rules {
    pub index: Vec<String>,
    pub try_files: TryFiles,
    pub precompressed: bool,
    pub compression: CompressionPolicy,
    charset: String,
    mime: HashMap<String, String>,
    errors: BTreeMap<u16, String>,
    headers: Vec<FieldRule>,
    redirects: Vec<RedirectRule>,
}

/// Rule of response fields, applied in the order removed, replaced, added.
#[derive(Clone, Debug)]
struct FieldRule {
    pattern: PathPattern,

    /// Whether it applies to every response, not to files alone.
    always: bool,
    unset: Vec<String>,
    set: Vec<Field>,
    add: Vec<Field>,
}

#[derive(Clone, Debug)]
struct RedirectRule {
    from: String,

    /// Whether `from` is a prefix.
    prefix: bool,
    to: String,
    status: u16,
    position: Position,
}

impl Rules {
    /// Validates the rules of a host.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &Host) -> anyhow::Result<Self> {
        let index = host.index.clone().unwrap_or_else(|| vec!["index.html".to_owned()]);
        for name in &index {
            let plain = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
            ensure!(plain, "index: '{name}' is not a file name; write one such as index.html");
        }
        let charset = host.charset.clone().unwrap_or_else(|| "utf-8".to_owned());
        ensure!(
            charset.is_empty() || is_value(&charset) && !charset.contains([' ', ';', '"', ',']),
            "charset: '{charset}' is not a charset; write one such as utf-8"
        );
        let mut errors = BTreeMap::new();
        for (status, path) in host.error.iter().flatten() {
            errors.insert(error_status(status, path)?, path.clone());
        }
        let headers =
            host.header.iter().flatten().map(|rule| FieldRule::new(rule).context(rule.position));
        let redirects = host
            .redirect
            .iter()
            .flatten()
            .map(|rule| RedirectRule::new(rule).context(rule.position));
        let rules = Self {
            index,
            try_files: TryFiles::new(host.try_files.as_deref().unwrap_or_default())?,
            precompressed: host.precompressed.unwrap_or(true),
            compression: CompressionPolicy::new(host)?,
            charset,
            mime: mime(host.mime.iter().flatten())?,
            errors,
            headers: headers.collect::<anyhow::Result<_>>()?,
            redirects: redirects.collect::<anyhow::Result<_>>()?,
        };
        rules.check_redirects()?;
        Ok(rules)
    }

    /// Checks that redirects of the host to itself come to an end, and that each is reached.
    fn check_redirects(&self) -> anyhow::Result<()> {
        for (index, rule) in self.redirects.iter().enumerate() {
            let RedirectRule { from, prefix, position, .. } = rule;
            let is_earlier = self.redirects[..index]
                .iter()
                .any(|other| other.suffix(from).is_some() && (other.prefix || !prefix));
            let shown = if *prefix { format!("{from}*") } else { from.clone() };
            if is_earlier {
                let error =
                    anyhow!("redirect from '{shown}' is never reached: an earlier one is for it");
                return Err(error.context(*position));
            }
            let mut path = if *prefix { format!("{from}x") } else { from.clone() };
            for _ in 0..=self.redirects.len() {
                let Some((_, to)) = self.redirect(&path, "") else { break };
                path = local_path(&to).unwrap_or_default();
            }
            if self.redirect(&path, "").is_some() {
                let error =
                    anyhow!("redirect from '{shown}' leads back to redirects without an end");
                return Err(error.context(*position));
            }
        }
        Ok(())
    }

    /// Returns the content type of a file by its extension.
    pub fn content_type(&self, path: &Path) -> Cow<'static, str> {
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let extension = extension.to_ascii_lowercase();
        let mime: Cow<'static, str> = match self.mime.get(&extension) {
            Some(own) => own.clone().into(),
            None => media_types::of_extension(&extension)
                .or_else(|| mime_guess::from_ext(&extension).first_raw())
                .unwrap_or("application/octet-stream")
                .into(),
        };
        match is_text(&mime) && !self.charset.is_empty() && !has_charset(&mime) {
            true => format!("{mime}; charset={}", self.charset).into(),
            false => mime,
        }
    }

    /// Returns the path of the error page of a status.
    pub fn error_page(&self, status: u16) -> Option<&str> {
        self.errors.get(&status).map(String::as_str)
    }

    /// Returns all error pages with their statuses.
    pub fn error_pages(&self) -> impl Iterator<Item = (u16, &str)> {
        self.errors.iter().map(|(status, path)| (*status, path.as_str()))
    }

    /// Returns whether a response may have configured fields: a file's, or another's.
    pub fn has_fields(&self, is_file: bool) -> bool {
        self.headers.iter().any(|rule| rule.applies_to(is_file))
    }

    /// Returns the configured fields of the response for `path`, which begins with a slash: a file's,
    /// or another's. The rules apply one after the other.
    pub fn fields(&self, path: &str, is_file: bool) -> Vec<Field> {
        let mut fields = Vec::new();
        self.change(&mut fields, path, is_file);
        fields
    }

    /// Applies the rules to the fields of the response for `path`, a file's or another's.
    pub fn change(&self, fields: &mut Vec<Field>, path: &str, is_file: bool) {
        for rule in &self.headers {
            if !rule.applies_to(is_file) || !rule.pattern.is_match(path) {
                continue;
            }
            let is_replaced = |name: &str| {
                rule.unset.iter().any(|unset| unset == name)
                    || rule.set.iter().any(|set| set.name == name)
            };
            fields.retain(|field| !is_replaced(&field.name));
            fields.extend(rule.set.iter().chain(&rule.add).cloned());
        }
    }

    /// Returns whether the rules for `path` leave out the server's own `alt-svc`: the last that names it
    /// does.
    pub fn unset_alt_svc(&self, path: &str, is_file: bool) -> bool {
        let rules = self.headers.iter().rev();
        let mut rules =
            rules.filter(|rule| rule.applies_to(is_file) && rule.pattern.is_match(path));
        rules.find_map(|rule| rule.unsets("alt-svc")).unwrap_or(false)
    }

    /// Returns status and location if a redirect matches the decoded `path`. A `query` begins with
    /// its question mark.
    pub fn redirect(&self, path: &str, query: &str) -> Option<(u16, String)> {
        let (rule, suffix) =
            self.redirects.iter().find_map(|rule| Some((rule, rule.suffix(path)?)))?;
        let mut to = rule.to.replacen('*', &encode(suffix), usize::from(rule.prefix));
        if !to.contains('?') {
            let fragment = to.find('#').unwrap_or(to.len());
            to.insert_str(fragment, query);
        }
        Some((rule.status, to))
    }
}

impl RedirectRule {
    fn new(rule: &file::Redirect) -> anyhow::Result<Self> {
        let file::Redirect { from, to, status, .. } = rule;
        ensure!(
            REDIRECT_STATUSES.contains(status),
            "redirect from '{from}': status = {status} is not a redirect; use 301, 302, 303, 307 or 308"
        );
        let prefix = from.strip_suffix("/*").map(|path| format!("{path}/"));
        let plain = from.starts_with('/') && prefix.as_ref().unwrap_or(from).find('*').is_none();
        ensure!(plain, "redirect from '{from}': write /path, or /path/* for all paths below it");
        if let Some(why) = never_matches(from) {
            bail!("redirect from '{from}': {why}");
        }
        let local = to.starts_with('/') && !to.starts_with("//");
        let absolute = to.starts_with("https://") || to.starts_with("http://");
        let valid = to.bytes().all(|byte| byte.is_ascii_graphic()) && (local || absolute);
        ensure!(valid, "redirect to '{to}': write /path or https://host/path, percent-encoded");
        let stars = to.matches('*').count();
        ensure!(
            stars <= usize::from(prefix.is_some()),
            "redirect to '{to}': * may occur once, for what /* in '{from}' matches"
        );
        ensure!(from != to, "redirect from '{from}' leads to itself; write another path");
        let prefixed = prefix.is_some();
        let from = prefix.unwrap_or_else(|| from.clone());
        Ok(Self {
            from,
            prefix: prefixed,
            to: to.clone(),
            status: *status,
            position: rule.position,
        })
    }

    /// Returns the part of `path` after `from`, if the rule matches.
    fn suffix<'a>(&self, path: &'a str) -> Option<&'a str> {
        let suffix = path.strip_prefix(self.from.as_str())?;
        (self.prefix || suffix.is_empty()).then_some(suffix)
    }
}

/// Returns the decoded path of a location, if that is on the same host.
fn local_path(location: &str) -> Option<String> {
    let path = location.split(['?', '#']).next()?;
    UrlPath::parse(path).map(|path| path.decoded())
}

/// Percent-encodes a path.
pub fn encode(path: &str) -> String {
    Cow::from(utf8_percent_encode(path, PATH_ENCODED)).into_owned()
}

fn is_text(mime: &str) -> bool {
    mime.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"))
}

fn has_charset(mime: &str) -> bool {
    mime.to_ascii_lowercase().contains("charset=")
}

fn error_status(status: &str, path: &str) -> anyhow::Result<u16> {
    let number = status.parse().ok().filter(|number| (400..600).contains(number));
    let number =
        number.with_context(|| format!("error: '{status}' is not a status from 400 to 599"))?;
    ensure!(
        UrlPath::parse(path).is_some(),
        "error: {status} = '{path}': write the path of a file, /{status}.html, percent-encoded and \
         without .."
    );
    Ok(number)
}

fn mime<'a>(
    types: impl Iterator<Item = (&'a String, &'a String)>,
) -> anyhow::Result<HashMap<String, String>> {
    let mut map = HashMap::new();
    for (extension, mime) in types {
        let extension = extension.trim_start_matches('.').to_ascii_lowercase();
        let is_extension = !extension.is_empty() && !extension.contains(['/', '.', '*']);
        ensure!(
            is_extension,
            "mime: '{extension}' is no extension of a file name; write one such as txt"
        );
        let valid = is_value(mime) && mime.contains('/');
        ensure!(valid, "mime: {extension} = '{mime}': write a type like text/plain");
        map.insert(extension, mime.clone());
    }
    Ok(map)
}

impl FieldRule {
    /// Returns whether the rule is for a response with a file, or without one.
    fn applies_to(&self, is_file: bool) -> bool {
        is_file || self.always
    }

    /// Returns whether the rule removes a field, or gives it, if it names the field.
    fn unsets(&self, name: &str) -> Option<bool> {
        let is_given = self.set.iter().chain(&self.add).any(|field| field.name == name);
        match self.unset.iter().any(|unset| unset == name) {
            true => Some(true),
            false => is_given.then_some(false),
        }
    }

    fn new(rule: &file::HeaderRule) -> anyhow::Result<Self> {
        let path = &rule.path;
        let pattern = PathPattern::new("header", path)?;
        rule.unset.iter().try_for_each(|name| check_field_name(name))?;
        let is_given =
            |name: &&String| rule.set.contains_key(*name) || rule.add.contains_key(*name);
        if let Some(name) = rule.unset.iter().find(is_given) {
            bail!("header: '{name}' is in unset and in set or add; keep it in one of them");
        }
        let is_empty = rule.unset.is_empty() && rule.set.is_empty() && rule.add.is_empty();
        ensure!(!is_empty, "header: path = '{path}' changes nothing; give it set, add or unset");
        Ok(Self {
            pattern,
            always: rule.always,
            unset: rule.unset.clone(),
            set: fields(&rule.set)?,
            add: fields(&rule.add)?,
        })
    }
}

fn fields(values: &BTreeMap<String, String>) -> anyhow::Result<Vec<Field>> {
    let field = |(name, value): (&String, &String)| {
        check_field_name(name)?;
        ensure!(
            is_value(value),
            "header: {name} = '{value}': a value is printable ASCII, begins and ends without a space, \
             and is not empty; leave a field out with unset"
        );
        Ok(Field::new(name.clone(), value.clone()))
    };
    values.iter().map(field).collect()
}

fn check_field_name(name: &str) -> anyhow::Result<()> {
    let token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let lower = !name.is_empty() && name.bytes().all(token);
    ensure!(lower, "header: '{name}' is not a field name; write one in lower case");
    let own = RESERVED_FIELDS.contains(&name);
    ensure!(!own, "header: '{name}' cannot be set: the server computes it");
    Ok(())
}

fn is_value(value: &str) -> bool {
    let inner = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    inner && !value.is_empty() && value.trim() == value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(toml: &str) -> Host {
        toml::from_str(toml).unwrap()
    }

    fn rules(toml: &str) -> Rules {
        Rules::new(&host(toml)).unwrap()
    }

    #[test]
    fn text_types_have_charset() {
        let plain = rules("");
        let own = rules("charset = \"\"\nmime = { '.TXT' = 'text/x', bin = 'a/b' }");
        let types = "mime = { log = 'text/plain', old = 'Text/x; Charset=latin1', bin = 'a/b' }";
        let named = rules(types);
        for (name, expected) in [
            ("a.log", "text/plain; charset=utf-8"),
            ("a.old", "Text/x; Charset=latin1"),
            ("a.bin", "a/b"),
        ] {
            assert_eq!(named.content_type(Path::new(name)), expected, "{name}");
        }
        for (name, of_plain, of_own) in [
            ("a.html", "text/html; charset=utf-8", "text/html"),
            ("a.TXT", "text/plain; charset=utf-8", "text/x"),
            ("a.js", "text/javascript; charset=utf-8", "text/javascript"),
            ("a.png", "image/png", "image/png"),
            ("a.json", "application/json", "application/json"),
            ("a.wasm", "application/wasm", "application/wasm"),
            ("a.bin", "application/octet-stream", "a/b"),
            ("a", "application/octet-stream", "application/octet-stream"),
        ] {
            assert_eq!(plain.content_type(Path::new(name)), of_plain, "{name}");
            assert_eq!(own.content_type(Path::new(name)), of_own, "{name}");
        }
    }

    #[test]
    fn media_types_are_those_that_players_and_browsers_expect() {
        let rules = rules("");
        for (extensions, expected) in [
            ("m3u8", "application/vnd.apple.mpegurl"),
            ("mpd", "application/dash+xml"),
            ("ts TS m2ts mts", "video/mp2t"),
            ("m4s", "video/iso.segment"),
            ("mp4 m4v cmfv", "video/mp4"),
            ("m4a cmfa", "audio/mp4"),
            ("cmft", "application/mp4"),
            ("webm", "video/webm"),
            ("weba", "audio/webm"),
            ("mkv", "video/matroska"),
            ("mov", "video/quicktime"),
            ("ogv", "video/ogg"),
            // RFC 7845, 9.
            ("opus oga ogg", "audio/ogg"),
            ("aac", "audio/aac"),
            ("ac3", "audio/ac3"),
            ("ec3", "audio/eac3"),
            ("mp3", "audio/mpeg"),
            ("flac", "audio/flac"),
            ("vtt", "text/vtt; charset=utf-8"),
            ("ttml", "application/ttml+xml"),
            ("srt", "application/x-subrip"),
            ("avif", "image/avif"),
            ("heic", "image/heic"),
            ("jxl", "image/jxl"),
            ("webp", "image/webp"),
            ("svg", "image/svg+xml"),
            ("wasm", "application/wasm"),
            ("js mjs", "text/javascript; charset=utf-8"),
            ("webmanifest", "application/manifest+json"),
            ("json map", "application/json"),
            ("woff", "font/woff"),
            ("woff2", "font/woff2"),
            ("ttf", "font/ttf"),
            ("otf", "font/otf"),
            ("key av1", "application/octet-stream"),
        ] {
            for extension in extensions.split(' ') {
                let name = format!("a.{extension}");
                assert_eq!(rules.content_type(Path::new(&name)), expected, "{name}");
            }
        }
        let own = Rules::new(&host("mime = { ts = 'text/typescript' }")).unwrap();
        assert_eq!(own.content_type(Path::new("a.ts")), "text/typescript; charset=utf-8");
    }

    #[test]
    fn last_matching_rule_sets_field() {
        let rules = rules(
            r#"
            [[header]]
            path = "**"
            set = { cache-control = "no-cache", x-all = "1" }
            [[header]]
            path = "*.css"
            set = { cache-control = "max-age=60" }
            [[header]]
            path = "/assets/**"
            set = { cache-control = "immutable" }
            [[header]]
            path = "/top/*"
            set = { x-top = "1" }
            "#,
        );
        for (path, expected) in [
            ("/x", vec![("cache-control", "no-cache"), ("x-all", "1")]),
            ("/a/b.css", vec![("x-all", "1"), ("cache-control", "max-age=60")]),
            ("/assets/a/b.css", vec![("x-all", "1"), ("cache-control", "immutable")]),
            ("/top/x", vec![("cache-control", "no-cache"), ("x-all", "1"), ("x-top", "1")]),
            ("/top/x/y", vec![("cache-control", "no-cache"), ("x-all", "1")]),
        ] {
            let fields = rules.fields(path, true);
            let mut fields: Vec<_> =
                fields.iter().map(|f| (f.name.as_ref(), f.value.as_ref())).collect();
            let mut expected = expected;
            fields.sort_unstable();
            expected.sort_unstable();
            assert_eq!(fields, expected, "{path}");
        }
    }

    #[test]
    fn rules_add_and_remove_fields_and_apply_always_if_asked() {
        let rules = rules(
            r#"
            [[header]]
            path = "**"
            always = true
            set = { strict-transport-security = "max-age=1", x-all = "1" }
            [[header]]
            path = "/a/**"
            set = { cache-control = "no-cache" }
            add = { link = "</1>", x-all = "2" }
            [[header]]
            path = "/a/b"
            unset = ["x-all"]
            add = { link = "</2>" }
            "#,
        );
        let hsts = ("strict-transport-security", "max-age=1");
        for (path, is_file, expected) in [
            ("/x", true, vec![hsts, ("x-all", "1")]),
            ("/a/x", false, vec![hsts, ("x-all", "1")]),
            (
                "/a/x",
                true,
                vec![
                    hsts,
                    ("x-all", "1"),
                    ("cache-control", "no-cache"),
                    ("link", "</1>"),
                    ("x-all", "2"),
                ],
            ),
            (
                "/a/b",
                true,
                vec![hsts, ("cache-control", "no-cache"), ("link", "</1>"), ("link", "</2>")],
            ),
        ] {
            let fields = rules.fields(path, is_file);
            let fields: Vec<_> =
                fields.iter().map(|f| (f.name.as_ref(), f.value.as_ref())).collect();
            assert_eq!(fields, expected, "{path}");
        }
    }

    #[test]
    fn redirect_keeps_query_and_suffix() {
        let rules = rules(
            r#"
            redirect = [
                { from = "/a", to = "/b" },
                { from = "/old/*", to = "https://new.example/x/*", status = 301 },
                { from = "/all/*", to = "/one?x=1", status = 302 },
                { from = "/f", to = "/g#h" },
            ]
            "#,
        );
        for (path, query, expected) in [
            ("/a", "", Some((308, "/b"))),
            ("/a", "?q=1", Some((308, "/b?q=1"))),
            ("/a/", "", None),
            ("/ab", "", None),
            ("/old", "", None),
            ("/old/", "", Some((301, "https://new.example/x/"))),
            ("/old/y z/*", "?q", Some((301, "https://new.example/x/y%20z/*?q"))),
            ("/old/é\n", "", Some((301, "https://new.example/x/%C3%A9%0A"))),
            ("/all/x", "?q", Some((302, "/one?x=1"))),
            ("/f", "?q", Some((308, "/g?q#h"))),
        ] {
            let expected = expected.map(|(status, to)| (status, to.to_owned()));
            assert_eq!(rules.redirect(path, query), expected, "{path}{query}");
        }
    }

    #[test]
    fn error_names_invalid_rule() {
        for (toml, named) in [
            ("index = ['a/b']", "'a/b'"),
            ("index = ['']", "index"),
            ("index = ['.hidden']", "'.hidden'"),
            ("try-files = ['index.html']", "try-files: 'index.html'"),
            ("try-files = ['/x{path}']", "try-files: '/x{path}'"),
            ("try-files = ['/..']", "try-files: '/..'"),
            ("try-files = ['{path}/.x']", "try-files: '{path}/.x'"),
            ("try-files = ['{path}']", "try-files: '{path}' is tried first anyway"),
            ("charset = 'a '", "'a '"),
            ("charset = 'utf 8'", "'utf 8'"),
            ("mime = { '*.txt' = 'text/plain' }", "mime: '*.txt' is no extension"),
            ("mime = { '' = 'text/plain' }", "mime: '' is no extension"),
            ("error = { 200 = '/x' }", "'200'"),
            ("error = { x = '/x' }", "'x'"),
            ("error = { 404 = 'x' }", "404 = 'x'"),
            ("error = { 404 = '/../x' }", "404 = '/../x': write the path of a file"),
            ("error = { 404 = '/a b' }", "404 = '/a b': write the path of a file"),
            ("mime = { a = 'b' }", "'b'"),
            ("header = [{ path = '/[', set = {} }]", "'/['"),
            ("header = [{ path = 'a/b', set = {} }]", "'a/b'"),
            ("header = [{ path = '/', set = {} }]", "'/' changes nothing"),
            ("header = [{ path = '/', set = { 'X-A' = 'b' } }]", "'X-A'"),
            ("header = [{ path = '/', set = { '' = 'b' } }]", "''"),
            ("header = [{ path = '/', set = { etag = 'b' } }]", "'etag'"),
            ("header = [{ path = '/', set = { a = 'ü' } }]", "'ü'"),
            ("header = [{ path = '/', set = { a = '' } }]", "and is not empty"),
            ("header = [{ path = '/', add = { 'X-A' = 'b' } }]", "'X-A'"),
            ("header = [{ path = '/', add = { a = 'ü' } }]", "'ü'"),
            ("header = [{ path = '/', unset = ['etag'] }]", "'etag'"),
            ("header = [{ path = '/', unset = ['a', 'b'], set = { b = 'c' } }]", "'b' is in unset"),
            ("header = [{ path = '/', unset = ['a'], add = { a = 'c' } }]", "'a' is in unset"),
            ("redirect = [{ from = 'a', to = '/b' }]", "'a'"),
            ("redirect = [{ from = '/*/a', to = '/b' }]", "'/*/a'"),
            ("redirect = [{ from = '/a', to = 'b' }]", "'b'"),
            ("redirect = [{ from = '/a', to = '//b' }]", "'//b'"),
            ("redirect = [{ from = '/a', to = '/b c' }]", "'/b c'"),
            ("redirect = [{ from = '/a', to = '/b/*' }]", "'/b/*'"),
            ("redirect = [{ from = '/a/*', to = '/b/*/*' }]", "'/b/*/*'"),
            ("redirect = [{ from = '/a', to = '/a' }]", "itself"),
            ("redirect = [{ from = '/a/../b', to = '/c' }]", "paths have no . and .."),
            ("redirect = [{ from = '/a%20b', to = '/c' }]", "it is compared with the decoded path"),
            ("redirect = [{ from = '/*', to = '/x/*' }]", "'/*' leads back to redirects"),
            (
                "redirect = [{ from = '/a', to = '/b' }, { from = '/b', to = '/a?x#y' }]",
                "'/a' leads back",
            ),
            (
                "redirect = [{ from = '/a', to = '/b' }, { from = '/a', to = '/c' }]",
                "'/a' is never reached",
            ),
            (
                "redirect = [{ from = '/a/*', to = '/b' }, { from = '/a/b', to = '/c' }]",
                "'/a/b' is never",
            ),
            ("redirect = [{ from = '/a', to = '/b', status = 200 }]", "200"),
        ] {
            let error = format!("{:#}", Rules::new(&host(toml)).expect_err(toml));
            assert!(error.contains(named), "{toml}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
