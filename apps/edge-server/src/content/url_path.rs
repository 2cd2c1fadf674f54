//! URL path: decoded, and below the root.

use std::ffi::OsStr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// Path below the root, decoded from a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPath {
    pub relative: PathBuf,

    /// Whether the URL path ends with a slash and therefore names a folder.
    pub folder: bool,
}

impl UrlPath {
    /// Parses an absolute URL path. Returns `None` if it is malformed or contains `..`.
    pub fn parse(path: &str) -> Option<Self> {
        let encoded = path.strip_prefix('/')?;
        let mut relative = String::with_capacity(encoded.len());
        let mut folder = true;
        for segment in encoded.split('/') {
            if !is_well_encoded(segment) {
                return None;
            }
            let name = percent_decode_str(segment).decode_utf8().ok()?;
            folder = matches!(&*name, "" | ".");
            match &*name {
                "" | "." => (),
                ".." => return None,
                // An encoded slash would be part of a file name, which cannot contain one.
                name if name.contains(['/', '\\', '\0']) => return None,
                name => {
                    if !relative.is_empty() {
                        relative.push('/');
                    }
                    relative.push_str(name);
                }
            }
        }
        Some(Self { relative: relative.into(), folder })
    }

    /// Returns whether it leads through a private dot file.
    pub fn is_hidden(&self) -> bool {
        self.relative.iter().any(is_hidden)
    }

    /// Returns the decoded path.
    pub fn decoded(&self) -> String {
        let relative = self.relative.to_string_lossy();
        let mut decoded = String::with_capacity(relative.len() + 2);
        decoded.push('/');
        decoded.push_str(&relative);
        if self.folder && !relative.is_empty() {
            decoded.push('/');
        }
        decoded
    }
}

/// Returns whether a name is a private dot file; `.well-known` is public (RFC 8615).
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") && name != ".well-known"
}

/// Returns whether a segment is visible ASCII with two hexadecimal digits after each `%`.
fn is_well_encoded(segment: &str) -> bool {
    let hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let valid = match byte {
            b'%' => hex(bytes.next()) && hex(bytes.next()),
            b'#' => false,
            byte => byte.is_ascii_graphic(),
        };
        if !valid {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_path_stays_below_root() {
        let url_path = |relative: &str, folder| Some(UrlPath { relative: relative.into(), folder });
        for (path, expected) in [
            ("/", url_path("", true)),
            ("/a", url_path("a", false)),
            ("/a/", url_path("a", true)),
            ("/a/.", url_path("a", true)),
            ("//a/./b%20c", url_path("a/b c", false)),
            ("/%61", url_path("a", false)),
            ("/..", None),
            ("/../x", None),
            ("/a/../x", None),
            ("/%2e%2e/x", None),
            ("/.%2E/x", None),
            ("/..%2fx", None),
            ("/a%2fb", None),
            ("/a%5cb", None),
            ("/a\\b", None),
            ("/a%00b", None),
            ("/a%2", None),
            ("/a%zz", None),
            ("/a%ff", None),
            ("/a%c0%ae", None),
            ("/a b", None),
            ("/a#b", None),
            ("a", None),
            ("", None),
            ("*", None),
        ] {
            assert_eq!(UrlPath::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn decoded_path_has_single_slashes() {
        for (path, decoded) in
            [("/", "/"), ("//", "/"), ("//evil.example/", "/evil.example/"), ("/a%20b", "/a b")]
        {
            assert_eq!(UrlPath::parse(path).unwrap().decoded(), decoded);
        }
    }
}
