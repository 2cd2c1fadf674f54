//! Segmentation offload (GSO) of one socket: how many datagrams a send may carry.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Datagrams that are sent singly after a failure, before a send carries several again: one failed
/// system call in so many does not matter, and a server recovers within a second or so.
const SINGLE_SENDS: u32 = 10_000;

/// Whether sends carry several datagrams. Off for a while once the device has refused such a send
/// and accepted its first datagram alone.
#[derive(Debug)]
pub struct Segmentation {
    datagrams_offered: usize,
    single_sends_left: AtomicU32,
}

impl Segmentation {
    /// Starts with what the kernel offers.
    pub fn new(datagrams_offered: usize) -> Self {
        Self { datagrams_offered, single_sends_left: AtomicU32::new(0) }
    }

    /// Returns the number of datagrams in one send that the kernel offers.
    pub fn datagrams_offered(&self) -> usize {
        self.datagrams_offered
    }

    /// Returns the maximum number of datagrams in one send.
    pub fn datagrams_max(&self) -> usize {
        match self.single_sends_left.load(Relaxed) {
            0 => self.datagrams_offered,
            _ => 1,
        }
    }

    /// Registers a send of one datagram.
    pub fn on_single_send(&self) {
        let lower = |left: u32| left.checked_sub(1);
        let _ = self.single_sends_left.fetch_update(Relaxed, Relaxed, lower);
    }

    /// Registers that the device refused a send of several datagrams and accepted one alone.
    pub fn on_refusal(&self) {
        self.single_sends_left.store(SINGLE_SENDS, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_segmentation_is_tried_again() {
        let segmentation = Segmentation::new(64);
        assert_eq!(segmentation.datagrams_max(), 64);
        for _ in 0..2 {
            segmentation.on_refusal();
            for _ in 0..SINGLE_SENDS {
                assert_eq!(segmentation.datagrams_max(), 1);
                segmentation.on_single_send();
            }
            assert_eq!(segmentation.datagrams_max(), 64);
            segmentation.on_single_send();
        }
    }
}
