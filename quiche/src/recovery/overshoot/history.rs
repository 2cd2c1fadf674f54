//! History of a value over the last round trips, at points with a spacing.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// Points that are kept: with 32 a round trip, those of eight round trips.
const POINTS_MAX: usize = 256;

/// A value that changes with each ACK.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<(Instant, f64)>,
}

impl History {
    /// Sets the value from `now` on. Replaces the latest point if that is
    /// within `spacing` of the one before.
    pub(super) fn push(&mut self, now: Instant, value: f64, spacing: Duration) {
        let len = self.points.len();

        if len >= 2 && now < self.points[len - 2].0 + spacing {
            self.points.pop_back();
        } else if len == POINTS_MAX {
            self.points.pop_front();
        }

        self.points.push_back((now, value));
    }

    /// Returns the value at `time`, interpolated between points; before the
    /// first point, its value. None without points.
    pub(super) fn at(&self, time: Instant) -> Option<f64> {
        let after = self.points.partition_point(|point| point.0 <= time);
        let &(left, from) = self.points.get(after.saturating_sub(1))?;
        let Some(&(right, to)) = self.points.get(after).filter(|_| after > 0)
        else {
            return Some(from);
        };

        let share = (time - left).as_secs_f64() / (right - left).as_secs_f64();
        Some(from + (to - from) * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn history_interpolates_between_points() {
        let mut history = History::default();
        let start = crate::clock::now() + MS;
        assert_eq!(history.at(start), None);

        history.push(start, 10.0, MS);
        history.push(start + MS * 10, 20.0, MS);

        for (ms, value) in [(0, 10.0), (4, 14.0), (10, 20.0), (11, 20.0)] {
            assert_eq!(history.at(start + MS * ms), Some(value), "{ms} ms");
        }
        assert_eq!(history.at(start - MS), Some(10.0));
    }

    #[test]
    fn history_points_have_spacing_and_a_bound() {
        let mut history = History::default();
        let start = crate::clock::now();

        for us in 0..100_000_u32 {
            let now = start + Duration::from_micros(us.into());
            history.push(now, f64::from(us), MS * 10);
        }
        assert!(history.points.len() <= 12, "{}", history.points.len());
        assert_eq!(history.at(start + MS * 55), Some(55_000.0));

        for ms in 100..10_000_u32 {
            history.push(start + MS * ms, f64::from(ms), MS);
        }
        assert_eq!(history.points.len(), POINTS_MAX);
    }
}
