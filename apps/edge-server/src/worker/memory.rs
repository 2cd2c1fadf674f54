//! Allocator purge: returns freed memory to the system some time after connections have
//! become idle. The allocator does so by itself only when more memory is requested.

use std::time::Duration;
use std::time::Instant;

use log::debug;

/// Time from the first connection that becomes idle to the next purge: more than the second
/// for which the allocator keeps freed memory, and so long that the purge costs nothing.
const DELAY: Duration = Duration::from_secs(2);

/// Timer of one worker's purge.
#[derive(Debug, Default)]
pub struct AllocatorPurge {
    at: Option<Instant>,
}

impl AllocatorPurge {
    /// Starts the timer, as a connection has become idle.
    pub fn on_idle(&mut self, now: Instant) {
        self.at.get_or_insert(now + DELAY);
    }

    /// Returns when the purge is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Purges, if it is time.
    pub fn on_turn(&mut self, now: Instant) {
        if self.at.take_if(|at| *at <= now).is_some() {
            debug!("memory is purged");
            // SAFETY: may be called at any time; takes no memory that is in use.
            unsafe { libmimalloc_sys::mi_collect(false) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;

    #[test]
    fn purge_follows_the_first_of_several_idle_connections() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut allocator_purge = AllocatorPurge::default();
        assert_eq!(allocator_purge.deadline(), None);
        for ms in [0, 100, 1900] {
            allocator_purge.on_idle(at(ms));
            allocator_purge.on_turn(at(ms));
            assert_eq!(allocator_purge.deadline(), Some(start + DELAY), "{ms}");
        }
        allocator_purge.on_turn(start + DELAY);
        assert_eq!(allocator_purge.deadline(), None);
    }

    // It replaces the C library's, whose memory `mi_collect()` does not know.
    #[test]
    fn rust_and_c_share_one_allocator() {
        // SAFETY: looks at no memory.
        let is_ours = |at| unsafe { libmimalloc_sys::mi_is_in_heap_region(at) };
        let of_rust = Box::new([7_u8; 100]);
        assert!(is_ours((&raw const *of_rust).cast()));
        // SAFETY: is allocated and freed once.
        unsafe {
            let of_c = nix::libc::malloc(100);
            assert!(is_ours(of_c));
            nix::libc::free(of_c);
        }
    }

    // What is rare is kept elsewhere: the allocator would round 8193 bytes up to 10240.
    #[test]
    fn connection_fits_a_size_class_of_the_allocator() {
        assert!(size_of::<Connection>() <= 8192, "{}", size_of::<Connection>());
    }
}
