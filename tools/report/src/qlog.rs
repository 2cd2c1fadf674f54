//! Reader of the server's qlog (JSON-SEQ) of one connection.
//!
//! Metrics events carry only the fields that changed, so a running picture is
//! kept. Acknowledged bytes are not logged: they are the sizes of the 1-RTT
//! packets that received ACK frames cover, each counted once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::Deserialize;

use crate::record::PhaseEntry;

/// The connection as it was at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the log started: the server saw the client's first packet.
    pub time_ms: f64,
    pub congestion_window: u64,
    pub bytes_in_flight: u64,
    pub acked_bytes: u64,
    pub lost_packets: u64,
    /// The latest round-trip time; none before the first.
    pub rtt_ms: Option<f64>,
}

/// The path state that a connection was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedPath {
    pub cwnd_bytes: u64,
    pub rtt_ms: Option<f64>,
}

/// Contents of one connection's log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionLog {
    /// In order of time, one for each event that changed something.
    pub samples: Vec<Sample>,
    /// Phases of Careful Resume, the first one included.
    pub phases: Vec<PhaseEntry>,
    pub saved: Option<SavedPath>,
}

impl ConnectionLog {
    /// Returns how many packets were declared lost.
    pub fn lost_packets(&self) -> u64 {
        self.samples.last().map_or(0, |s| s.lost_packets)
    }

    /// Returns how many packets were declared lost until two round trips after the jump, or until
    /// validation ended if that took longer. `None` without a jump.
    pub fn jump_lost_packets(&self, rtt_ms: f64) -> Option<u64> {
        let jump = self.phases.iter().position(|p| p.1 == "unvalidated")?;
        let validated =
            self.phases[jump..].iter().find(|p| p.1 == "normal" || p.1 == "safe_retreat");
        let until_ms = (self.phases[jump].0 + 2.0 * rtt_ms).max(validated.map_or(0.0, |p| p.0));
        let upto = self.samples.iter().take_while(|s| s.time_ms <= until_ms);
        Some(upto.last().map_or(0, |s| s.lost_packets))
    }
}

/// Reads a qlog file.
///
/// # Errors
///
/// The file cannot be read, or a record other than the last is not JSON.
pub fn read(file: &Path) -> anyhow::Result<ConnectionLog> {
    let open = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(BufReader::new(open)).with_context(|| format!("{}: not a qlog", file.display()))
}

/// Reads qlog records; see [`read`].
pub fn parse(records: impl BufRead) -> anyhow::Result<ConnectionLog> {
    let mut state = Reader::default();
    let mut broken: Option<io::Error> = None;

    for line in records.lines() {
        // A record that was cut short is legal at the end only.
        if let Some(error) = broken.take() {
            return Err(error.into());
        }
        let line = line?;
        let line = line.trim_matches(|c: char| c == '\u{1e}' || c.is_whitespace());
        if !line.is_empty() {
            broken = state.record(line).err().map(io::Error::from);
        }
    }

    Ok(state.log)
}

#[derive(Deserialize)]
struct Head {
    time: Option<f64>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Event<T> {
    data: T,
}

#[derive(Deserialize)]
struct Metrics {
    congestion_window: Option<u64>,
    bytes_in_flight: Option<u64>,
    latest_rtt: Option<f64>,
    cf_lost_packets: Option<Total>,
}

#[derive(Deserialize)]
struct Total {
    total: Option<u64>,
}

#[derive(Deserialize)]
struct Packet {
    header: Header,
    raw: Option<Raw>,
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Header {
    packet_type: String,
    packet_number: Option<u64>,
}

#[derive(Deserialize)]
struct Raw {
    length: Option<u64>,
}

#[derive(Deserialize)]
struct Frame {
    acked_ranges: Option<Vec<Vec<u64>>>,
}

#[derive(Deserialize)]
struct PhaseUpdate {
    old: Option<String>,
    new: String,
    trigger: Option<String>,
    restored_data: Option<Restored>,
}

#[derive(Deserialize)]
struct Restored {
    saved_congestion_window: u64,
    saved_rtt: Option<f64>,
}

/// The running picture.
#[derive(Default)]
struct Reader {
    log: ConnectionLog,
    now: Sample,
    /// Sizes of 1-RTT packets that are not acknowledged yet, by number.
    outstanding: BTreeMap<u64, u64>,
}

impl Reader {
    fn record(&mut self, line: &str) -> serde_json::Result<()> {
        let head: Head = serde_json::from_str(line)?;
        let (Some(time_ms), Some(name)) = (head.time, head.name) else {
            return Ok(()); // the file's header
        };
        self.now.time_ms = time_ms;

        match name.as_str() {
            "quic:packet_sent" => self.sent(data(line)?),
            "quic:packet_received" => self.received(&data(line)?),
            "quic:recovery_metrics_updated" => self.metrics(&data(line)?),
            "quic:careful_resume_phase_updated" => self.phase(data(line)?),
            _ => (),
        }
        Ok(())
    }

