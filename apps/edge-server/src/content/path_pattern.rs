//! Path pattern of a rule: `*` and `?` do not match slashes, `**` does.

use anyhow::ensure;
use globset::GlobBuilder;
use globset::GlobMatcher;

/// Pattern for decoded paths, which begin with a slash.
#[derive(Clone, Debug)]
pub struct PathPattern(GlobMatcher);

impl PathPattern {
    /// Parses the pattern of a rule of this `kind`.
    ///
    /// # Errors
    ///
    /// One line that names the invalid pattern.
    pub fn new(kind: &str, path: &str) -> anyhow::Result<Self> {
        // As in ignore files, a name without folders matches in all of them.
        let pattern = if path.contains('/') { path.to_owned() } else { format!("**/{path}") };
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
        let glob = glob.map_err(|e| anyhow::anyhow!("{kind}: path = '{path}': {}", e.kind()))?;
        let starts = pattern.starts_with('/') || pattern.starts_with("**");
        ensure!(starts, "{kind}: path = '{path}': begin with / or **/");
        Ok(Self(glob.compile_matcher()))
    }

    /// Returns whether it matches a path.
    pub fn is_match(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}
