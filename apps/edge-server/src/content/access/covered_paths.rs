//! Paths that an access rule covers: those that its pattern matches, and all below them, so that no
//! rule for a folder leaves its contents open.

use anyhow::ensure;

use crate::content::path_pattern::PathPattern;
use crate::http::content_coding::Coding;

/// Kind of the rules, in messages.
const KIND: &str = "access";

/// Paths of a rule.
#[derive(Clone, Debug)]
pub struct CoveredPaths {
    pattern: PathPattern,
    below: PathPattern,

    /// Only what these match themselves.
    except: Vec<PathPattern>,
}

impl CoveredPaths {
    /// Parses the patterns of a rule.
    ///
    /// # Errors
    ///
    /// One line that names the invalid pattern, or one that excepts nothing, or all.
    pub fn new(path: &str, except: &[String]) -> anyhow::Result<Self> {
        let pattern = PathPattern::new(KIND, path)?;
        let below = pattern.below(KIND)?;
        let mut covered = Self { pattern, below, except: Vec::new() };
        for text in except {
            let parsed = PathPattern::new("access: except", text)?;
            ensure!(
                covered.may_contain(&parsed),
                "access: except = '{text}': path = '{path}' does not cover it; leave it out"
            );
            ensure!(
                ![path, "**", "/**"].contains(&text.as_str()),
                "access: except = '{text}' leaves nothing of path = '{path}'; leave one of them out"
            );
            covered.except.push(parsed);
        }
        Ok(covered)
    }

    /// Returns whether the rule is for a decoded path.
    pub fn contains(&self, path: &str) -> bool {
        self.covers(path) && !self.except.iter().any(|except| except.is_match(path))
    }

    /// Returns whether the pattern matches a path, or a folder above it, or the folder that it names
    /// without a slash, or the file whose compressed sibling it is.
    fn covers(&self, path: &str) -> bool {
        let is_sibling = || {
            let plain = Coding::ALL.iter().find_map(|coding| path.strip_suffix(coding.suffix()));
            plain.is_some_and(|plain| self.pattern.is_match(plain))
        };
        let is_folder = || !path.ends_with('/') && self.pattern.is_match(&format!("{path}/"));
        self.pattern.is_match(path) || self.below.is_match(path) || is_sibling() || is_folder()
    }

    /// Returns whether another pattern may match something that is covered: in doubt, it may.
    fn may_contain(&self, other: &PathPattern) -> bool {
        match other.literal() {
            Some(path) => self.covers(path),
            None => {
                let own = self.pattern.literal_start().trim_end_matches('/');
                let other = other.literal_start();
                own.starts_with(other) || other.starts_with(own)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_covers_what_is_below() {
        for (path, covered, open) in [
            ("/a", &["/a", "/a/", "/a/b", "/a/b/c", "/a.br"][..], &["/", "/ab", "/b/a", "/A"][..]),
            ("/a/", &["/a", "/a/", "/a/b", "/a/b/c"], &["/ab", "/b/a/"]),
            ("/a/*", &["/a", "/a/", "/a/b", "/a/b/c"], &["/ab", "/b"]),
            ("/a/**", &["/a", "/a/", "/a/b", "/a/b/c"], &["/ab", "/b"]),
            ("/a/*/c", &["/a/b/c", "/a/b/c/d"], &["/a", "/a/b", "/a/b/d"]),
            ("/", &["/", "/a", "/a/b"], &[]),
            ("**", &["/", "/a", "/a/b"], &[]),
            ("a", &["/a", "/b/a", "/b/a/c"], &["/", "/b", "/ab"]),
            ("*.pdf", &["/a.pdf", "/b/a.pdf", "/b/a.pdf.gz"], &["/a.pdfx", "/pdf"]),
            ("/{a,b}", &["/a", "/b/c"], &["/c"]),
        ] {
            let rule = CoveredPaths::new(path, &[]).unwrap();
            assert!(covered.iter().all(|path| rule.contains(path)), "{path} {covered:?}");
            assert!(!open.iter().any(|path| rule.contains(path)), "{path} {open:?}");
        }
    }

    #[test]
    fn exception_is_no_more_than_its_pattern_matches() {
        let except = ["/a/open".to_owned(), "/a/all/**".to_owned()];
        let rule = CoveredPaths::new("/a", &except).unwrap();
        for (path, expected) in [
            ("/a/open", false),
            ("/a/open/x", true),
            ("/a/open.br", true),
            ("/a/all/x/y", false),
            ("/a/all", true),
            ("/a/x", true),
        ] {
            assert_eq!(rule.contains(path), expected, "{path}");
        }
    }

    #[test]
    fn exception_of_nothing_or_all_is_refused() {
        for (path, except, why) in [
            ("/a/**", "/b", Some("path = '/a/**' does not cover it")),
            ("/a", "/ab", Some("does not cover it")),
            ("/a/**", "/b/**", Some("does not cover it")),
            ("*.pdf", "/a.html", Some("does not cover it")),
            ("/a", "/a", Some("leaves nothing")),
            ("/a", "**", Some("leaves nothing")),
            ("**", "**", Some("leaves nothing")),
            ("/a", "/a/../b", Some("access: except: path = '/a/../b': ")),
            ("/a", "/a/b", None),
            ("/a/**", "/a", None),
            ("/a/*/c", "/a/b/c", None),
            ("/a/*/c", "/a/b*", None),
            ("/a/b", "*.html", None),
            ("**", "/a", None),
            ("*.pdf", "/a/*.pdf", None),
        ] {
            let made = CoveredPaths::new(path, &[except.to_owned()]).map(drop);
            let error = made.map_err(|e| e.to_string()).err();
            assert_eq!(error.is_some(), why.is_some(), "{path} {except} {error:?}");
            assert!(why.is_none_or(|why| error.unwrap().contains(why)), "{path} {except}");
        }
    }
}
