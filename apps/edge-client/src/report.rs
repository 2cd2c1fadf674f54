//! Report of a download, as a line of JSON or of text.

use std::time::Duration;

use quiche::ecn::EcnStats;
use serde::Serialize;

use crate::ecn::EcnJson;

/// Measurements of one download. Times count from when the first packet is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurements {
    /// HTTP status; 0 if no response arrived.
    pub status: u16,

    /// Body bytes received.
    pub bytes: u64,

    /// Time to the first body byte.
    pub ttfb: Option<Duration>,

    /// Time to the last body byte; None for an incomplete body.
    pub ttlb: Option<Duration>,

    /// Smallest RTT that the transport measured.
    pub min_rtt: Option<Duration>,

    /// Marks that the transport has seen.
    pub ecn: EcnStats,
}

/// Report of one download. A value that is not known is null.
#[derive(Debug, PartialEq, Serialize)]
pub struct Report {
    url: String,
    bytes: u64,
    ttfb_ms: Option<f64>,
    ttlb_ms: Option<f64>,
    goodput_mbps: Option<f64>,
    min_rtt_ms: Option<f64>,
    status: u16,
    ecn: EcnJson,

    /// Why the download failed; absent from the JSON of a complete one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Report {
    /// Converts `measurements` to the units of the report.
    pub fn new(url: &str, measurements: &Measurements, error: Option<String>) -> Self {
        let goodput_mbps = measurements
            .ttlb
            .filter(|t| !t.is_zero())
            .map(|ttlb| thousandths(measurements.bytes as f64 * 8.0 / 1e6 / ttlb.as_secs_f64()));
        Self {
            url: url.to_owned(),
            bytes: measurements.bytes,
            ttfb_ms: measurements.ttfb.map(millis),
            ttlb_ms: measurements.ttlb.map(millis),
            goodput_mbps,
            min_rtt_ms: measurements.min_rtt.map(millis),
            status: measurements.status,
            ecn: EcnJson::new(&measurements.ecn),
            error,
        }
    }

    /// Returns one line of JSON, without the newline.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data serialises")
    }

    /// Returns one line of text, without the newline.
    pub fn summary(&self) -> String {
        format!(
            "{} bytes in {} ms, {} Mbit/s (first byte {} ms, min RTT {} ms)",
            self.bytes,
            or_unknown(self.ttlb_ms),
            or_unknown(self.goodput_mbps),
            or_unknown(self.ttfb_ms),
            or_unknown(self.min_rtt_ms),
        )
    }
}

pub fn millis(duration: Duration) -> f64 {
    thousandths(duration.as_secs_f64() * 1e3)
}

/// Rounds to thousandths: the clocks are not finer than microseconds.
pub fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn or_unknown(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), |v| format!("{v:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::ecn::EcnState;
    use quiche::ecn::Marks;

    const COMPLETE: Measurements = Measurements {
        status: 200,
        bytes: 6_250_000,
        ttfb: Some(Duration::from_micros(103_204)),
        ttlb: Some(Duration::from_micros(250_000)),
        min_rtt: Some(Duration::from_nanos(50_012_345)),
        ecn: EcnStats {
            state: Some(EcnState::Capable),
            sent: 9,
            received: Marks { ect0: 70, ect1: 0, ce: 3 },
            reported: Marks { ect0: 8, ect1: 0, ce: 1 },
        },
    };

    #[test]
    fn report_of_complete_download_has_no_error() {
        let report = Report::new("https://h/x", &COMPLETE, None);
        assert_eq!(
            report.json(),
            r#"{"url":"https://h/x","bytes":6250000,"ttfb_ms":103.204,"ttlb_ms":250.0,"goodput_mbps":200.0,"min_rtt_ms":50.012,"status":200,"ecn":{"state":"capable","sent":9,"received":{"ect0":70,"ect1":0,"ce":3},"reported":{"ect0":8,"ect1":0,"ce":1}}}"#
        );
    }

    #[test]
    fn summary_has_bytes_time_and_rate() {
        let report = Report::new("https://h/x", &COMPLETE, None);
        assert_eq!(
            report.summary(),
            "6250000 bytes in 250.0 ms, 200.0 Mbit/s (first byte 103.2 ms, min RTT 50.0 ms)"
        );
    }

    #[test]
    fn report_of_failed_download_says_why() {
        let error = Some("refused".to_owned());
        let report = Report::new("https://h/x", &Measurements::default(), error);
        assert_eq!(
            report.json(),
            r#"{"url":"https://h/x","bytes":0,"ttfb_ms":null,"ttlb_ms":null,"goodput_mbps":null,"min_rtt_ms":null,"status":0,"ecn":{"state":null,"sent":0,"received":{"ect0":0,"ect1":0,"ce":0},"reported":{"ect0":0,"ect1":0,"ce":0}},"error":"refused"}"#
        );
    }

    #[test]
    fn goodput_in_no_time_is_unknown() {
        let at_once = Measurements { ttlb: Some(Duration::ZERO), ..COMPLETE };
        let report = Report::new("https://h/x", &at_once, None);
        assert!(report.json().contains(r#""goodput_mbps":null"#));
        assert!(report.summary().contains("? Mbit/s"));
    }
}
