//! Size of what is kept of each packet in flight.

use super::*;

#[test]
fn rare_frames_do_not_enlarge_all_frames() {
    const WORD: usize = size_of::<usize>();
    assert_eq!(size_of::<frame::Frame>(), 10 * WORD);
    assert!(size_of::<recovery::Sent>() <= 27 * WORD);
}
