//! Size of what is kept of each packet in flight.

use super::*;

#[test]
fn a_rare_frame_does_not_make_all_of_them_large() {
    const WORD: usize = size_of::<usize>();
    assert_eq!(size_of::<frame::Frame>(), 8 * WORD);
    assert!(size_of::<recovery::Sent>() <= 25 * WORD);
}
