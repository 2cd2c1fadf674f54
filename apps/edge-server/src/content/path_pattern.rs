//! Path pattern of a rule: `*` and `?` do not match slashes, `**` does.

use anyhow::ensure;
use globset::GlobBuilder;
use globset::GlobMatcher;

/// Characters that begin what is not literal.
const GLOB: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Pattern for decoded paths, which begin with a slash.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: String,
    matcher: GlobMatcher,

    /// What all paths begin with that it matches, if it matches all that do.
    start: Option<String>,
}

impl PathPattern {
    /// Parses the pattern of a rule of this `kind`.
    ///
    /// # Errors
    ///
    /// One line that names the invalid pattern.
    pub fn new(kind: &str, path: &str) -> anyhow::Result<Self> {
        // As in ignore files, a name without folders matches in all of them.
        let text = if path.contains('/') { path.to_owned() } else { format!("**/{path}") };
        if let Some(why) = never_matches(path) {
            anyhow::bail!("{kind}: path = '{path}': {why}");
        }
        let glob = GlobBuilder::new(&text).literal_separator(true).build();
        let glob = glob.map_err(|e| anyhow::anyhow!("{kind}: path = '{path}': {}", e.kind()))?;
        let starts = text.starts_with('/') || text.starts_with("**");
        ensure!(starts, "{kind}: path = '{path}': begin with / or **/");
        let start =
            text.strip_suffix("**").filter(|start| start.starts_with('/') && start.ends_with('/'));
        let start = start.filter(|start| !start.contains(GLOB)).map(str::to_owned);
        Ok(Self { matcher: glob.compile_matcher(), text, start })
    }

    /// Returns the pattern of all that is below what this one matches.
    ///
    /// # Errors
    ///
    /// There is none that is known.
    pub fn below(&self, kind: &str) -> anyhow::Result<Self> {
        Self::new(kind, &format!("{}/**", self.text.trim_end_matches('/')))
    }

    /// Returns whether it matches a path.
    pub fn is_match(&self, path: &str) -> bool {
        match &self.start {
            Some(start) => path.starts_with(start.as_str()),
            None => self.matcher.is_match(path),
        }
    }

    /// Returns the one path that it matches, unless it may match others.
    pub fn literal(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| !text.contains(GLOB))
    }

    /// Returns what all paths that it matches begin with.
    pub fn literal_start(&self) -> &str {
        self.text.split(GLOB).next().unwrap_or_default()
    }
}

/// Returns why a pattern matches no decoded path, and what to write, if that is known.
pub fn never_matches(path: &str) -> Option<&'static str> {
    let query = path.split_once('?').map_or("", |(_, rest)| rest);
    let is_encoded = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if path.is_empty() {
        Some("it is empty; write ** for all paths")
    } else if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        Some("paths have no . and .. when they are compared; leave such parts out")
    } else if path.contains("//") {
        Some("paths have single slashes when they are compared; write one")
    } else if query.contains(['=', '&']) {
        Some("it is compared with the path without the query; leave the query out")
    } else if path.split('%').skip(1).any(is_encoded) {
        Some("it is compared with the decoded path; write the characters themselves, [%] for %")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_of_all_below_matches_as_a_glob_does() {
        for text in ["/a/**", "/**", "/a b/c/**", "/a*/**", "/a", "**"] {
            let pattern = PathPattern::new("x", text).unwrap();
            for path in ["/", "/a", "/a/", "/a/b", "/a/b/\n", "/a b/c/", "/a b/cd", "/ab/c", "/A/b"]
            {
                assert_eq!(
                    pattern.is_match(path),
                    pattern.matcher.is_match(path),
                    "{text} {path:?}"
                );
            }
        }
    }

    #[test]
    fn pattern_that_matches_no_path_is_refused() {
        for (path, why) in [
            ("", Some("it is empty; write **")),
            ("/a/../b", Some("no . and ..")),
            ("/..", Some("no . and ..")),
            ("./a", Some("no . and ..")),
            ("/a/.", Some("no . and ..")),
            ("//a", Some("single slashes")),
            ("/a?b=1", Some("without the query")),
            ("/a?b&c", Some("without the query")),
            ("/a%20b", Some("write the characters themselves")),
            ("/%2e%2e/b", Some("write the characters themselves")),
            ("a/b", Some("begin with / or **/")),
            ("/[", Some("unclosed")),
            ("**", None),
            ("*.m?u8", None),
            ("/a/..b/.c/d...", None),
            ("/a?b", None),
            ("/100%", None),
            ("/[%]20", None),
            ("/{a,b}/**", None),
        ] {
            let error = PathPattern::new("x", path).map(drop).map_err(|e| e.to_string());
            match (error, why) {
                (Ok(()), None) => (),
                (Err(error), Some(why)) => {
                    let named = format!("x: path = '{path}': ");
                    assert!(error.starts_with(&named) && error.contains(why), "{error}");
                }
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}
