//! BBR2's data in flight to a client's old address, which is lost and sent again, too.

use super::data_lost_on_an_abandoned_path::assert_sent_again;
use super::*;

#[rstest]
fn window_lost_on_the_old_path_is_sent_again(#[values(0, 2)] rounds: usize) {
    assert_sent_again("bbr2_gcongestion", rounds);
}
