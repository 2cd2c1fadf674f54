//! Figures of the measurement, and the model's.

use crate::traffic::ReceivedPacket;
use crate::Options;
use link::Ecn;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::Verdict;
use link::IPV4_UDP_HEADER_BYTES;
use std::process::ExitCode;
use std::time::Duration;

/// Most that a figure may be off by.
const ERROR_MAX: f64 = 0.02;

/// Delays of packets, measured and as the model gives them, in milliseconds.
pub struct Delays {
    expected_ms: f64,
    measured_ms: f64,
    /// Measured less expected, sorted.
    errors_ms: Vec<f64>,
}

impl Delays {
    /// Compares with the model, given the same packets at the same times.
    pub fn against_model(config: &LinkConfig, arrivals: &[ReceivedPacket]) -> Self {
        let mut link = Link::new(config.clone()).expect("the emulator has taken the settings");
        let mut expected_ms = Vec::new();
        let mut measured_ms = Vec::new();
        for (arrival, number) in arrivals.iter().zip(1..) {
            let packet = Packet { size_bytes: size_bytes(arrival), number, ecn: Ecn::NotEct };
            if let Verdict::Delivered { at, .. } = link.offer(arrival.sent, packet) {
                expected_ms.push(ms(at, arrival.sent));
                measured_ms.push(ms(arrival.received, arrival.sent));
            }
        }
        let mut errors_ms: Vec<f64> =
            measured_ms.iter().zip(&expected_ms).map(|(m, e)| m - e).collect();
        errors_ms.sort_by(f64::total_cmp);
        Self { expected_ms: mean(&expected_ms), measured_ms: mean(&measured_ms), errors_ms }
    }

    fn error_at(&self, share: f64) -> f64 {
        let last = self.errors_ms.len().saturating_sub(1) as f64;
        self.errors_ms.get((share * last) as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the rate at which packets came, in Mbit/s of IP packets. The link fills
/// while the queue builds up, so the first quarter of the time does not count.
pub fn rate_mbit_per_s(arrivals: &[ReceivedPacket]) -> f64 {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else { return f64::NAN };
    let from = first.received + (last.received - first.received) / 4;
    let steady = &arrivals[arrivals.partition_point(|arrival| arrival.received < from)..];
    let Some(first) = steady.first() else { return f64::NAN };
    // What comes with the first group began before it.
    let after = steady.iter().filter(|arrival| arrival.received > first.received);
    let bits: f64 = after.map(|arrival| f64::from(size_bytes(arrival)) * 8.0).sum();
    bits / (last.received - first.received).as_secs_f64() / 1e6
}

/// Prints figures, and remembers whether all were good.
pub struct Figures {
    rate_mbit_per_s: f64,
    good: bool,
}

impl Figures {
    /// Prints the heading.
    pub fn new(options: &Options) -> Self {
        println!("link-emulator at {} Mbit/s, {} ms RTT", options.rate, options.rtt);
        println!("{:<16} {:>9} {:>9} {:>8}", "", "set", "measured", "off by");
        Self { rate_mbit_per_s: options.rate, good: true }
    }

    /// Prints the delays of one direction.
    pub fn delay(&mut self, what: &str, delays: &Delays) {
        let detail = format!(
            "{} packets; late by: median {:+.3}, 99th percentile {:+.3}, worst {:+.3} ms",
            delays.errors_ms.len(),
            delays.error_at(0.5),
            delays.error_at(0.99),
            delays.error_at(1.0),
        );
        self.line(what, delays.expected_ms, delays.measured_ms, "ms", &detail);
    }

    /// Prints the rate of one direction.
    pub fn rate(&mut self, what: &str, measured_mbit_per_s: f64) {
        self.line(what, self.rate_mbit_per_s, measured_mbit_per_s, "Mbit/s", "");
    }

    /// Prints the emulator's own statistics.
    pub fn emulator(&self, summary: &serde_json::Value) {
        for direction in ["down", "up"] {
            let totals = &summary[direction];
            println!(
                "    emulator, {direction}: {} packets, {} dropped, {} overrun, late {} us on average, {} at worst",
                totals["offered_packets"],
                totals["dropped_buffer_packets"],
                totals["overrun_packets"],
                totals["late_us_mean"],
                totals["late_us_max"],
            );
        }
    }

    /// Returns whether all figures were within the bounds.
    pub fn verdict(&self) -> ExitCode {
        if self.good {
            println!("all within {:.0} %", ERROR_MAX * 100.0);
            ExitCode::SUCCESS
        } else {
            println!("FAILED: more than {:.0} % off", ERROR_MAX * 100.0);
            ExitCode::FAILURE
        }
    }

    fn line(&mut self, what: &str, set: f64, measured: f64, unit: &str, detail: &str) {
        let error = measured / set - 1.0;
        // Not a number is not good.
        let good = error.abs() <= ERROR_MAX;
        self.good &= good;
        let mark = if good { "" } else { "  <-- FAILED" };
        let percent = error * 100.0;
        println!("{what:<16} {set:>9.3} {measured:>9.3} {percent:>+7.2}% {unit:<6} {detail}{mark}");
    }
}

fn size_bytes(arrival: &ReceivedPacket) -> u32 {
    arrival.payload_bytes as u32 + IPV4_UDP_HEADER_BYTES
}

fn ms(later: Duration, earlier: Duration) -> f64 {
    later.saturating_sub(earlier).as_secs_f64() * 1e3
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
