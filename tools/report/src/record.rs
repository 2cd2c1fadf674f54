//! Records of downloads, as JSON lines.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde::Serialize;

use crate::bound::bounds;
use crate::provenance::Provenance;

/// Which programs made a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Real processes, in real time.
    Real,
    /// A simulation, in virtual time.
    Sim,
}

/// Start mode of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The server was told not to resume.
    SlowStart,
    /// The connection whose path state was saved for the resumed ones.
    First,
    /// The connection was given a saved path state.
    CarefulResume,
    /// The same, and the request was in early data with a token.
    EarlyData,
    /// A later connection to a server whose mode is unknown.
    Later,
    /// One of a series of connections that began with an empty store.
    Visit,
}

impl Mode {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::SlowStart => "slow-start",
            Mode::First => "first",
            Mode::CarefulResume => "careful-resume",
            Mode::EarlyData => "early-data",
            Mode::Later => "later",
            Mode::Visit => "visit",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::SlowStart => "slow start",
            Mode::First => "first connection",
            Mode::CarefulResume => "Careful Resume",
            Mode::EarlyData => "with early data",
            Mode::Later => "later connections",
            Mode::Visit => "from an empty store",
        })
    }
}

/// One change of phase: server time in milliseconds, the phase entered, and
/// what caused it.
pub type PhaseEntry = (f64, String, Option<String>);

/// The name of our own server in [`Download::server`].
pub const EDGE_SERVER: &str = "edge-server";

/// One download. What could not be known is absent (`null`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Download {
    pub source: Source,
    pub path: String,
    pub rate_mbps: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub buffer_bytes: Option<u64>,
    pub object_bytes: u64,
    pub cc: Option<String>,
    pub mode: Mode,
    /// From 1, within its path, server and mode.
    pub run: u32,
    /// From the client's first packet, the handshake included.
    pub ttfb_ms: f64,
    pub ttlb_ms: f64,
    /// Packets that the server declared lost.
    pub lost_packets: Option<u64>,
    /// Milliseconds since the server saw the client's first packet.
    pub phases: Vec<PhaseEntry>,
    /// Which server program sent it.
    #[serde(default)]
    pub server: Option<String>,
    /// Least RTT seen by the client.
    #[serde(default)]
    pub min_rtt_ms: Option<f64>,
    /// The congestion window given to a resumed connection.
    #[serde(default)]
    pub saved_cwnd_bytes: Option<u64>,
    #[serde(default)]
    pub saved_rtt_ms: Option<f64>,
    /// Packets declared lost until two RTTs after the jump, or until it was
    /// validated if that took longer.
    #[serde(default)]
    pub jump_lost_packets: Option<u64>,
    /// Packets that this machine lost outside of the emulated link. With any,
    /// the machine was measured, not the path.
    #[serde(default)]
    pub overrun_packets: Option<u64>,
    /// What 1 % of the packets exceeded by which they left the emulated link later than its model says,
    /// and what they may exceed: above, the machine was measured, too.
    #[serde(default)]
    pub late_ms: Option<f64>,
    #[serde(default)]
    pub late_limit_ms: Option<f64>,
    /// Which one it is of a series of visits, from 1.
    #[serde(default)]
    pub visit: Option<u32>,
    /// The server's qlog, relative to the folder of the JSON lines, if kept.
    #[serde(default)]
    pub qlog: Option<String>,
    /// Of what is random.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Whether the path's rate or RTT changes, or it loses packets by chance: there is no bound then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub varies: bool,
    /// What made it: `schema`, `program`, `command`, `settings`.
    #[serde(flatten)]
    pub provenance: Provenance,
}

impl Download {
    /// Returns whether this machine lost or delayed packets, so that the figures are not the path's.
    pub fn is_disturbed(&self) -> bool {
        self.disturbance().is_some()
    }

    /// Returns what this machine did to the packets.
    pub fn disturbance(&self) -> Option<String> {
        if let Some(packets) = self.overrun_packets.filter(|packets| *packets > 0) {
            return Some(format!("lost {packets} packets"));
        }
        let (late_ms, limit_ms) = self.late_ms.zip(self.late_limit_ms)?;
        (late_ms > limit_ms)
            .then(|| format!("delayed 1 % of the packets by more than {late_ms:.1} ms"))
    }

    /// Returns whether it may jump: its path can be known.
    pub fn may_jump(&self) -> bool {
        matches!(self.mode, Mode::CarefulResume | Mode::EarlyData) || self.visit > Some(1)
    }

