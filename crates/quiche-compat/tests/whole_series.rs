//! The build script finds every patch of the series.

#[test]
fn the_whole_series_needs_no_stand_in() {
    let stand_ins = cfg!(stand_ins).then_some("a line in build.rs names no patch");
    assert_eq!(stand_ins, None);
}