    fn sent(&mut self, packet: Packet) {
        let size = packet.raw.and_then(|r| r.length);
        if let (true, Some(number), Some(size)) =
            (packet.header.packet_type == "1RTT", packet.header.packet_number, size)
        {
            self.outstanding.insert(number, size);
        }
    }

    fn received(&mut self, packet: &Packet) {
        if packet.header.packet_type != "1RTT" {
            return;
        }
        let acked_before = self.now.acked_bytes;
        let ranges = packet.frames.iter().filter_map(|f| f.acked_ranges.as_ref()).flatten();
        for range in ranges {
            let (Some(&first), Some(&last)) = (range.first(), range.last()) else {
                continue;
            };
            while let Some((&number, &size)) =
                self.outstanding.range(first..=last.max(first)).next()
            {
                self.outstanding.remove(&number);
                self.now.acked_bytes += size;
            }
        }
        if self.now.acked_bytes != acked_before {
            self.log.samples.push(self.now);
        }
    }

    fn metrics(&mut self, metrics: &Metrics) {
        let lost = metrics.cf_lost_packets.as_ref().and_then(|l| l.total);
        let now = &mut self.now;
        now.congestion_window = metrics.congestion_window.unwrap_or(now.congestion_window);
        now.bytes_in_flight = metrics.bytes_in_flight.unwrap_or(now.bytes_in_flight);
        now.rtt_ms = metrics.latest_rtt.or(now.rtt_ms);
        now.lost_packets = lost.unwrap_or(now.lost_packets);
        self.log.samples.push(self.now);
    }

    fn phase(&mut self, update: PhaseUpdate) {
        let phases = &mut self.log.phases;
        // A connection that logs only changes started in the first one's `old`.
        if let (true, Some(old)) = (phases.is_empty(), update.old) {
            phases.push((0.0, old, None));
        }
        phases.push((self.now.time_ms, update.new, update.trigger));
        if let Some(restored) = update.restored_data {
            self.log.saved = Some(SavedPath {
                cwnd_bytes: restored.saved_congestion_window,
                rtt_ms: restored.saved_rtt,
            });
        }
    }
}

fn data<T: DeserializeOwned>(line: &str) -> serde_json::Result<T> {
    serde_json::from_str::<Event<T>>(line).map(|event| event.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESUMED: &[u8] = include_bytes!("../tests/data/resumed.sqlog");

    fn names(log: &ConnectionLog) -> Vec<&str> {
        log.phases.iter().map(|p| p.1.as_str()).collect()
    }

    #[test]
    fn phases_have_their_triggers() {
        let log = parse(RESUMED).expect("a qlog");
        assert_eq!(names(&log), ["reconnaissance", "unvalidated", "validating", "normal"]);
        assert_eq!(log.phases[0].0, 0.0);
        assert_eq!(log.phases[1], (102.0, "unvalidated".into(), Some("cwnd_limited".into())));
    }

    #[test]
    fn restored_path_is_read() {
        let saved = parse(RESUMED).expect("a qlog").saved;
        assert_eq!(saved, Some(SavedPath { cwnd_bytes: 3_000_000, rtt_ms: Some(50.5) }));
    }

    #[test]
    fn acknowledged_1rtt_packets_count_once() {
        let log = parse(RESUMED).expect("a qlog");
        let acked: Vec<u64> = log.samples.iter().map(|s| s.acked_bytes).collect();
        // Packets 0 to 2 of 1200 bytes; 1 is acknowledged twice, 3 never.
        assert_eq!(acked.last(), Some(&3600));
        assert!(acked.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn absent_metrics_keep_their_value() {
        let log = parse(RESUMED).expect("a qlog");
        let last = log.samples.last().expect("samples");
        assert_eq!((last.congestion_window, last.bytes_in_flight), (1_500_000, 700));
    }

    #[test]
    fn late_losses_are_not_those_of_the_jump() {
        let log = parse(RESUMED).expect("a qlog");
        assert_eq!(log.lost_packets(), 6);
        assert_eq!(log.jump_lost_packets(50.0), Some(2));
        // With a longer round trip the later loss falls into the two RTTs.
        assert_eq!(log.jump_lost_packets(100.0), Some(6));
    }

    #[test]
    fn losses_without_a_jump_are_not_its() {
        let log = ConnectionLog::default();
        assert_eq!((log.jump_lost_packets(50.0), log.lost_packets()), (None, 0));
    }

    #[test]
    fn truncated_last_record_is_ignored() {
        let mut cut = RESUMED.to_vec();
        cut.extend(b"\x1e{\"time\":400.0,\"na");
        assert_eq!(parse(&cut[..]).expect("cut"), parse(RESUMED).expect("whole"));
        cut.extend(b"\n\x1e{\"time\":401.0,\"name\":\"quic:x\",\"data\":{}}\n");
        assert!(parse(&cut[..]).is_err());
    }
}
