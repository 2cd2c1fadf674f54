//! Measurements of what one connection keeps for its client: when the next is due.

use std::time::Duration;
use std::time::Instant;

/// Bytes that come or are written before what is kept is measured again: at least so many, and
/// one in so many of those kept.
const STEP_BYTES_MIN: u64 = 16 << 10;
const STEP_DIVISOR: u64 = 16;

/// Time after which it is measured again if anything has come or been written.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of the record of a packet, and least bytes of a response in a packet as a rule.
const RECORD_BYTES: u64 = 400;
const PACKET_BYTES: u64 = 1000;

/// Bytes that a chunk of a request takes besides its data.
const CHUNK_BYTES: u64 = 200;

/// Packets whose records any connection may keep.
const PACKETS_FREE: u64 = 512;

/// Returns the bytes of records that are kept beside those of response data: a client can make the
/// server send many small packets, and acknowledge none.
pub fn surplus_record_bytes(packets: usize, response_bytes: u64) -> u64 {
    let expected = response_bytes / PACKET_BYTES + PACKETS_FREE;
    (packets as u64).saturating_sub(expected) * RECORD_BYTES
}

/// Returns the bytes that chunks of requests take besides their data: a client can send single
/// bytes with gaps between them.
pub fn chunk_bytes(chunks: usize) -> u64 {
    chunks as u64 * CHUNK_BYTES
}

/// Measurements of one connection.
#[derive(Debug)]
pub struct KeptMeter {
    measured_at: Instant,

    /// Bytes that were kept then.
    kept: u64,

    /// Bytes received and read from disk since then.
    received: u64,

    /// Bytes of responses that had been written by then, and files that were open.
    written: u64,
    files: u64,
}

impl KeptMeter {
    pub fn new(now: Instant) -> Self {
        Self { measured_at: now, kept: 0, received: 0, written: 0, files: 0 }
    }

    /// Notes how many bytes are kept.
    pub fn on_measured(&mut self, kept: u64) {
        self.kept = kept;
    }

    /// Notes a datagram, or bytes read from disk.
    pub fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Returns whether a measurement is due, and if so begins to wait for the next. An idle
    /// connection, whose responses are acknowledged, is measured at once; so is one whose requests
    /// are `unread`, because a datagram may be hundreds of chunks.
    pub fn take_due(
        &mut self,
        written: u64,
        files: u64,
        unread: bool,
        is_idle: bool,
        now: Instant,
    ) -> bool {
        let change = self.received + (written - self.written);
        let is_late = now.saturating_duration_since(self.measured_at) >= INTERVAL;
        let step = STEP_BYTES_MIN.max(self.kept / STEP_DIVISOR);
        let is_over = is_idle && self.kept > 0;
        let grows = unread && self.received > 0;
        let is_soon = is_late || is_over || grows;
        let is_due = change >= step || files != self.files || change > 0 && is_soon;
        if is_due {
            *self = Self { measured_at: now, received: 0, written, files, ..*self };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_beside_those_of_response_data() {
        assert_eq!(surplus_record_bytes(512, 0), 0);
        assert_eq!(surplus_record_bytes(513, 0), RECORD_BYTES);
        assert_eq!(surplus_record_bytes(8000, 10_000_000), 0);
        assert_eq!(surplus_record_bytes(10_612, 10_000_000), 100 * RECORD_BYTES);
    }

    #[test]
    fn measurement_is_due_after_bytes_or_time() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut meter = KeptMeter::new(start);
        for (ms, received, written, files, expected) in [
            (0, 0, 0, 0, false),
            (1, STEP_BYTES_MIN - 1, 0, 0, false),
            (2, 1, 0, 0, true),
            (3, 0, STEP_BYTES_MIN, 0, true),
            (4, 0, STEP_BYTES_MIN, 0, false),
            (5, 1, STEP_BYTES_MIN, 0, false),
            (1002, 0, STEP_BYTES_MIN, 0, false),
            (1003, 0, STEP_BYTES_MIN, 0, true),
            (1004, 0, STEP_BYTES_MIN, 1, true),
            (9000, 0, STEP_BYTES_MIN, 1, false),
        ] {
            meter.on_received(received as usize);
            assert_eq!(meter.take_due(written, files, false, false, at(ms)), expected, "{ms}");
        }
        meter.on_measured(32 * STEP_BYTES_MIN);
        assert!(!meter.take_due(3 * STEP_BYTES_MIN - 1, 1, true, false, at(1005)));
        assert!(meter.take_due(3 * STEP_BYTES_MIN, 1, false, false, at(1006)));
        // The last acknowledgement.
        meter.on_received(1);
        assert!(meter.take_due(3 * STEP_BYTES_MIN, 1, false, true, at(1007)));
        // A datagram of a request that has a gap.
        meter.on_received(1);
        assert!(!meter.take_due(3 * STEP_BYTES_MIN, 1, false, false, at(1008)));
        assert!(meter.take_due(3 * STEP_BYTES_MIN, 1, true, false, at(1008)));
    }
}
