//! Report of link-emulator at its end: the part that is about this machine.

use report::record::Download;
use serde::Deserialize;

/// Totals of both directions.
#[derive(Debug, Deserialize)]
pub struct EmulatorReport {
    up: LaneTotals,
    down: LaneTotals,
}

#[derive(Debug, Deserialize)]
struct LaneTotals {
    overrun_packets: u64,
    late_us_mean: Option<f64>,
    late_us_p99: Option<f64>,
    late_us_limit: Option<f64>,
}

impl EmulatorReport {
    /// Reads what the emulator wrote to its standard output; None if it does not tell.
    pub fn parse(output: &str) -> Option<Self> {
        serde_json::from_str(output.lines().next_back()?).ok()
    }

    /// Adds what this machine did to the packets.
    pub fn describe(&self, download: &mut Download) {
        download.overrun_packets = Some(self.overrun_packets());
        download.late_ms = self.late_ms();
        download.late_limit_ms = self.late_limit_ms();
    }

    /// Returns whether this machine lost or delayed packets.
    pub fn is_disturbed(&self) -> bool {
        self.overrun_packets() > 0 || self.late_ms() > self.late_limit_ms()
    }

    /// Returns the mean by which packets left late, both directions together, in ms.
    pub fn mean_late_ms(&self) -> f64 {
        let means_us = [self.up.late_us_mean, self.down.late_us_mean];
        means_us.into_iter().flatten().sum::<f64>() / 1e3
    }

    fn overrun_packets(&self) -> u64 {
        self.up.overrun_packets + self.down.overrun_packets
    }

    /// Returns what 1 % of the packets exceeded, in the direction that was later.
    fn late_ms(&self) -> Option<f64> {
        let late_us = [self.up.late_us_p99, self.down.late_us_p99].into_iter().flatten();
        late_us.reduce(f64::max).map(|us| us / 1e3)
    }

    fn late_limit_ms(&self) -> Option<f64> {
        self.down.late_us_limit.map(|us| us / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::download;
    use report::record::Mode;

    #[test]
    fn direction_that_is_later_counts() {
        for (up, down, described) in [
            ("", "", (Some(7), None, None)),
            (
                ",\"late_us_mean\":70.0,\"late_us_p99\":900.0,\"late_us_limit\":2500.0",
                ",\"late_us_mean\":50.0,\"late_us_p99\":100.5,\"late_us_limit\":2500.0",
                (Some(7), Some(0.9), Some(2.5)),
            ),
        ] {
            let output = format!(
                "{{\"up\":{{\"overrun_packets\":3{up}}},\"down\":{{\"overrun_packets\":4{down}}}}}\n"
            );
            let mut d = download(Mode::SlowStart, 1, 600.0);
            let report = EmulatorReport::parse(&output).expect("a report");
            report.describe(&mut d);
            assert_eq!((d.overrun_packets, d.late_ms, d.late_limit_ms), described);
            assert_eq!(report.is_disturbed(), d.is_disturbed());
            assert!(up.is_empty() || (report.mean_late_ms() - 0.12).abs() < 1e-9);
        }
        assert!(EmulatorReport::parse("").is_none());
    }
}
