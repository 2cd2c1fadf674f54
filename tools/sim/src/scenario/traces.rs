//! Traces that a scenario file names: `trace = "file"` in `[path]`.

use std::sync::Arc;

use anyhow::bail;
use link::PathTrace;
use serde::Serializer;
use toml::Table;
use toml::Value;

use super::named_files::NamedFiles;

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

/// Takes the trace out of the table `[path]`. Sets a rate and a round-trip time that the table
/// does not have to the means of the trace.
///
/// # Errors
///
/// The trace cannot be read, or says neither.
pub fn take(
    traces: &NamedFiles<TraceFile>,
    path: &mut Table,
) -> anyhow::Result<Option<Arc<TraceFile>>> {
    let Some(value) = path.remove("trace") else { return Ok(None) };
    let Value::String(name) = value else {
        bail!("path.trace = {value}: must be the name of a file in quotes")
    };
    let file = traces.get(&name, |path| {
        let trace = PathTrace::read(path).map_err(|e| anyhow::anyhow!("path.trace: {e}"))?;
        Ok(TraceFile { name: name.clone(), trace })
    })?;
    let trace = &file.trace;
    for (key, mean) in [("rate_mbps", trace.mean_rate_mbps()), ("rtt_ms", trace.mean_rtt_ms())] {
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
