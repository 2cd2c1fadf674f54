//! Traces that a scenario file names: `trace = "file"` in `[path]`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use link::PathTrace;
use serde::Serializer;
use toml::Table;
use toml::Value;

/// A trace, and the name by which a scenario file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    pub name: String,
    pub trace: PathTrace,
}

#[expect(clippy::ref_option, reason = "serde's signature")]
pub fn serialize_name<S: Serializer>(
    file: &Option<Arc<TraceFile>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(file.as_ref().map_or("", |file| &file.name))
}

/// Traces of a scenario file, each read once.
pub struct Traces {
    /// The folder that names count from: the scenario file's.
    folder: PathBuf,
    read: RefCell<BTreeMap<String, Arc<TraceFile>>>,
}

impl Traces {
    /// Creates the traces of the scenario file at `source`.
    pub fn of(source: &str) -> Self {
        let folder = Path::new(source).parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, read: RefCell::default() }
    }

    /// Takes the trace out of the table `[path]`. Sets a rate and a round-trip time that the table
    /// does not have to the means of the trace.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, or says neither.
    pub fn take(&self, path: &mut Table) -> anyhow::Result<Option<Arc<TraceFile>>> {
        let Some(value) = path.remove("trace") else { return Ok(None) };
        let Value::String(name) = value else {
            bail!("path.trace = {value}: must be the name of a file in quotes")
        };
        let file = self.read(&name)?;
        let trace = &file.trace;
        for (key, mean) in [("rate_mbps", trace.mean_rate_mbps()), ("rtt_ms", trace.mean_rtt_ms())]
        {
            match mean {
                Some(mean) if !path.contains_key(key) => {
                    // Not more digits than a trace has.
                    path.insert(key.to_owned(), Value::Float((mean * 1e3).round() / 1e3));
                }
                _ => {}
            }
        }
        Ok(Some(file))
    }

    fn read(&self, name: &str) -> anyhow::Result<Arc<TraceFile>> {
        if let Some(trace) = self.read.borrow().get(name) {
            return Ok(Arc::clone(trace));
        }
        let trace = PathTrace::read(&self.folder.join(name))
            .map(|trace| Arc::new(TraceFile { name: name.to_owned(), trace }))
            .map_err(|error| anyhow::anyhow!("path.trace: {error}"))?;
        self.read.borrow_mut().insert(name.to_owned(), Arc::clone(&trace));
        Ok(trace)
    }
}
