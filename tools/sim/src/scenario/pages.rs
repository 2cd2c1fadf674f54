//! Pages that a scenario file names: `page = "file.har"` in a `[[flow]]`.
//!
//! Of an HTTP archive (HAR 1.2), the sizes of the responses count, in its order: what a browser's
//! developer tools save.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use serde::Deserialize;
use serde::Serializer;
use toml::Table;
use toml::Value;

use super::named_files::NamedFiles;

/// Most objects of a page.
const OBJECTS_MAX: usize = 10_000;

/// Objects of a page, and the name by which a scenario file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub name: String,
    /// Their sizes in bytes: first the document, then what it refers to.
    pub objects: Vec<u64>,
}

#[expect(clippy::ref_option, reason = "serde's signature")]
pub fn serialize_name<S: Serializer>(page: &Option<Arc<Page>>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(page.as_ref().map_or("", |page| &page.name))
}

/// Takes the page out of a flow's table.
///
/// # Errors
///
/// The page cannot be read, or has no object.
pub fn take(
    pages: &NamedFiles<Page>,
    flow: &str,
    table: &mut Table,
) -> anyhow::Result<Option<Arc<Page>>> {
    let Some(value) = table.remove("page") else { return Ok(None) };
    let Value::String(name) = value else {
        bail!("{flow}.page = {value}: must be the name of a HAR file in quotes")
    };
    let read = |path: &Path| {
        let objects = objects(&fs::read(path).context("cannot be read")?)?;
        Ok(Page { name: name.clone(), objects })
    };
    pages.get(&name, read).map(Some).with_context(|| format!("{flow}.page = \"{name}\""))
}

/// Returns the sizes of an archive's responses.
fn objects(text: &[u8]) -> anyhow::Result<Vec<u64>> {
    let HarFile { log } = serde_json::from_slice(text)
        .context("is no HTTP archive; save one from a browser's network tools")?;
    let objects: Vec<u64> =
        log.entries.iter().map(|e| e.response.bytes()).filter(|bytes| *bytes > 0).collect();
    ensure!(
        (1..=OBJECTS_MAX).contains(&objects.len()),
        "has {} responses with a body; a page has 1 to {OBJECTS_MAX}",
        objects.len()
    );
    Ok(objects)
}

/// The part of an HTTP archive that counts.
#[derive(Deserialize)]
struct HarFile {
    log: HarLog,
}

#[derive(Deserialize)]
struct HarLog {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
struct HarEntry {
    response: HarResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarResponse {
    /// As transferred; -1 if the browser does not say.
    #[serde(default)]
    body_size: i64,
    #[serde(default)]
    content: HarContent,
}

#[derive(Default, Deserialize)]
struct HarContent {
    /// Decoded.
    #[serde(default)]
    size: i64,
}

impl HarResponse {
    fn bytes(&self) -> u64 {
        let told = if self.body_size > 0 { self.body_size } else { self.content.size };
        u64::try_from(told).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_responses_with_a_body() {
        let text = br#"{"log": {"version": "1.2", "entries": [
            {"response": {"status": 200, "bodySize": 700, "content": {"size": 3000}}},
            {"response": {"bodySize": -1, "content": {"size": 4000}}},
            {"response": {"bodySize": 0, "content": {"size": 0}}},
            {"response": {"content": {"size": -1}}},
            {"response": {"bodySize": 5}}
        ]}}"#;
        assert_eq!(objects(text).unwrap(), [700, 4000, 5]);
    }

    #[test]
    fn page_without_objects_is_an_error() {
        for (text, words) in [
            ("{}", "is no HTTP archive"),
            ("", "is no HTTP archive"),
            (r#"{"log": {"entries": []}}"#, "has 0 responses with a body"),
        ] {
            let error = format!("{:#}", objects(text.as_bytes()).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }
}
