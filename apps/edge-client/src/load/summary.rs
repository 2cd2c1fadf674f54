//! Summary of a load: counts, rates, and times of requests.

use std::time::Duration;

use quiche::ecn::EcnStats;
use serde::Serialize;

use crate::ecn::EcnSum;
use crate::ecn::EcnSumJson;
use crate::report::millis;
use crate::report::thousandths;

/// Counts and times of a load so far.
#[derive(Debug)]
pub struct Summary {
    url: String,
    requests: u32,
    failed: u32,
    bytes: u64,
    duration: Duration,
    handshakes: Vec<Duration>,
    responses: Vec<Duration>,
    ecn: EcnSum,
    error: Option<String>,
}

/// [`Summary`] as JSON.
#[derive(Debug, Serialize)]
struct SummaryJson<'a> {
    url: &'a str,
    requests: u32,
    failed: u32,
    connections: usize,
    bytes: u64,
    seconds: f64,
    requests_per_s: f64,
    goodput_mbps: f64,
    handshake_ms: Percentiles,
    ttlb_ms: Percentiles,
    ecn: EcnSumJson,

    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Percentiles of times in ms; null without any.
#[derive(Debug, PartialEq, Serialize)]
struct Percentiles {
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Summary {
    pub fn new(url: &str, requests: u32) -> Self {
        Self {
            url: url.to_owned(),
            requests,
            failed: 0,
            bytes: 0,
            duration: Duration::ZERO,
            handshakes: Vec::new(),
            responses: Vec::new(),
            ecn: EcnSum::default(),
            error: None,
        }
    }

    /// Counts a connection that was established `after` its first packet.
    pub fn count_connection(&mut self, after: Duration) {
        self.handshakes.push(after);
    }

    /// Counts the marks of a connection that has ended.
    pub fn count_ecn(&mut self, connection: &EcnStats) {
        self.ecn.add(connection);
    }

    /// Counts a complete response that arrived `after` its request.
    pub fn count_response(&mut self, bytes: u64, after: Duration) {
        self.bytes += bytes;
        self.responses.push(after);
    }

    /// Counts failed requests.
    pub fn count_failed(&mut self, requests: u32, reason: &str) {
        if requests > 0 {
            self.failed += requests;
            self.error.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Sets the duration of the whole load.
    pub fn set_duration(&mut self, duration: Duration) {
        self.duration = duration;
    }

    /// Returns how many requests have succeeded or failed.
    pub fn finished(&self) -> u64 {
        self.responses.len() as u64 + u64::from(self.failed)
    }

    /// Describes how many requests failed, and why the first did.
    pub fn failure(&self) -> Option<String> {
        let reason = self.error.as_ref()?;
        Some(format!("{} of {} requests failed: {reason}", self.failed, self.requests))
    }

    /// Returns one line of JSON, without the newline.
    pub fn json(&self) -> String {
        let seconds = self.duration.as_secs_f64();
        let line = SummaryJson {
            url: &self.url,
            requests: self.requests,
            failed: self.failed,
            connections: self.handshakes.len(),
            bytes: self.bytes,
            seconds: thousandths(seconds),
            requests_per_s: thousandths(self.responses.len() as f64 / seconds.max(1e-9)),
            goodput_mbps: thousandths(self.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9)),
            handshake_ms: Percentiles::of(&self.handshakes),
            ttlb_ms: Percentiles::of(&self.responses),
            ecn: self.ecn.json(),
            error: self.error.as_deref(),
        };
        serde_json::to_string(&line).expect("plain data serialises")
    }

    /// Returns one line of text, without the newline.
    pub fn line(&self) -> String {
        let seconds = self.duration.as_secs_f64();
        let ttlb = Percentiles::of(&self.responses);
        let shown = |ms: Option<f64>| ms.map_or_else(|| "?".to_owned(), |ms| format!("{ms:.1}"));
        format!(
            "{} of {} requests on {} connections in {seconds:.1} s, {:.0} a second, {:.1} Mbit/s; \
             each {} ms (half of them), at most {} ms (99 %), {} ms (all)",
            self.responses.len(),
            self.requests,
            self.handshakes.len(),
            self.responses.len() as f64 / seconds.max(1e-9),
            self.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9),
            shown(ttlb.p50),
            shown(ttlb.p99),
            shown(ttlb.max),
        )
    }
}

impl Percentiles {
    fn of(times: &[Duration]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let at = |share: usize| sorted.get(last * share / 100).copied().map(millis);
        Self { p50: at(50), p99: at(99), max: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::ecn::EcnState;
    use quiche::ecn::Marks;

    #[test]
    fn summary_has_counts_and_times() {
        let mut summary = Summary::new("https://h/x", 102);
        for ms in 1..=101 {
            summary.count_response(1000, Duration::from_millis(ms));
        }
        summary.count_connection(Duration::from_micros(1500));
        let marks = |ect0, ce| Marks { ect0, ect1: 0, ce };
        for state in [Some(EcnState::Capable), Some(EcnState::Failed), None] {
            summary.count_ecn(&EcnStats {
                state,
                sent: 5,
                received: marks(7, 1),
                reported: marks(4, 0),
            });
        }
        summary.count_failed(1, "gone");
        summary.count_failed(0, "not counted");
        summary.set_duration(Duration::from_millis(500));
        assert_eq!(
            summary.json(),
            r#"{"url":"https://h/x","requests":102,"failed":1,"connections":1,"bytes":101000,"seconds":0.5,"requests_per_s":202.0,"goodput_mbps":1.616,"handshake_ms":{"p50":1.5,"p99":1.5,"max":1.5},"ttlb_ms":{"p50":51.0,"p99":100.0,"max":101.0},"ecn":{"capable":1,"sent":15,"received":{"ect0":21,"ect1":0,"ce":3},"reported":{"ect0":12,"ect1":0,"ce":0}},"error":"gone"}"#
        );
        assert_eq!(summary.failure().unwrap(), "1 of 102 requests failed: gone");
        assert_eq!(summary.finished(), 102);
        assert!(summary.line().starts_with("101 of 102 requests on 1 connections in 0.5 s"));
    }

    #[test]
    fn summary_without_measurements_has_nulls() {
        let summary = Summary::new("https://h/x", 1);
        assert!(summary.json().contains(r#""ttlb_ms":{"p50":null,"p99":null,"max":null}"#));
        assert_eq!(summary.failure(), None);
    }
}
