//! Use of the congestion window, without which it must not grow (RFC 9002,
//! 7.8).

/// Largest ratio of window to flight at which the window counts as used: a
/// doubling window is twice the flight of the previous round trip, and packets
/// wait for their release times.
const WINDOW_PER_FLIGHT_MAX: usize = 3;

/// Largest flight of this round trip and of the previous one.
///
/// A sender whose data waits for release times counts as limited by pacing, not
/// by its data. If flow control limits it as well, that happens whenever the
/// peer grants more, and the window would grow without limit.
#[derive(Debug, Default)]
pub(crate) struct WindowUse {
    /// Largest flight of this round trip, in bytes.
    flight_max: usize,
    /// Largest flight of the previous round trip, in bytes.
    flight_max_before: usize,
    /// Number of the last packet. Numbers are unique across the packet number
    /// spaces of a connection.
    last_sent: u64,
    /// Last packet of the previous round trip. This one ends when a later
    /// packet is acknowledged.
    last_before: u64,
}

impl WindowUse {
    /// Records a sent packet; `flight` includes it.
    pub(crate) fn on_sent(&mut self, pkt_num: u64, flight: usize) {
        self.last_sent = pkt_num;
        self.flight_max = self.flight_max.max(flight);
    }

    /// Records an ACK; `flight` includes the acknowledged packets.
    pub(crate) fn on_ack(&mut self, largest_acked: u64, flight: usize) {
        if largest_acked > self.last_before {
            self.flight_max_before = self.flight_max;
            self.flight_max = flight;
            self.last_before = self.last_sent;
        }
    }

    /// Returns whether the flight was too small for the window to grow.
    pub(crate) fn is_small(&self, window: usize) -> bool {
        let flight_max = self.flight_max.max(self.flight_max_before);
        flight_max < window / WINDOW_PER_FLIGHT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the first ACK of a burst everything is in flight, at the last almost
    /// nothing, and between two round trips nothing of the new one was sent.
    #[test]
    fn largest_flight_of_two_round_trips_counts() {
        let mut window_use = WindowUse::default();
        let is_small =
            |used: &WindowUse| [29, 30, 31, 33].map(|w| used.is_small(w));
        let sent = |used: &mut WindowUse, numbers: std::ops::Range<u64>| {
            let first = numbers.start;
            numbers.for_each(|n| used.on_sent(n, (n - first + 1) as usize));
        };
        sent(&mut window_use, 0..10);
        assert_eq!(is_small(&window_use), [false, false, false, true]);

        // The round trip that ends with packet 9 begins with the first ACK.
        for number in 1..10 {
            window_use.on_ack(number, 10 - number as usize);
            assert_eq!(is_small(&window_use), [false, false, false, true]);
        }

        // The next, and with it the one in which ten were in flight is over.
        sent(&mut window_use, 10..15);
        window_use.on_ack(10, 5);
        // Nine were, without the first.
        assert_eq!([29, 30].map(|w| window_use.is_small(w)), [false, true]);
        sent(&mut window_use, 15..20);
        window_use.on_ack(15, 5);
        assert_eq!(
            [15, 17, 18].map(|w| window_use.is_small(w)),
            [false, false, true]
        );
    }
}
