//! Fluid bounds: the least time a download can take.
//!
//! Model: one HTTP request on a new connection. The handshake takes one round
//! trip, the request and the first byte of the response another. The sender
//! starts with an initial window of 10 packets of 1350 bytes; a full window
//! is acknowledged one round trip after it left, and doubles. No header, ACK
//! delay, processing time or loss is counted, so a measurement cannot be
//! below its bound; how close it comes is what is worth quoting.
//!
//! Over a path whose rate changes ([`Capacity`]) the same sender is bounded by what the path can
//! carry from the time on at which it may send: [`bounds_over`].

mod capacity;

pub use capacity::Capacity;

/// Initial window, in bytes.
pub const INITIAL_WINDOW_BYTES: f64 = 10.0 * 1350.0;

/// The least time to the last byte of one download, by what the sender may
/// know, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The sender knows the rate from the first byte.
    pub floor_ms: f64,
    /// It may jump when its handshake flight is acknowledged.
    pub early_ms: f64,
    /// It may jump when its initial window is acknowledged (RFC 9959).
    pub careful_resume_ms: f64,
    /// It doubles its window each round trip.
    pub slow_start_ms: f64,
}

/// Returns the bandwidth-delay product, in bytes.
pub fn bdp_bytes(rate_mbps: f64, rtt_ms: f64) -> f64 {
    rate_mbps * 1000.0 / 8.0 * rtt_ms
}

/// Returns the bounds of a download of `object_bytes` over an otherwise idle path, with
/// a jump to half of its bandwidth-delay product.
pub fn bounds(rate_mbps: f64, rtt_ms: f64, object_bytes: u64) -> Bounds {
    bounds_of_jump(rate_mbps, rtt_ms, object_bytes, bdp_bytes(rate_mbps, rtt_ms) / 2.0)
}

/// Returns [`bounds`] with a jump to `jump_bytes`.
pub fn bounds_of_jump(rate_mbps: f64, rtt_ms: f64, object_bytes: u64, jump_bytes: f64) -> Bounds {
    let object = object_bytes as f64;
    let bytes_per_ms = rate_mbps * 1000.0 / 8.0;
    let first_byte_ms = 2.0 * rtt_ms;

    // A jump is paced over one round trip. From then on the path is full, or
    // else what is measured takes the longer.
    let jump_bytes_per_ms = (jump_bytes / rtt_ms).min(bytes_per_ms);
    let jump_ms = |bytes: f64| {
        bytes.min(jump_bytes) / jump_bytes_per_ms + (bytes - jump_bytes).max(0.0) / bytes_per_ms
    };

    let slow_start_ms = first_byte_ms + slow_start_ms(bytes_per_ms, rtt_ms, object);
    let resumed_ms = first_byte_ms + rtt_ms + jump_ms(object - INITIAL_WINDOW_BYTES);
    let no_jump = object <= INITIAL_WINDOW_BYTES || jump_bytes <= INITIAL_WINDOW_BYTES;

    Bounds {
        floor_ms: first_byte_ms + object / bytes_per_ms,
        early_ms: first_byte_ms + jump_ms(object),
        careful_resume_ms: if no_jump { slow_start_ms } else { resumed_ms.min(slow_start_ms) },
        slow_start_ms,
    }
}

/// Returns the bounds of a download that begins at `start_ms` over a path of this capacity, whose
/// round-trip time is never below `rtt_ms`, with a jump to `jump_bytes`.
pub fn bounds_over(
    capacity: &Capacity,
    start_ms: f64,
    rtt_ms: f64,
    object_bytes: u64,
    jump_bytes: f64,
) -> Bounds {
    let object = object_bytes as f64;
    // The request has arrived; half a round trip later than a byte leaves, it arrives.
    let begin_ms = start_ms + 1.5 * rtt_ms;
    let took = |last_ms: f64| last_ms + 0.5 * rtt_ms - start_ms;
    let floor_ms = took(capacity.carried_ms(begin_ms, object));
    // Paced over one round trip; what exceeds the jump can leave after that.
    let jumped_ms = |from_ms: f64, bytes: f64| {
        let paced_ms = from_ms + rtt_ms * (bytes / jump_bytes).min(1.0);
        let rest_ms = capacity.carried_ms(paced_ms, (bytes - jump_bytes).max(0.0));
        took(rest_ms.max(capacity.carried_ms(from_ms, bytes)))
    };
    let slow_start_ms = took(slow_start_over(capacity, begin_ms, rtt_ms, object));
    let resumed_ms = jumped_ms(begin_ms + rtt_ms, object - INITIAL_WINDOW_BYTES).max(floor_ms);
    let no_jump = object <= INITIAL_WINDOW_BYTES || jump_bytes <= INITIAL_WINDOW_BYTES;
    Bounds {
        floor_ms,
        early_ms: jumped_ms(begin_ms, object),
        careful_resume_ms: if no_jump { slow_start_ms } else { resumed_ms.min(slow_start_ms) },
        slow_start_ms,
    }
}

/// Returns when the last byte has left with slow start that begins at `begin_ms`: a window leaves
/// at once in each round trip, twice the one before.
fn slow_start_over(capacity: &Capacity, begin_ms: f64, rtt_ms: f64, object_bytes: f64) -> f64 {
    let (mut round_ms, mut free_ms) = (begin_ms, begin_ms);
    let mut window_bytes = INITIAL_WINDOW_BYTES;
    let mut left_bytes = object_bytes;
    while left_bytes > 0.0 {
        let bytes = window_bytes.min(left_bytes);
        free_ms = capacity.carried_ms(free_ms.max(round_ms), bytes);
        left_bytes -= bytes;
        window_bytes *= 2.0;
        round_ms += rtt_ms;
    }
    free_ms
}

