//! Outcome of one run: one JSON line.

use report::provenance::Provenance;
use serde::Deserialize;
use serde::Serialize;

use crate::scenario::Controller;
use crate::scenario::Mode;

/// One run of one scenario. Times are virtual, since the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the scenario's file, without its ending.
    pub scenario: String,
    /// The values that this run took from the file's lists, as `path.rate_mbps`
    /// → value, in the order of the file.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// From 1, among the runs with the same parameters.
    pub run: u32,
    pub seed: u64,
    pub rate_mbps: f64,
    pub rtt_ms: f64,
    pub buffer_bytes: u64,
    /// The 99th percentile of how long packets with ECT(1) waited in a dual queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l4s_wait_p99_ms: Option<f64>,
    /// Every flow, in the order of the scenario.
    pub flows: Vec<FlowOutcome>,
    /// What made it: `schema`, `program`, `command`, `settings`.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// One download.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    pub name: String,
    pub cc: Controller,
    pub mode: Mode,
    /// Its client, where the scenario says of how many clients its flows are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<usize>,
    pub object_bytes: u64,
    /// Round-trip time of its path without any queue, in ms.
    pub rtt_ms: f64,
    /// Time of its client's first packet.
    pub start_ms: f64,
    /// Since `start_ms`, when that packet reached the server: the origin of its qlog.
    #[serde(default)]
    pub accepted_ms: f64,
    /// Since `start_ms`, the handshake included.
    pub ttfb_ms: f64,
    pub ttlb_ms: f64,
    /// Fluid bounds of `ttlb_ms`, were it alone on its path as that is from `start_ms` on: of a
    /// sender that knows the rate from the first byte, and of the flow's own mode (none for Reno
    /// and BBR2 with slow start).
    #[serde(default)]
    pub floor_ms: Option<f64>,
    #[serde(default)]
    pub bound_ms: Option<f64>,
    pub sent_packets: u64,
    /// Packets that the server declared lost.
    pub lost_packets: u64,
    /// The same in bytes of UDP payload.
    #[serde(default)]
    pub lost_bytes: u64,
    /// Number of times that the server sent a probe for want of an ACK.
    pub probe_timeouts: u64,
    /// Its packets that the bottleneck dropped, and their bytes of UDP payload.
    pub dropped_packets: u64,
    #[serde(default)]
    pub dropped_bytes: u64,
    /// Of these, those that were dropped until the path had validated or refused the jump; None
    /// without a jump.
    #[serde(default)]
    pub dropped_before_validated_packets: Option<u64>,
    #[serde(default)]
    pub dropped_before_validated_bytes: Option<u64>,
    /// Its packets that the client reported as marked CE; None if it does not mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_packets: Option<u64>,
    /// Since `start_ms`, when the bottleneck dropped the first of them.
    pub first_drop_ms: Option<f64>,
    /// Since `start_ms`, when the congestion window first held the path's
    /// bandwidth-delay product.
    pub full_ms: Option<f64>,
    /// `[ms since start_ms, reason]` of the end of slow start.
    pub slow_start_end: Option<(f64, String)>,
    /// Since `start_ms`, when HyStart++ first entered conservative slow start.
    pub conservative_ms: Option<f64>,
    /// `[ms since start_ms, phase, trigger]`, as qlog names them.
    pub phases: Vec<(f64, String, Option<String>)>,
    pub saved_cwnd_bytes: Option<u64>,
    pub jump_cwnd_bytes: Option<u64>,
    /// The congestion window at the end of each round trip (minimum RTT) from the first byte
    /// of the response on, in packets of 1350 bytes, rounded down.
    pub window_packets: Vec<u64>,
    /// Window that the connection had observed at its end (RFC 9959, 3.1).
    pub observed_cwnd_bytes: Option<u64>,
    /// Bytes of the response that arrived from `share_from_ms` on until the first of all flows was
    /// complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_bytes: Option<u64>,
}

impl FlowOutcome {
    /// Returns the packets that told the sender of congestion: lost ones, and those
    /// that arrived as CE.
    pub fn lost_or_marked(&self) -> u64 {
        self.lost_packets + self.marked_packets.unwrap_or(0)
    }
}
