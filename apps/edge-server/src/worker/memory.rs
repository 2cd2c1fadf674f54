//! Memory that the allocator gives back to the system, some time after connections have
//! come to rest. It does so by itself only where more is asked of it.

use std::time::Duration;
use std::time::Instant;

use log::debug;

/// From the first connection that comes to rest to the next time that memory is given back:
/// more than the second for which the allocator keeps what may be asked for again, and
/// so long that it costs nothing.
const DELAY: Duration = Duration::from_secs(2);

/// When a worker's memory is given back.
#[derive(Debug, Default)]
pub struct AllocatorPurge {
    at: Option<Instant>,
}

impl AllocatorPurge {
    /// A connection has come to rest.
    pub fn on_rest(&mut self, now: Instant) {
        self.at.get_or_insert(now + DELAY);
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Gives back what has not been used for a while, if it is time.
    pub fn on_turn(&mut self, now: Instant) {
        if self.at.take_if(|at| *at <= now).is_some() {
            debug!("memory is tidied");
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
    fn it_is_given_back_once_after_the_first_rest_of_several() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut allocator_purge = AllocatorPurge::default();
        assert_eq!(allocator_purge.deadline(), None);
        for ms in [0, 100, 1900] {
            allocator_purge.on_rest(at(ms));
            allocator_purge.on_turn(at(ms));
            assert_eq!(allocator_purge.deadline(), Some(start + DELAY), "{ms}");
        }
        allocator_purge.on_turn(start + DELAY);
        assert_eq!(allocator_purge.deadline(), None);
    }

    // It takes the place of the C library's, in which `mi_collect()` would find nothing.
    #[test]
    fn all_memory_is_of_one_allocator() {
        // SAFETY: looks at no memory.
        let is_ours = |at| unsafe { libmimalloc_sys::mi_is_in_heap_region(at) };
        let of_rust = Box::new([7_u8; 100]);
        assert!(is_ours((&raw const *of_rust).cast()));
        // SAFETY: is asked for and given back once.
        unsafe {
            let of_c = nix::libc::malloc(100);
            assert!(is_ours(of_c));
            nix::libc::free(of_c);
        }
    }

    // What is rare is kept elsewhere: the allocator would round 8193 bytes up to 10240.
    #[test]
    fn a_connection_is_no_larger_than_a_size_of_the_allocator() {
        assert!(size_of::<Connection>() <= 8192, "{}", size_of::<Connection>());
    }
}
