//! Send quota: how much of its responses a connection keeps until they are acknowledged.
//!
//! The congestion window is no such limit: a client that delays its acknowledgements makes
//! it as large as it likes, and one that leaves out a single packet has everything after it
//! kept. Adding up what is kept takes time, so that this is done only when as much
//! has been written as there was room for the last time.

/// Quota of one connection.
#[derive(Debug)]
pub struct SendQuota {
    /// Bytes that may be kept.
    max: u64,

    /// Bytes that may be written before what is kept is added up again.
    left: u64,
}

impl SendQuota {
    /// Returns a quota of `max` bytes.
    pub fn new(max: u64) -> Self {
        Self { max, left: max }
    }

    /// Returns how many bytes may be written. `unacknowledged` adds up what is kept.
    pub fn left(&mut self, unacknowledged: impl FnOnce() -> u64) -> u64 {
        if self.left == 0 {
            self.left = self.max.saturating_sub(unacknowledged());
        }
        self.left
    }

    /// Uses up what has been written.
    pub fn consume(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_adds_up_what_is_kept_only_when_used_up() {
        let mut send_quota = SendQuota::new(100);
        for (written, kept, left) in [
            (0, None, 100),
            (60, None, 40),
            (40, Some(100), 0),
            (0, Some(100), 0),
            (0, Some(70), 30),
            (10, None, 20),
            (20, Some(0), 100),
            (100, Some(101), 0),
        ] {
            send_quota.consume(written);
            let mut added_up = None;
            let got = send_quota.left(|| {
                added_up = kept;
                kept.expect("added up too early")
            });
            assert_eq!((got, added_up), (left, kept), "{written} {kept:?}");
        }
    }
}
