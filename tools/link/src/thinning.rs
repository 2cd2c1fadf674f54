//! ACK thinning, as some modems and radio links do it.
//!
//! Owns which of a flow's small packets pass, and when. It has no rate and no
//! delay of its own: what passes is meant to be offered to a [`Link`].
//!
//! It recognises acknowledgements by their size, because they are encrypted. The
//! newest acknowledges all that earlier ones do, so it is the one that passes, after
//! at most [`ACK_HOLD`].
//!
//! [`Link`]: crate::Link

use std::num::NonZeroU32;
use std::time::Duration;

/// The largest UDP payload that is taken for an acknowledgement, in bytes. One
/// with a 20-byte connection ID and a few ranges has about 50, the shortest
/// requests about 100. So an acknowledgement with many ranges, as they are
/// after many losses, is not known for one, and passes.
pub const ACK_PAYLOAD_BYTES_MAX: usize = 60;

/// The longest delay of what an acknowledgement acknowledges.
pub const ACK_HOLD: Duration = Duration::from_millis(10);

/// Lets each n-th acknowledgement of one flow pass. `P` is the caller's packet.
///
/// The caller offers every packet of the flow, and asks again when one is
/// [due](Self::due). Packets pass in the order in which they came.
#[derive(Clone, Debug)]
pub struct AckThinner<P> {
    every: NonZeroU32,
    held: Option<Held<P>>,
}

/// The newest of the acknowledgements since the last packet that passed.
#[derive(Clone, Debug)]
struct Held<P> {
    packet: P,
    due: Duration,
    /// Number of packets that it stands for, itself included.
    count: u32,
}

impl<P> AckThinner<P> {
    /// Lets one of `every` acknowledgements pass: with 1, all of them.
    pub fn new(every: NonZeroU32) -> Self {
        Self { every, held: None }
    }

    /// Offers a packet that comes at `now`, and gives those that pass at
    /// `now`: at most the one that was held, and after it the one that came.
    ///
    /// An acknowledgement that is neither the n-th nor followed by a newer one
    /// is held until it is due. A larger packet passes at once, behind the one
    /// held. One that is due by `now` passes before anything else is judged.
    pub fn offer(
        &mut self,
        now: Duration,
        udp_payload_bytes: usize,
        packet: P,
    ) -> impl Iterator<Item = P> {
        let first = self.take_due(now);
        let rest = if udp_payload_bytes > ACK_PAYLOAD_BYTES_MAX {
            [self.take(), Some(packet)]
        } else {
            [self.replace(now, packet), None]
        };
        // What was due is no longer held, so these are two at most.
        first.into_iter().chain(rest.into_iter().flatten())
    }

    /// Returns when the packet that is held is due, if one is.
    pub fn due(&self) -> Option<Duration> {
        self.held.as_ref().map(|held| held.due)
    }

    /// Takes the held packet if it is due at `now`: it passes.
    pub fn take_due(&mut self, now: Duration) -> Option<P> {
        self.due().filter(|due| *due <= now).and_then(|_| self.take())
    }

    fn take(&mut self) -> Option<P> {
        self.held.take().map(|held| held.packet)
    }

    /// Holds `packet` in place of the one before, unless it is its turn.
    fn replace(&mut self, now: Duration, packet: P) -> Option<P> {
        let (due, before) = match self.held.take() {
            Some(held) => (held.due, held.count),
            None => (now.saturating_add(ACK_HOLD), 0),
        };
        let count = before + 1;
        if count >= self.every.get() {
            return Some(packet);
        }
        self.held = Some(Held { packet, due, count });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const ACK: usize = ACK_PAYLOAD_BYTES_MAX;
    const LARGE: usize = ACK_PAYLOAD_BYTES_MAX + 1;

    /// Returns which of packets pass that come in these ms, with these sizes, as
    /// (ms, which one, from 1); the caller asks when one is due.
    fn passed(every: u32, packets: &[(u32, usize)]) -> Vec<(u32, usize)> {
        let mut thinner = AckThinner::new(NonZeroU32::new(every).unwrap());
        let mut passed = Vec::new();
        for (&(now_ms, size), number) in packets.iter().zip(1..) {
            if let Some(due) = thinner.due().filter(|due| *due < now_ms * MS) {
                passed.extend(thinner.take_due(due).map(|held| (due.as_millis() as u32, held)));
            }
            passed.extend(thinner.offer(now_ms * MS, size, number).map(|p| (now_ms, p)));
        }
        if let Some(due) = thinner.due() {
            passed.extend(thinner.take_due(due).map(|held| (due.as_millis() as u32, held)));
        }
        passed
    }

    #[test]
    fn thinner_passes_newest_of_n_and_last_when_due() {
        let burst: Vec<_> = (0..8).map(|ms| (ms, ACK)).collect();
        assert_eq!(passed(3, &burst), [(2, 3), (5, 6), (16, 8)]);
        assert_eq!(passed(100, &burst), [(10, 8)]);
        let all: Vec<_> = (0..8).map(|ms| (ms, ms as usize + 1)).collect();
        assert_eq!(passed(1, &burst), all);
    }

    #[test]
    fn first_held_ack_sets_the_time() {
        let packets = [(0, ACK), (9, ACK), (11, ACK), (12, ACK)];
        assert_eq!(passed(3, &packets), [(10, 2), (21, 4)]);
    }

    #[test]
    fn other_packets_pass_at_once_in_order() {
        let packets = [(0, LARGE), (1, ACK), (2, LARGE), (3, ACK), (4, ACK)];
        assert_eq!(passed(3, &packets), [(0, 1), (2, 2), (2, 3), (13, 5)]);
    }

    #[test]
    fn late_caller_loses_no_packet() {
        let mut thinner = AckThinner::new(NonZeroU32::new(2).unwrap());
        assert_eq!(thinner.offer(MS, ACK, 'a').count(), 0);
        assert_eq!(thinner.take_due(10 * MS), None);
        let late: Vec<char> = thinner.offer(50 * MS, ACK, 'b').collect();
        assert_eq!((late, thinner.due()), (vec!['a'], Some(60 * MS)));
        assert_eq!(thinner.take_due(60 * MS), Some('b'));
        assert_eq!((thinner.take_due(99 * MS), thinner.due()), (None, None));
    }

    proptest! {
        /// Within the hold time each packet has passed, or a newer one has;
        /// those that are no acknowledgement all pass, at once; nothing
        /// passes twice or out of order.
        #[test]
        fn thinner_loses_no_acknowledgement(
            every in 1..20_u32,
            packets in prop::collection::vec((0..15_u32, prop::bool::weighted(0.9)), 1..200),
        ) {
            let mut now_ms = 0;
            let timed = packets.into_iter().map(|(gap_ms, is_ack)| {
                now_ms += gap_ms;
                (now_ms, if is_ack { ACK } else { LARGE })
            });
            let packets: Vec<(u32, usize)> = timed.collect();
            let passed = passed(every, &packets);
            prop_assert!(passed.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            for (&(came_ms, size), number) in packets.iter().zip(1_usize..) {
                let said = passed.iter().find(|(_, passed)| *passed >= number);
                let Some(&(said_ms, by)) = said else { panic!("{number} is lost") };
                let hold_ms = ACK_HOLD.as_millis() as u32;
                prop_assert!((came_ms..=came_ms + hold_ms).contains(&said_ms));
                prop_assert!(size == ACK || (said_ms, by) == (came_ms, number));
            }
        }
    }
}
