//! Trace of a run: a line for each datagram, and for what applications notice.

use crate::determinism;
use crate::scenario::Endpoint;
use anyhow::Result;
use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;

/// A datagram, and when it leaves, in ns.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub departs_at: u64,
    pub bytes: Vec<u8>,
}

/// Writes the line of a datagram: time in ms, sender, delay of its release in ms, length,
/// type of its first packet, addresses, hash of its bytes.
pub fn datagram(trace: &mut dyn Write, from: Endpoint, datagram: &Datagram) -> Result<()> {
    let now = determinism::elapsed();
    let Datagram { from: source, to, departs_at, bytes } = datagram;
    let delay = departs_at.saturating_sub(now);
    writeln!(
        trace,
        "{} {from:?} +{} {} bytes, {}, {source} to {to}, {:016x}",
        ms(now),
        ms(delay),
        bytes.len(),
        packet_type(bytes),
        hash(bytes)
    )?;
    Ok(())
}

/// Writes a line about what an application notices.
pub fn note(trace: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(trace, "# {} {text}", ms(determinism::elapsed()))?;
    Ok(())
}

/// In the line of what no application may notice.
pub const FAULT: &str = " FAULT: ";

/// Writes a line about a fault of the crate: the scenario fails, whatever both sides do.
pub fn fault(trace: &mut dyn Write, at: Endpoint, text: impl Display) -> Result<()> {
    note(trace, &format!("{at:?}{FAULT}{text}"))
}

fn ms(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

/// Returns the type of a datagram's first packet (RFC 9000, 17).
fn packet_type(bytes: &[u8]) -> &'static str {
    match bytes {
        [first, ..] if first & 0x80 == 0 => "1-RTT",
        [_, 0, 0, 0, 0, ..] => "Version Negotiation",
        [first, ..] => ["Initial", "0-RTT", "Handshake", "Retry"][usize::from(first >> 4 & 3)],
        [] => "empty",
    }
}

/// Hash of bytes: FNV-1a with 64 bits.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
