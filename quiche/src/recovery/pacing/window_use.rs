//! Whether the congestion window is used, so that it may grow (RFC 9002, 7.8).

/// A window that doubles is twice what was in flight in the round trip before,
/// and what is acknowledged waits for its release times.
const WINDOW_PER_FLIGHT_MAX: usize = 3;

/// The most that was in flight, in this round trip and in the one before it.
///
/// Data that waits for its release time makes a sender limited by pacing, not
/// by its data. One whose peer's flow control allows it little is so whenever
/// it is allowed more, and its window would grow without end.
#[derive(Debug, Default)]
pub(crate) struct WindowUse {
    /// In bytes.
    flight_max: usize,
    flight_max_before: usize,
    /// All packet number spaces of a connection count on from each other.
    last_sent: u64,
    /// The round trip ends when a later packet is acknowledged.
    last_before: u64,
}

impl WindowUse {
    /// `flight` is in flight with this packet.
    pub(crate) fn on_sent(&mut self, pkt_num: u64, flight: usize) {
        self.last_sent = pkt_num;
        self.flight_max = self.flight_max.max(flight);
    }

    /// `flight` was in flight with what is acknowledged.
    pub(crate) fn on_ack(&mut self, largest_acked: u64, flight: usize) {
        if largest_acked > self.last_before {
            self.flight_max_before = self.flight_max;
            self.flight_max = flight;
            self.last_before = self.last_sent;
        }
    }

    /// Whether so little of the window was in flight that it must not grow.
    pub(crate) fn is_small(&self, window: usize) -> bool {
        let flight_max = self.flight_max.max(self.flight_max_before);
        flight_max < window / WINDOW_PER_FLIGHT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first ACK of a burst sees all in flight, the last next to nothing, and
    /// between two round trips nothing has been sent of the new one.
    #[test]
    fn the_most_of_two_round_trips_counts() {
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
