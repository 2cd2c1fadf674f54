//! One jump, as the server's qlog and the emulator's trace tell it.
//!
//! The qlog knows packet numbers, the trace knows times. They are matched by
//! the sizes of the packets: those of a response with its headers and its end
//! fit in one place only.

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use serde_json::Value;

use super::windows::Packet;

/// IPv4 and UDP headers.
const IP_UDP_BYTES: u64 = 28;

/// Packets at the start that may share a datagram with the handshake's.
const COALESCED_MAX: usize = 5;

/// One jump.
pub struct Jump {
    pub jump_cwnd: u64,
    /// The smoothed RTT at the jump.
    pub rtt_ns: u64,
    /// Those of the unvalidated phase.
    pub packets: Vec<Packet>,
}

/// A packet that the server sent, by its qlog.
struct Sent {
    number: u64,
    bytes: u64,
}

impl Jump {
    /// Finds the jump.
    ///
    /// # Errors
    ///
    /// When there was none, or qlog and trace do not match.
    pub fn new(qlog: &str, trace: &str) -> anyhow::Result<Self> {
        let mut log = Log::default();
        for record in qlog.split('\u{1e}').filter(|record| !record.trim().is_empty()) {
            log.take(&serde_json::from_str(record).context("the qlog is broken")?)?;
        }
        let jump_cwnd = log.jump_cwnd.context("the connection did not jump")?;
        let (first, last) = log.unvalidated.context("the jump did not end")?;
        let came = downwards(trace)?;
        let at = place(&log.sent, &came)?;
        let packets = log.sent.iter().enumerate().skip(COALESCED_MAX);
        let packets = packets.filter(|(_, sent)| (first..=last).contains(&sent.number));
        let packets = packets.map(|(i, _)| came[at + i - COALESCED_MAX]).collect();
        Ok(Self { jump_cwnd, rtt_ns: (log.rtt_ms * 1e6) as u64, packets })
    }
}

#[derive(Default)]
struct Log {
    /// 1-RTT packets, in order.
    sent: Vec<Sent>,
    /// The smoothed RTT, as it is at the jump.
    rtt_ms: f64,
    jump_ms: f64,
    jump_cwnd: Option<u64>,
    /// The first and the last packet of the phase.
    unvalidated: Option<(u64, u64)>,
}

impl Log {
    fn take(&mut self, event: &Value) -> anyhow::Result<()> {
        let (data, time_ms) = (&event["data"], event["time"].as_f64().unwrap_or_default());
        match event["name"].as_str() {
            Some("quic:packet_sent") if data["header"]["packet_type"] == "1RTT" => {
                let number = data["header"]["packet_number"].as_u64();
                let bytes = data["raw"]["length"].as_u64();
                let (number, bytes) = number.zip(bytes).context("a packet without a length")?;
                self.sent.push(Sent { number, bytes });
            }
            // What the ACK that let the jump go changed is logged after it, with
            // the same time.
            Some("quic:recovery_metrics_updated")
                if self.jump_cwnd.is_none() || time_ms <= self.jump_ms =>
            {
                self.rtt_ms = data["smoothed_rtt"].as_f64().unwrap_or(self.rtt_ms);
            }
            Some("quic:careful_resume_phase_updated") => self.change_phase(data, time_ms),
            _ => (),
        }
        Ok(())
    }

    fn change_phase(&mut self, data: &Value, time_ms: f64) {
        let state = &data["state_data"];
        if data["new"] == "unvalidated" {
            self.jump_cwnd = state["congestion_window"].as_u64();
            self.jump_ms = time_ms;
        } else if data["old"] == "unvalidated" {
            let ends = ["first_unvalidated_packet", "last_unvalidated_packet"];
            let [first, last] = ends.map(|end| state[end].as_u64());
            self.unvalidated = first.zip(last);
        }
    }
}

/// The packets that came to the emulator from the server.
fn downwards(trace: &str) -> anyhow::Result<Vec<Packet>> {
    let lines = trace.lines().skip(1).filter(|line| line.contains(",down,"));
    let packet = |line: &str| {
        let columns: Vec<&str> = line.split(',').collect();
        let [time_ns, _, _, _, ip_bytes, ..] = columns[..] else { bail!("not a trace: {line}") };
        Ok(Packet { time_ns: time_ns.parse()?, bytes: ip_bytes.parse::<u64>()? - IP_UDP_BYTES })
    };
    lines.map(packet).collect()
}

/// Where in `came` the packets that were `sent` begin, without the first few.
fn place(sent: &[Sent], came: &[Packet]) -> anyhow::Result<usize> {
    let sent = sent.get(COALESCED_MAX..).unwrap_or_default();
    let mut fits = came
        .windows(sent.len().max(1))
        .enumerate()
        .filter(|(_, came)| came.iter().zip(sent).all(|(came, sent)| came.bytes == sent.bytes));
    let (at, _) = fits.next().context("the packets that came are not those that were sent")?;
    ensure!(fits.next().is_none(), "the packets that were sent fit in several places");
    Ok(at)
}
