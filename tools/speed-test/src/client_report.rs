//! Report that edge-client prints.

use anyhow::bail;
use anyhow::Context;
use serde::Deserialize;

/// Line that the client prints for one download.
#[derive(Clone, Debug, Deserialize)]
pub struct ClientReport {
    pub bytes: u64,
    pub ttfb_ms: f64,
    pub ttlb_ms: f64,
    pub min_rtt_ms: Option<f64>,
    pub status: u16,
}

impl ClientReport {
    /// Reads the client's output.
    ///
    /// # Errors
    ///
    /// It is not one complete download of `object_bytes`.
    pub fn parse(output: &str, object_bytes: u64) -> anyhow::Result<Self> {
        let report = ClientReport::parse_any(output)?;
        if report.bytes != object_bytes {
            bail!("the client received {} of {object_bytes} bytes", report.bytes);
        }
        Ok(report)
    }

    /// Reads the client's output, whatever the object's size.
    ///
    /// # Errors
    ///
    /// It is not one complete download.
    pub fn parse_any(output: &str) -> anyhow::Result<Self> {
        let line = output.lines().next_back().unwrap_or_default();
        let report: ClientReport = serde_json::from_str(line)
            .with_context(|| format!("edge-client printed {line:?}, which is no report"))?;
        if report.status != 200 {
            bail!("the server answered with status {}", report.status);
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_must_be_complete() {
        let line = r#"{"url":"u","bytes":10,"ttfb_ms":1.5,"ttlb_ms":2.5,"goodput_mbps":1,"min_rtt_ms":0.5,"status":200}"#;
        assert_eq!(ClientReport::parse(line, 10).expect("complete").ttlb_ms, 2.5);
        assert!(ClientReport::parse(line, 11).is_err());
        assert!(ClientReport::parse(&line.replace("200", "404"), 10).is_err());
        assert!(ClientReport::parse("", 10).is_err());
    }
}
