//! BBR2 as applications run it.

use fork::BbrParams;

/// What leaves in an RTT of Startup at the pacing rate, over what one RTT is
/// shown to deliver. At the library's 2.773, a window takes most of an RTT to
/// leave, and the samples of a round show less than it: Startup grows by 1.9 a
/// round and takes 8 % longer than slow start. Twice the gain of the window
/// doubles.
const STARTUP_PACING_GAIN: f32 = 4.0;

/// Returns settings with which Startup doubles each round, as slow start does.
/// A jump of Careful Resume returns to the library's gain.
pub fn bbr2_params() -> BbrParams {
    BbrParams { startup_pacing_gain: Some(STARTUP_PACING_GAIN), ..Default::default() }
}
