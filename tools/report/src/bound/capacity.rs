//! Capacity of a path: its rate over time.

/// A rate that changes at given times, once or again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// From this time on, in ms, so many Mbit/s; the first one is at 0, in order of time.
    steps: Vec<(f64, f64)>,
    /// The steps begin again after this time, in ms.
    period_ms: Option<f64>,
}

impl Capacity {
    /// Creates a capacity of steps, which begin at 0; see the fields.
    pub fn new(steps: Vec<(f64, f64)>, period_ms: Option<f64>) -> Self {
        Self { steps, period_ms }
    }

    /// Returns the same path behind a link of this rate, in Mbit/s.
    #[must_use]
    pub fn capped(mut self, rate_mbps: f64) -> Self {
        for step in &mut self.steps {
            step.1 = step.1.min(rate_mbps);
        }
        self
    }

    /// Returns when `bytes` have been carried that may leave from `from_ms` on: never (infinity) if
    /// the last rate is 0 and they have not been carried before.
    pub fn carried_ms(&self, from_ms: f64, bytes: f64) -> f64 {
        let mut left_bytes = bytes;
        let mut now_ms = from_ms;
        let (mut index, mut origin_ms) = self.step_at(from_ms);
        loop {
            let bytes_per_ms = self.steps[index].1 * 1000.0 / 8.0;
            let last = index + 1 == self.steps.len();
            let end_ms = match (last, self.period_ms) {
                (false, _) => origin_ms + self.steps[index + 1].0,
                (true, Some(period_ms)) => origin_ms + period_ms,
                (true, None) => f64::INFINITY,
            };
            // What is left over by rounding does not wait for the end of an outage.
            let done_ms =
                if left_bytes > 1e-6 { now_ms + left_bytes / bytes_per_ms } else { now_ms };
            if done_ms <= end_ms {
                return done_ms;
            }
            left_bytes -= (end_ms - now_ms) * bytes_per_ms;
            now_ms = end_ms;
            index = if last { 0 } else { index + 1 };
            origin_ms = if last { end_ms } else { origin_ms };
        }
    }

    /// Returns the step at a time, and when its repetition began.
    fn step_at(&self, at_ms: f64) -> (usize, f64) {
        let origin_ms =
            self.period_ms.map_or(0.0, |period_ms| (at_ms / period_ms).floor() * period_ms);
        let after = self.steps.partition_point(|step| step.0 <= at_ms - origin_ms);
        (after.saturating_sub(1), origin_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_carried_over_steps_and_repetitions() {
        // 1 kB, then 2 kB a ms.
        let looping = Capacity::new(vec![(0.0, 8.0), (10.0, 16.0)], Some(20.0));
        for (from_ms, bytes, at_ms) in [
            (0.0, 0.0, 0.0),
            (0.0, 10_000.0, 10.0),
            (0.0, 12_000.0, 11.0),
            (5.0, 25_000.0, 20.0),
            (15.0, 11_000.0, 21.0),
            (45.0, 5_000.0, 50.0),
            (0.0, 300_000.0, 200.0),
        ] {
            assert_eq!(looping.carried_ms(from_ms, bytes), at_ms, "{bytes} from {from_ms}");
        }
        let once = Capacity::new(vec![(0.0, 8.0), (10.0, 16.0)], None);
        assert_eq!(once.carried_ms(30.0, 2_000.0), 31.0);
        let outage = Capacity::new(vec![(0.0, 8.0), (10.0, 0.0), (30.0, 8.0)], None);
        assert_eq!([10_000.0, 11_000.0].map(|bytes| outage.carried_ms(0.0, bytes)), [10.0, 31.0]);
        assert_eq!((outage.carried_ms(15.0, 0.0), outage.carried_ms(15.0, 1_000.0)), (15.0, 31.0));
        let ends = Capacity::new(vec![(0.0, 8.0), (10.0, 0.0)], None);
        assert_eq!(
            (ends.carried_ms(0.0, 9_000.0), ends.carried_ms(0.0, 11_000.0)),
            (9.0, f64::INFINITY)
        );
        assert_eq!(once.clone().capped(8.0).carried_ms(30.0, 2_000.0), 32.0);
    }
}
