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

/// Most objects of a page, and bytes of each.
const OBJECTS_MAX: usize = 10_000;
const OBJECT_BYTES_MAX: u64 = 1 << 32;

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
    const GZIP: &[u8] = &[0x1f, 0x8b];
    ensure!(!text.starts_with(GZIP), "is compressed; unpack it with gunzip");
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let HarFile { log } = serde_json::from_slice(text)
        .context("is no HTTP archive; save one from a browser's network tools")?;
    let responses = log.entries.iter().filter_map(|entry| entry.response.as_ref());
    let objects: Vec<u64> = responses.map(HarResponse::bytes).filter(|bytes| *bytes > 0).collect();
    ensure!(
        (1..=OBJECTS_MAX).contains(&objects.len()),
        "has {} responses with a body; a page has 1 to {OBJECTS_MAX}",
        objects.len()
    );
    if let Some(bytes) = objects.iter().find(|bytes| **bytes > OBJECT_BYTES_MAX) {
        bail!("has a response of {bytes} bytes; at most {OBJECT_BYTES_MAX}");
    }
    Ok(objects)
}

/// The part of an HTTP archive that counts. Programs write sizes as they like: -1 for unknown ones,
/// with a fraction, or not at all.
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
    #[serde(default)]
    response: Option<HarResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarResponse {
    /// Headers and body as transferred, in Chromium's archives.
    #[serde(default, rename = "_transferSize")]
    transfer_size: Option<f64>,
    /// As transferred: 0 from a cache, and -1 if unknown.
    #[serde(default)]
    body_size: Option<f64>,
    #[serde(default)]
    content: Option<HarContent>,
}

#[derive(Deserialize)]
struct HarContent {
    /// Decoded.
    #[serde(default)]
    size: f64,
    /// By how much the transferred body was smaller.
    #[serde(default)]
    compression: f64,
}

impl HarResponse {
    fn bytes(&self) -> u64 {
        let decoded = || self.content.as_ref().map(|content| content.size - content.compression);
        let known = |size: &f64| *size >= 0.0;
        let told = self.transfer_size.filter(known).or(self.body_size.filter(known));
        told.or_else(decoded).map_or(0, |bytes| bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_responses_with_a_body() {
        let text = br#"{"log": {"version": "1.2", "entries": [
            {"response": {"status": 200, "bodySize": 700, "content": {"size": 3000}}},
            {"response": {"bodySize": -1, "content": {"size": 4000, "compression": 900}}},
            {"response": {"bodySize": -1, "_transferSize": 1234.0, "content": {"size": 4000}}},
            {"response": {"bodySize": 0, "content": {"size": 9000}}},
            {"response": {"content": {"size": -1}}},
            {"response": null},
            {"request": {}},
            {"response": {"bodySize": 5}}
        ]}}"#;
        assert_eq!(objects(text).unwrap(), [700, 3100, 1234, 5]);
        assert_eq!(objects(&["\u{feff}".as_bytes(), text].concat()).unwrap().len(), 4);
    }

    #[test]
    fn page_without_objects_is_an_error() {
        for (text, words) in [
            (&b"{}"[..], "is no HTTP archive"),
            (b"", "is no HTTP archive"),
            (b"\x1f\x8b\x08", "is compressed; unpack it"),
            (br#"{"log": {"entries": []}}"#, "has 0 responses with a body"),
            (
                br#"{"log": {"entries": [{"response": {"bodySize": 1e15}}]}}"#,
                "a response of 1000000000000000",
            ),
        ] {
            let error = format!("{:#}", objects(text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }
}
