//! Compression policy of a host: files of which types and lengths are compressed.

use anyhow::ensure;

use crate::config::file::Host;

/// Media types that are compressed unless a host says otherwise: text, and formats that are not
/// compressed already.
const TYPES: [&str; 25] = [
    "text/*",
    "*+json",
    "*+xml",
    "application/javascript",
    "application/json",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.apple.mpegurl",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-subrip",
    "application/x-tex",
    "application/xml",
    "application/yaml",
    "font/collection",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "model/obj",
];

/// Stands for these types in a host's list.
const DEFAULT_TYPES: &str = "default";

/// Lengths of files that are compressed, in bytes. What is shorter fits into a packet or two anyway.
const BYTES_MIN_DEFAULT: u64 = 1 << 10;
const BYTES_MAX_DEFAULT: u64 = 8 << 20;

/// Largest length that a host may name: a thread holds the result, and an encoder its window.
const BYTES_MAX_MAX: u64 = 64 << 20;

/// Files that a host compresses.
#[derive(Clone, Debug)]
pub struct CompressionPolicy {
    /// Whether it compresses at all.
    pub is_on: bool,
    types: Vec<MediaPattern>,
    bytes_min: u64,
    bytes_max: u64,
}

/// Media types that an entry of a list stands for.
#[derive(Clone, Debug)]
enum MediaPattern {
    Exact(String),
    Prefix(String),
    Suffix(String),
}

impl CompressionPolicy {
    /// Validates the keys of a host.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &Host) -> anyhow::Result<Self> {
        let bytes_min = host.compress_bytes_min.unwrap_or(BYTES_MIN_DEFAULT);
        let bytes_max = host.compress_bytes_max.unwrap_or(BYTES_MAX_DEFAULT.max(bytes_min));
        ensure!(
            bytes_min <= bytes_max,
            "compress-bytes-min = {bytes_min} is more than compress-bytes-max = {bytes_max}; lower it"
        );
        ensure!(
            bytes_max <= BYTES_MAX_MAX,
            "compress-bytes-max = {bytes_max} is more than {BYTES_MAX_MAX}; compress larger files \
             ahead, as siblings"
        );
        let types = match &host.compress_types {
            Some(types) => types.iter().map(String::as_str).collect(),
            None => vec![DEFAULT_TYPES],
        };
        let mut patterns = Vec::new();
        for media_type in types {
            match media_type {
                DEFAULT_TYPES => patterns.extend(TYPES.iter().filter_map(|own| pattern(own))),
                other => patterns.push(pattern(other).ok_or_else(|| {
                    anyhow::anyhow!(
                        "compress-types: '{other}' is not a media type; write one such as \
                         application/json, text/*, *+xml, or default"
                    )
                })?),
            }
        }
        Ok(Self { is_on: host.compress.unwrap_or(true), types: patterns, bytes_min, bytes_max })
    }

    /// Returns whether a file of this content type and length is compressed.
    pub fn applies_to(&self, content_type: &str, length: u64) -> bool {
        if !self.is_on || !(self.bytes_min..=self.bytes_max).contains(&length) {
            return false;
        }
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        self.types.iter().any(|pattern| pattern.matches(media_type))
    }
}

impl MediaPattern {
    fn matches(&self, media_type: &str) -> bool {
        let bytes = media_type.as_bytes();
        match self {
            Self::Exact(own) => media_type.eq_ignore_ascii_case(own),
            Self::Prefix(start) => bytes
                .get(..start.len())
                .is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes())),
            Self::Suffix(end) => bytes
                .len()
                .checked_sub(end.len())
                .is_some_and(|at| bytes[at..].eq_ignore_ascii_case(end.as_bytes())),
        }
    }
}

/// Returns the pattern that a text stands for, if it does.
fn pattern(text: &str) -> Option<MediaPattern> {
    let is_name = |name: &str| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !name.is_empty() && name.bytes().all(is_token)
    };
    if let Some(suffix) = text.strip_prefix("*+") {
        return is_name(suffix).then(|| MediaPattern::Suffix(format!("+{suffix}")));
    }
    match text.split_once('/')? {
        (name, "*") if is_name(name) => Some(MediaPattern::Prefix(format!("{name}/"))),
        (name, subtype) if is_name(name) && is_name(subtype) => {
            Some(MediaPattern::Exact(text.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(toml: &str) -> anyhow::Result<CompressionPolicy> {
        CompressionPolicy::new(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn policy_applies_by_type_and_length() {
        let other = "compress-types = ['default', 'Image/X', 'audio/*']\ncompress-bytes-min = 0";
        let own = "compress-types = ['a/b', '*+zip']\ncompress-bytes-max = 9000000";
        for (toml, content_type, length, expected) in [
            ("", "text/html; charset=utf-8", 1024, true),
            ("", "text/html", 1023, false),
            ("", "text/html", 8 << 20, true),
            ("", "text/html", (8 << 20) + 1, false),
            ("", "TEXT/css ;x=y", 5000, true),
            ("", "image/svg+xml", 5000, true),
            ("", "application/manifest+json", 5000, true),
            ("", "application/wasm", 5000, true),
            ("", "font/ttf", 5000, true),
            ("", "font/woff2", 5000, false),
            ("", "image/png", 5000, false),
            ("", "video/mp4", 5000, false),
            ("", "application/zip", 5000, false),
            ("", "application/octet-stream", 5000, false),
            ("", "text", 5000, false),
            ("", "", 5000, false),
            ("compress = false", "text/html", 5000, false),
            (other, "image/x", 1, true),
            (other, "audio/y", 1, true),
            (other, "text/plain", 0, true),
            (own, "A/B", 9_000_000, true),
            (own, "x/y+zip", 5000, true),
            (own, "a/bc", 5000, false),
            (own, "text/html", 5000, false),
            ("compress-types = []", "text/html", 5000, false),
            ("compress-bytes-min = 10000000", "text/html", 10_000_000, true),
        ] {
            let applies = policy(toml).unwrap().applies_to(content_type, length);
            assert_eq!(applies, expected, "{toml} {content_type} {length}");
        }
    }

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("compress-types = ['html']", "compress-types: 'html' is not a media type"),
            ("compress-types = ['*/*']", "'*/*'"),
            ("compress-types = ['text/']", "'text/'"),
            ("compress-types = ['*+']", "'*+'"),
            ("compress-types = ['text/a b']", "'text/a b'"),
            ("compress-types = ['text/html; charset=x']", "charset=x'"),
            ("compress-bytes-min = 9\ncompress-bytes-max = 8", "compress-bytes-min = 9 is more"),
            (
                "compress-bytes-max = 67108865",
                "compress-bytes-max = 67108865 is more than 67108864",
            ),
        ] {
            let error = policy(toml).expect_err(toml).to_string();
            assert!(error.contains(named) && !error.contains('\n'), "{toml}: {error}");
        }
    }
}
