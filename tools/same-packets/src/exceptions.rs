//! Exceptions: scenarios that a patch changes, read from the table of a page.
//!
//! A row of the table is `| patch | scenarios | reason |`. It names a patch without its
//! number: `10-fixes/stream-subject`.

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The exceptions of a series, or of its first patches.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    /// Patch and scenario.
    pairs: BTreeSet<(String, String)>,
}

impl Exceptions {
    /// Reads the rows of a page whose patches are among the first `applied` of a series.
    pub fn read(page: &Path, series: &Path, applied: Option<usize>) -> Result<Self> {
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        Self::parse(&read(page)?, &read(series)?, applied)
            .with_context(|| format!("table of {}", page.display()))
    }

    /// Returns the rows of a page's text.
    pub fn parse(page: &str, series: &str, applied: Option<usize>) -> Result<Self> {
        let series = series
            .lines()
            .map(|l| l.split('#').next().unwrap_or_default().trim())
            .filter(|l| !l.is_empty());
        let all: Vec<String> = series.map(without_number).collect();
        let applied = &all[..applied.unwrap_or(all.len()).min(all.len())];
        let mut pairs = BTreeSet::new();
        for line in page.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, patch, scenarios, _, _] = cells[..] else { continue };
            let Some(patch) = quoted(patch).next().filter(|p| p.contains('/')) else { continue };
            if !all.iter().any(|p| p == patch) {
                bail!(
                    "no patch of the series is named {patch}, without its number: correct the row"
                );
            }
            let is_applied = applied.iter().any(|p| p == patch);
            pairs.extend(
                quoted(scenarios)
                    .filter(|_| is_applied)
                    .map(|s| (patch.to_string(), s.to_string())),
            );
        }
        Ok(Self { pairs })
    }

    /// Returns the patches that change a scenario.
    pub fn of(&self, scenario: &str) -> Vec<&str> {
        self.pairs
            .iter()
            .filter(|(_, name)| name == scenario)
            .map(|(patch, _)| patch.as_str())
            .collect()
    }

    /// Returns the scenarios of all rows.
    pub fn scenarios(&self) -> BTreeSet<&str> {
        self.pairs.iter().map(|(_, scenario)| scenario.as_str()).collect()
    }

    /// Compares the table with changes that were found: a patch and a scenario on each
    /// line. Returns a line for each difference.
    pub fn differences(&self, found: &str, scenarios: &[String]) -> Vec<String> {
        let pair = |line: &str| {
            line.split_once(' ').map(|(patch, s)| (without_number(patch), s.to_string()))
        };
        let found: BTreeSet<(String, String)> = found.lines().filter_map(pair).collect();
        let missing = found
            .difference(&self.pairs)
            .map(|(p, s)| format!("{p} changes {s}: add it to the table"));
        let stale = self.pairs.difference(&found).filter(|(_, s)| scenarios.contains(s));
        missing
            .chain(
                stale.map(|(p, s)| format!("{p} no longer changes {s}: remove it from the table")),
            )
            .collect()
    }
}

/// Returns the texts in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns a patch's name without its number and its suffix.
fn without_number(name: &str) -> String {
    let name = name.strip_suffix(".patch").unwrap_or(name);
    match name.split_once('/') {
        Some((topic, rest)) => {
            format!("{topic}/{}", rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-'))
        }
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: &str = "# comment\n10-fixes/01-lib-one.patch\n40-performance/02-h3-two.patch\n";
    const PAGE: &str = "text\n| patch | scenarios | reason |\n|---|---|---|\n\
        | `10-fixes/lib-one` | `a` `b` | because |\n| `40-performance/h3-two` | `b` | it does |\n";

    fn parse(applied: usize) -> Exceptions {
        Exceptions::parse(PAGE, SERIES, Some(applied)).unwrap()
    }

    #[test]
    fn rows_of_applied_patches_count() {
        assert_eq!(parse(2).of("b"), ["10-fixes/lib-one", "40-performance/h3-two"]);
        assert_eq!(parse(1).of("b"), ["10-fixes/lib-one"]);
        assert!(parse(0).of("a").is_empty());
        assert_eq!(Vec::from_iter(parse(2).scenarios()), ["a", "b"]);
    }

    #[test]
    fn row_of_unknown_patch_is_an_error() {
        let error = Exceptions::parse(PAGE, "10-fixes/01-lib-one.patch", None).unwrap_err();
        assert!(error.to_string().contains("40-performance/h3-two"), "{error}");
    }

    #[test]
    fn differences_name_missing_and_stale_rows() {
        let scenarios = ["a", "b", "c"].map(String::from);
        let found = "10-fixes/01-lib-one.patch a\n10-fixes/01-lib-one.patch b\n40-performance/02-h3-two.patch c";
        assert_eq!(
            parse(2).differences(found, &scenarios),
            [
                "40-performance/h3-two changes c: add it to the table",
                "40-performance/h3-two no longer changes b: remove it from the table"
            ]
        );
        assert_eq!(parse(2).differences("10-fixes/01-lib-one.patch a", &scenarios[..1]), [""; 0]);
    }
}
