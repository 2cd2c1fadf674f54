//! Timeline of one connection for a figure: few points, even of a long log.

use crate::qlog::ConnectionLog;
use crate::qlog::Sample;
use crate::record::PhaseEntry;

/// Points of one timeline, at most.
pub const POINTS_MAX: usize = 300;

/// One connection, thinned out for drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub samples: Vec<Sample>,
    pub phases: Vec<PhaseEntry>,
}

impl Timeline {
    /// Thins a log out, up to the time when its last byte was acknowledged.
    ///
    /// Time is cut into [`POINTS_MAX`] slices. A slice keeps its last sample,
    /// with the highest number of bytes in flight in the slice, so that a
    /// peak never vanishes.
    pub fn new(log: &ConnectionLog) -> Self {
        let acked = log.samples.last().map_or(0, |s| s.acked_bytes);
        let end = log.samples.iter().position(|s| s.acked_bytes == acked);
        let samples = &log.samples[..end.map_or(0, |i| i + 1)];
        let end_ms = samples.last().map_or(0.0, |s| s.time_ms);
        let slice_ms = (end_ms / (POINTS_MAX as f64 - 1.0)).max(f64::MIN_POSITIVE);

        let mut thin: Vec<(f64, Sample)> = Vec::with_capacity(POINTS_MAX);
        for &sample in samples {
            let slice = (sample.time_ms / slice_ms).floor();
            match thin.last_mut() {
                Some((last, kept)) if *last == slice => {
                    let peak = kept.bytes_in_flight.max(sample.bytes_in_flight);
                    *kept = Sample { bytes_in_flight: peak, ..sample };
                }
                _ => thin.push((slice, sample)),
            }
        }

        let samples = thin.into_iter().map(|(_, sample)| sample).collect();
        Timeline { samples, phases: log.phases.clone() }
    }

    /// Returns when the last byte was acknowledged, in milliseconds.
    pub fn end_ms(&self) -> f64 {
        self.samples.last().map_or(0.0, |s| s.time_ms)
    }

    /// Returns the largest value drawn, in bytes.
    pub fn bytes_max(&self) -> u64 {
        let largest = |s: &Sample| s.congestion_window.max(s.bytes_in_flight).max(s.acked_bytes);
        self.samples.iter().map(largest).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(samples: usize) -> ConnectionLog {
        let sample = |i: usize| Sample {
            time_ms: i as f64 / 10.0,
            congestion_window: 1000 + i as u64,
            bytes_in_flight: if i == 5001 { 9_000_000 } else { 700 },
            acked_bytes: (i as u64).min(9000),
            lost_packets: 0,
            rtt_ms: None,
        };
        ConnectionLog { samples: (0..samples).map(sample).collect(), ..Default::default() }
    }

    #[test]
    fn long_log_is_thinned_and_keeps_its_peak() {
        let timeline = Timeline::new(&log(10_000));
        assert!(timeline.samples.len() <= POINTS_MAX, "{}", timeline.samples.len());
        assert_eq!(timeline.bytes_max(), 9_000_000);
    }

    #[test]
    fn timeline_ends_at_the_last_acknowledged_byte() {
        assert_eq!(Timeline::new(&log(10_000)).end_ms(), 900.0);
    }

    #[test]
    fn short_log_is_kept_whole() {
        assert_eq!(Timeline::new(&log(50)).samples.len(), 50);
        assert_eq!(Timeline::new(&log(0)).samples.len(), 0);
        assert_eq!(Timeline::new(&log(1)).samples.len(), 1);
    }
}
