//! Purge of cached responses: by URL, by what URLs begin with, and by tag.

use crate::content::cache::slices;
use crate::content::origin::fields::normalized;
use crate::content::rules::encode;
use crate::content::url_path::UrlPath;

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeTarget {
    /// Host, path and query of one URL.
    Url(String),

    /// What they begin with.
    Prefix(String),

    /// Tag of `Surrogate-Key` or `Cache-Tag`.
    Tag(String),
    All,
}

impl PurgeTarget {
    /// Parses one, such as `url=https://host/path`.
    ///
    /// # Errors
    ///
    /// One line that tells what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, value) = text.split_once('=').unwrap_or((text, ""));
        let key = || {
            let rest = value.strip_prefix("https://").filter(|rest| !rest.is_empty());
            let rest = rest.ok_or(format!("{kind}={value}: write {kind}=https://host/path"))?;
            let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
            let path = UrlPath::parse(if path.is_empty() { "/" } else { path });
            let path = path.ok_or(format!("{kind}={value}: write a path without .. and %2f"))?;
            Ok::<_, String>(key_of(host, &(encode(&path.decoded()) + query)))
        };
        match kind {
            "url" => Ok(Self::Url(key()?)),
            "prefix" => Ok(Self::Prefix(key()?)),
            "tag" if !value.is_empty() => Ok(Self::Tag(value.to_owned())),
            "all" if text == "all" => Ok(Self::All),
            _ => {
                Err("write url=https://host/path, prefix=https://host/path, tag=NAME or all"
                    .to_owned())
            }
        }
    }
}

impl PurgeTarget {
    /// Returns whether it means a response with this key and these tags.
    pub fn means<'a>(&self, key: &str, mut tags: impl Iterator<Item = &'a str>) -> bool {
        match self {
            Self::Tag(tag) => tags.any(|own| own == tag),
            _ => self.may_mean(key),
        }
    }

    /// Returns whether it may mean a response with this key.
    pub fn may_mean(&self, key: &str) -> bool {
        match self {
            Self::Url(url) => slices::response_key(key) == url,
            Self::Prefix(prefix) => key.starts_with(prefix.as_str()),
            Self::Tag(_) | Self::All => true,
        }
    }
}

/// Returns the authority, the encoded path and the query of a key.
pub fn parts_of(key: &str) -> (&str, &str, &str) {
    let (authority, target) = key.split_at(key.find('/').unwrap_or(key.len()));
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    (authority, path, query)
}

/// Returns the key of a target at a host.
pub fn key_of(authority: &str, target: &str) -> String {
    let mut key = normalized(authority);
    key.push_str(target);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_what_its_text_says() {
        for (text, expected) in [
            ("url=https://A.example:443/b?c", Some(PurgeTarget::Url("a.example/b?c".to_owned()))),
            ("url=https://a.example", Some(PurgeTarget::Url("a.example/".to_owned()))),
            ("prefix=https://a.example", Some(PurgeTarget::Prefix("a.example/".to_owned()))),
            ("prefix=https://a:8443/x/", Some(PurgeTarget::Prefix("a:8443/x/".to_owned()))),
            ("url=https://a/%62//./c?%64", Some(PurgeTarget::Url("a/b/c?%64".to_owned()))),
            ("url=https://a/../b", None),
            ("tag=news", Some(PurgeTarget::Tag("news".to_owned()))),
            ("all", Some(PurgeTarget::All)),
            ("all=1", None),
            ("url=http://a/b", None),
            ("url=/b", None),
            ("tag=", None),
            ("", None),
        ] {
            assert_eq!(PurgeTarget::parse(text).ok(), expected, "{text}");
        }
    }
}
