//! The build script finds every patch of the series.

#[test]
fn the_whole_series_needs_no_stand_in() {
    assert!(!cfg!(stand_ins), "a line in build.rs identifies no patch: has it a new name?");
}
