//! Send quota: how much of its responses a connection keeps until they are acknowledged.
//!
//! The congestion window is no bound: a client that delays its acknowledgements makes
//! it as large as it likes, and one that leaves out a single packet has all that follows
//! kept. What is kept is added up only when as much has been written as there was
//! room for the last time: it cannot have become more than that.

/// Room for what is written.
#[derive(Debug)]
pub struct SendQuota {
    /// What may be kept, in bytes.
    max: u64,

    /// What may be written before it is looked again.
    left: u64,
}

impl SendQuota {
    /// So many bytes.
    pub fn new(max: u64) -> Self {
        Self { max, left: max }
    }

    /// How many bytes may be written, where so many are `kept` by now.
    pub fn left(&mut self, kept: impl FnOnce() -> u64) -> u64 {
        if self.left == 0 {
            self.left = self.max.saturating_sub(kept());
        }
        self.left
    }

    /// So many bytes have been written.
    pub fn take(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_looked_at_only_when_it_may_matter() {
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
            send_quota.take(written);
            let mut looked = None;
            let got = send_quota.left(|| {
                looked = kept;
                kept.expect("not looked at")
            });
            assert_eq!((got, looked), (left, kept), "{written} {kept:?}");
        }
    }
}