/// Returns the time from the first to the last byte with slow start.
fn slow_start_ms(bytes_per_ms: f64, rtt_ms: f64, object_bytes: f64) -> f64 {
    let mut window_bytes = INITIAL_WINDOW_BYTES;
    let mut left_bytes = object_bytes;
    let mut elapsed_ms = 0.0;

    // Until the window covers the path, each one costs a whole round trip.
    while left_bytes > window_bytes && window_bytes < bytes_per_ms * rtt_ms {
        left_bytes -= window_bytes;
        window_bytes *= 2.0;
        elapsed_ms += rtt_ms;
    }

    elapsed_ms + left_bytes / bytes_per_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate, RTT, object; then floor, early, Careful Resume, slow start.
    const PUBLISHED: [(f64, f64, u64, [f64; 4]); 9] = [
        (500.0, 50.0, 6_250_000, [200.0, 225.0, 275.0, 545.0]),
        (375.0, 20.0, 937_500, [60.0, 70.0, 90.0, 162.0]),
        (300.0, 30.0, 1_125_000, [90.0, 105.0, 135.0, 247.0]),
        (50.0, 600.0, 3_750_000, [1800.0, 2100.0, 2698.0, 6049.0]),
        (50.0, 600.0, 1_000_000, [1360.0, 1520.0, 2116.0, 4824.0]),
        (50.0, 600.0, 10_000_000, [2800.0, 3100.0, 3698.0, 7096.0]),
        (100.0, 60.0, 5_000_000, [520.0, 550.0, 609.0, 812.0]),
        (150.0, 50.0, 10_000_000, [633.0, 658.0, 708.0, 892.0]),
        (100.0, 20.0, 5_000_000, [440.0, 450.0, 469.0, 507.0]),
    ];

    #[test]
    fn bounds_are_the_published_ones() {
        for (rate_mbps, rtt_ms, object_bytes, expected) in PUBLISHED {
            let b = bounds(rate_mbps, rtt_ms, object_bytes);
            let got = [b.floor_ms, b.early_ms, b.careful_resume_ms, b.slow_start_ms];
            assert_eq!(
                got.map(f64::round),
                expected,
                "{rate_mbps} Mbit/s, {rtt_ms} ms, {object_bytes} bytes"
            );
        }
    }

    #[test]
    fn steady_capacity_has_the_bounds_of_its_rate() {
        for (rate_mbps, rtt_ms, object_bytes, _) in PUBLISHED {
            let capacity = Capacity::new(vec![(0.0, rate_mbps)], None);
            for jump_bdp in [0.1, 0.5, 1.5] {
                let jump_bytes = jump_bdp * bdp_bytes(rate_mbps, rtt_ms);
                let steady = bounds_of_jump(rate_mbps, rtt_ms, object_bytes, jump_bytes);
                let over = bounds_over(&capacity, 777.0, rtt_ms, object_bytes, jump_bytes);
                let all =
                    |b: Bounds| [b.floor_ms, b.early_ms, b.careful_resume_ms, b.slow_start_ms];
                for (a, b) in all(steady).into_iter().zip(all(over)) {
                    assert!((a - b).abs() < 1e-6, "{rate_mbps}, {rtt_ms}: {steady:?} {over:?}");
                }
            }
        }
    }

    #[test]
    fn bound_over_a_trace_depends_on_the_start() {
        // 12.5 MB/s for a second, then a tenth of that.
        let capacity = Capacity::new(vec![(0.0, 100.0), (1000.0, 10.0)], Some(2000.0));
        let floor = |start_ms| bounds_over(&capacity, start_ms, 100.0, 1_250_000, 1e6).floor_ms;
        assert_eq!(floor(0.0), 300.0);
        // From 950 to 1000 ms 625 kB, and the rest at 1.25 MB/s.
        assert_eq!(floor(800.0), 50.0 + 500.0 + 200.0);
        // From 1350 ms to the end 812.5 kB, and then 437.5 kB.
        assert_eq!(floor(1200.0), 650.0 + 35.0 + 200.0);
        assert_eq!(floor(2000.0), 300.0);
    }

    #[test]
    fn larger_jump_has_a_lower_bound() {
        let with = |bdp: f64| {
            let jump_bytes = bdp * bdp_bytes(50.0, 600.0);
            bounds_of_jump(50.0, 600.0, 3_750_000, jump_bytes).careful_resume_ms
        };
        assert_eq!(with(0.5), bounds(50.0, 600.0, 3_750_000).careful_resume_ms);
        assert!(with(0.25) > with(0.5) && with(0.5) > with(1.0));
        assert_eq!(with(1.0), with(5.0));
    }

    #[test]
    fn object_within_initial_window_has_no_gain() {
        let b = bounds(500.0, 50.0, 13_500);
        assert_eq!(b.careful_resume_ms, b.slow_start_ms);
    }

    #[test]
    fn path_below_two_initial_windows_has_no_gain() {
        let b = bounds(1.0, 100.0, 1_000_000);
        assert_eq!(b.careful_resume_ms, b.slow_start_ms);
    }
}
