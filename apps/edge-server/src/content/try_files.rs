//! Substitute files: what a host serves for a path that names no file, such as the page of an
//! application that has its routes in the browser.

use anyhow::ensure;

use crate::content::url_path::UrlPath;

/// What stands for the path of the request, at the start of a pattern.
const PATH: &str = "{path}";

/// Patterns of substitute files, by preference.
#[derive(Clone, Debug, Default)]
pub struct TryFiles(Vec<Pattern>);

#[derive(Clone, Debug)]
enum Pattern {
    File(UrlPath),

    /// What follows the path of the request.
    Suffix(String),
}

impl TryFiles {
    /// Validates the patterns.
    ///
    /// # Errors
    ///
    /// One line that names the invalid one.
    pub fn new(patterns: &[String]) -> anyhow::Result<Self> {
        patterns.iter().map(|pattern| Pattern::new(pattern)).collect::<Result<_, _>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the paths of the files that stand for every path.
    pub fn files(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().filter_map(|pattern| match pattern {
            Pattern::File(file) => Some(file.decoded()),
            Pattern::Suffix(_) => None,
        })
    }

    /// Returns the substitutes for a path.
    pub fn of<'a>(&'a self, url_path: &'a UrlPath) -> impl Iterator<Item = UrlPath> + 'a {
        self.0.iter().filter_map(|pattern| pattern.of(url_path))
    }
}

impl Pattern {
    fn new(pattern: &str) -> anyhow::Result<Self> {
        let suffix = pattern.strip_prefix(PATH);
        ensure!(
            suffix.is_none_or(|suffix| !suffix.is_empty()),
            "try-files: '{pattern}' is tried first anyway; leave it out"
        );
        // With a name in front, of which the suffix is a part.
        let shown = suffix.map_or_else(|| pattern.to_owned(), |suffix| format!("/x{suffix}"));
        let is_plain = !shown.contains(['{', '}', '%']) && !shown.ends_with('/');
        let file = UrlPath::parse(&shown).filter(|path| is_plain && !path.is_hidden());
        match (file, suffix) {
            (Some(file), None) => Ok(Self::File(file)),
            (Some(_), Some(suffix)) => Ok(Self::Suffix(suffix.to_owned())),
            (None, _) => anyhow::bail!(
                "try-files: '{pattern}': write the path of a file, /index.html, or {PATH} and what \
                 follows it, {PATH}.html or {PATH}/index.html"
            ),
        }
    }

    /// Returns the substitute for a path, if it has one: the root has no name to add to.
    fn of(&self, url_path: &UrlPath) -> Option<UrlPath> {
        match self {
            Self::File(file) => Some(file.clone()),
            Self::Suffix(suffix) => {
                let mut name = url_path.relative.clone().into_os_string();
                name.push(suffix);
                let is_named = !url_path.relative.as_os_str().is_empty();
                is_named.then(|| UrlPath { relative: name.into(), folder: false })
            }
        }
    }
}
