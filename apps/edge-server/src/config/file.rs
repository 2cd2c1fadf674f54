//! Configuration file (TOML): options and virtual hosts. An unknown key is an error.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;
use toml::Spanned;
use toml::Value;

use crate::config::options::Setting;

/// Parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// Options of the command line.
    pub server: Vec<Setting>,

    /// Hosts; at most one has no names and is the default.
    pub hosts: Vec<Host>,
}

/// Top-level tables of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    server: BTreeMap<String, Spanned<Value>>,

    #[serde(default, rename = "host")]
    hosts: Vec<Host>,
}

/// Virtual host. A missing key has the value of the host without names, or a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Host {
    #[serde(default)]
    pub names: Vec<String>,

    /// Folder to serve; the default is `--root`.
    pub root: Option<PathBuf>,

    /// Certificate chain and key; the defaults are `--cert` and `--key`.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,

    /// Index files of a folder; the first that exists is served.
    pub index: Option<Vec<String>>,

    /// Whether a file's `.br`, `.zst` and `.gz` siblings are served to clients that accept them.
    pub precompressed: Option<bool>,

    /// Whether responses to the host's own pages have a `Server-Timing` field.
    #[serde(rename = "server-timing")]
    pub server_timing: Option<bool>,

    /// Charset of text; an empty one is not sent.
    pub charset: Option<String>,

    /// Content types by file extension.
    pub mime: Option<BTreeMap<String, String>>,

    /// Error pages by status.
    pub error: Option<BTreeMap<String, String>>,

    pub header: Option<Vec<HeaderRule>>,
    pub redirect: Option<Vec<Redirect>>,
}

/// Response fields for the files that a pattern matches.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    pub path: String,
    pub set: BTreeMap<String, String>,
}

/// Redirect from one path, or all paths below it, to another URL.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    pub from: String,
    pub to: String,
    #[serde(default = "permanent")]
    pub status: u16,
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
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --config {shown}; name a readable TOML file"))?;
        Self::parse(&text).with_context(|| format!("--config {shown}"))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let tables: Tables = toml::from_str(text).map_err(|error| {
            let reason = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            match error.span() {
                Some(span) => anyhow::anyhow!("line {}: {reason}", line_of(text, span.start)),
                None => anyhow::anyhow!("{reason}"),
            }
        })?;
        let Tables { server, hosts } = tables;
        let setting = |(name, value): (String, Spanned<Value>)| Setting {
            name,
            line: line_of(text, value.span().start),
            value: value.into_inner(),
        };
        let file = Self { server: server.into_iter().map(setting).collect(), hosts };
        let nameless = file.hosts.iter().filter(|host| host.names.is_empty()).count();
        anyhow::ensure!(
            nameless <= 1,
            "more than one [[host]] has no names; give names to all but one"
        );
        for host in &file.hosts {
            let pair = host.cert.is_some() == host.key.is_some();
            anyhow::ensure!(pair, "{host}: cert and key go together; set both or neither");
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
        let named = self.hosts.iter().filter(|host| !host.names.is_empty());
        named.map(move |host| host.clone().or(&default_host))
    }
}

impl Host {
    /// Returns the host with missing values taken from `other`.
    fn or(self, other: &Self) -> Self {
        let certified = self.cert.is_some();
        let pair =
            if certified { (self.cert, self.key) } else { (other.cert.clone(), other.key.clone()) };
        Self {
            names: self.names,
            root: self.root.or_else(|| other.root.clone()),
            cert: pair.0,
            key: pair.1,
            index: self.index.or_else(|| other.index.clone()),
            precompressed: self.precompressed.or(other.precompressed),
            server_timing: self.server_timing.or(other.server_timing),
            charset: self.charset.or_else(|| other.charset.clone()),
            mime: self.mime.or_else(|| other.mime.clone()),
            error: self.error.or_else(|| other.error.clone()),
            header: self.header.or_else(|| other.header.clone()),
            redirect: self.redirect.or_else(|| other.redirect.clone()),
        }
    }
}

/// Formats the host's name for messages.
impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.names.first() {
            Some(name) => write!(f, "[[host]] {name}"),
            None => write!(f, "[[host]] without names"),
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
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
            precompressed = false
            server-timing = true
            charset = ""
            cert = "all.pem"
            key = "all.key"
            mime = { m3u8 = "application/vnd.apple.mpegurl" }
            error = { 404 = "/404.html" }

            [[host.header]]
            path = "/assets/**"
            set = { cache-control = "max-age=31536000, immutable" }

            [[host.redirect]]
            from = "/old/*"
            to = "/new/*"
            status = 301

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
        assert_eq!((default_host.server_timing, named.server_timing), (Some(true), Some(true)));
        assert_eq!((named.mime, named.error), (default_host.mime, default_host.error));
        assert_eq!((named.header, named.redirect), (default_host.header, default_host.redirect));
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
            ("hosts = 1", &["line 1", "hosts"][..]),
            ("[[host]]\n\nindx = []", &["line 3", "indx"]),
            ("[[host]]\nindex = 5", &["line 2"]),
            ("[[host]]\n[[host.header]]\npath = \"x\"\nsets = {}", &["line 4", "sets"]),
            ("[[host]\n", &["line 1"]),
            ("[[host]]\n[[host]]\n", &["no names"]),
            ("[[host]]\nnames = [\"a\"]\ncert = \"c\"", &["[[host]] a", "cert and key"]),
            ("[[host]]\nkey = \"c\"", &["without names", "cert and key"]),
        ];
        for (text, named) in table {
            let error = format!("{:#}", ConfigFile::parse(text).unwrap_err());
            assert!(!error.contains('\n'), "{error}");
            assert!(named.iter().all(|name| error.contains(name)), "{text}: {error}");
        }
    }
}