    /// Returns the least time to the last byte, in milliseconds, if its path is known.
    pub fn bound_ms(&self) -> Option<f64> {
        let rtt_ms = self.rtt_ms.filter(|_| !self.varies)?;
        let bounds = bounds(self.rate_mbps?, rtt_ms, self.object_bytes);
        Some(match self.mode {
            // The response leaves a round trip earlier, and so does all that follows.
            Mode::EarlyData => bounds.careful_resume_ms - rtt_ms,
            _ if self.may_jump() => bounds.careful_resume_ms,
            _ => bounds.slow_start_ms,
        })
    }

    /// Returns its mode, and which visit it is.
    pub fn kind(&self) -> String {
        self.visit.map_or(String::new(), |visit| format!("visit {visit} ")) + &self.mode.to_string()
    }

    /// Returns how messages name it.
    pub fn title(&self) -> String {
        let server = self.server.as_deref().filter(|s| *s != EDGE_SERVER);
        let server = server.map_or(String::new(), |s| format!(" ({s})"));
        format!("{}, {}{server}, run {}", self.path, self.kind(), self.run)
    }
}

/// Writes one JSON object a line.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_json_lines<T: Serialize>(file: &Path, records: &[T]) -> anyhow::Result<()> {
    let mut text = Vec::new();
    for record in records {
        serde_json::to_writer(&mut text, record)?;
        text.write_all(b"\n")?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Reads what [`write_json_lines`] wrote. `what` names a record in errors, as
/// in "a download".
///
/// # Errors
///
/// The file cannot be read, or a line is no such record.
pub fn read_json_lines<T: DeserializeOwned>(file: &Path, what: &str) -> anyhow::Result<Vec<T>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}, line {}: not {what}", file.display(), i + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONLY_AGREED: &str = concat!(
        r#"{"source":"sim","path":"p","rate_mbps":50,"rtt_ms":600,"buffer_bytes":1,"#,
        r#""object_bytes":2,"cc":"reno","mode":"slow-start","run":1,"ttfb_ms":3,"ttlb_ms":4,"#,
        r#""lost_packets":5,"phases":[[0,"normal","x"]],"seed":7}"#
    );

    fn resumed() -> Download {
        let mut download: Download = serde_json::from_str(ONLY_AGREED).expect("a download");
        download.source = Source::Real;
        download.mode = Mode::CarefulResume;
        download.phases.push((50.0, "unvalidated".into(), None));
        download.saved_cwnd_bytes = Some(3_000_000);
        download.ttlb_ms = 291.5;
        download
    }

    #[test]
    fn json_lines_survive_a_round_trip() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let file = dir.path().join("a.jsonl");
        let mut all = [resumed(), resumed()];
        all[1].server = Some(EDGE_SERVER.into());
        write_json_lines(&file, &all).expect("written");
        assert_eq!(read_json_lines::<Download>(&file, "a download").expect("read"), all);
    }

    #[test]
    fn visit_has_its_number() {
        let first = Download { mode: Mode::Visit, visit: Some(1), ..resumed() };
        let second = Download { visit: Some(2), ..first.clone() };
        assert_eq!(second.title(), "p, visit 2 from an empty store, run 1");
        assert_eq!(
            [first.may_jump(), second.may_jump(), resumed().may_jump()],
            [false, true, true]
        );
    }

    #[test]
    fn line_has_the_agreed_keys() {
        let line = serde_json::to_value(resumed()).expect("JSON");
        let keys = [
            "source",
            "path",
            "rate_mbps",
            "rtt_ms",
            "buffer_bytes",
            "object_bytes",
            "cc",
            "mode",
            "run",
            "ttfb_ms",
            "ttlb_ms",
            "lost_packets",
            "phases",
        ];
        for key in keys {
            assert!(line.get(key).is_some(), "{key}");
        }
        assert_eq!(line["source"], "real");
        assert_eq!(line["mode"], "careful-resume");
        assert_eq!(line["phases"][1], serde_json::json!([50.0, "unvalidated", null]));
        assert_eq!(serde_json::to_value(Mode::SlowStart).expect("JSON"), "slow-start");
    }

    #[test]
    fn line_with_the_agreed_keys_alone_is_read() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let file = dir.path().join("a.jsonl");
        fs::write(&file, format!("{ONLY_AGREED}\n\n")).expect("written");
        let read: Vec<Download> = read_json_lines(&file, "a download").expect("read");
        assert_eq!((read.len(), read[0].source), (1, Source::Sim));
    }

    #[test]
    fn bad_record_is_named_with_its_line() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let file = dir.path().join("a.jsonl");
        fs::write(&file, format!("{ONLY_AGREED}\nbroken\n")).expect("written");
        let error = read_json_lines::<Download>(&file, "a download").expect_err("broken");
        assert!(format!("{error:#}").contains("a.jsonl, line 2: not a download"), "{error:#}");
    }
}
