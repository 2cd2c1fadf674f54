//! Careful Resume in BBR's model and sender (RFC 9959, appendix C).
//!
//! They keep the flag, and carry out the actions of Careful Resume. `recovery`
//! beside this file passes them on.

use std::time::Duration;

use crate::recovery::gcongestion::bbr::CongestionEventSample;
use crate::recovery::gcongestion::bbr2::drain::Drain;
use crate::recovery::gcongestion::bbr2::mode::Mode;
use crate::recovery::gcongestion::bbr2::BBRv2;
use crate::recovery::gcongestion::bbr2::Limits;
use crate::recovery::gcongestion::bbr2::DEFAULT_PARAMS;
use crate::recovery::gcongestion::Bandwidth;

use super::BBRv2NetworkModel;

#[path = "flag.rs"]
mod flag;

pub(in crate::recovery::gcongestion) use flag::Flag;
use flag::Gains;

/// What the model knows of Careful Resume.
#[derive(Debug)]
pub(in crate::recovery::gcongestion) struct CarefulState {
    pub(in crate::recovery::gcongestion) flag: Flag,

    /// The largest window in Startup, in bytes: ssthresh after a safe retreat,
    /// or the ceiling after a jump.
    startup_window: usize,

    /// How much lost time unvalidated packets may make up for.
    catch_up: Duration,
}

impl Default for CarefulState {
    fn default() -> Self {
        CarefulState {
            flag: Flag::Off,
            startup_window: usize::MAX,
            catch_up: Duration::ZERO,
        }
    }
}

impl CarefulState {
    /// Returns the limits of the window in Startup, where BBR's own is `hi`
    /// bytes.
    pub(in crate::recovery::gcongestion) fn startup_limits(
        &self, hi: usize,
    ) -> Limits<usize> {
        Limits {
            lo: 0,
            hi: hi.min(self.startup_window),
        }
    }
}

impl BBRv2NetworkModel {
    /// RFC 9959, C.3: discards samples of the delivery rate in Drain with the
    /// flag set.
    pub(super) fn admit_sample(
        &self, mut sample: CongestionEventSample,
    ) -> CongestionEventSample {
        if self.careful.flag.discards_samples() {
            sample.sample_max_bandwidth = None;
            sample.sample_max_inflight = 0;
        }

        sample
    }

    /// Lets Startup begin again.
    fn forget_full_bandwidth(&mut self) {
        self.full_bandwidth_reached = false;
        self.rounds_without_bandwidth_growth = 0;
        self.clear_bandwidth_lo();
        self.clear_inflight_lo();
    }
}

impl BBRv2 {
    fn careful(&self) -> &CarefulState {
        &self.mode.network_model().careful
    }

    fn careful_mut(&mut self) -> &mut CarefulState {
        &mut self.mode.network_model_mut().careful
    }

    /// Whether Startup is over: there is no jump then (RFC 9959, C.1).
    pub(in crate::recovery::gcongestion) fn has_left_startup(&self) -> bool {
        !matches!(self.mode, Mode::Startup(_))
            || self.mode.network_model().full_bandwidth_reached()
    }

    /// Returns the initial window, in bytes.
    pub(in crate::recovery::gcongestion) fn initial_window(&self) -> usize {
        self.initial_cwnd
    }

    /// Returns the largest window in Startup, in bytes.
    pub(in crate::recovery::gcongestion) fn startup_window(&self) -> usize {
        self.careful().startup_window
    }

    /// Returns what leaves in an RTT at the nominal pacing rate, in bytes.
    pub(in crate::recovery::gcongestion) fn nominal_window(&self) -> usize {
        let min_rtt = self.mode.network_model().min_rtt();
        let bytes = self.pacing_rate.to_bytes_per_period(min_rtt);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Returns the pacing rate with the flag.
    pub(in crate::recovery::gcongestion) fn careful_pacing_rate(
        &self,
    ) -> Bandwidth {
        let gains = Gains {
            pacing: self.params.startup_pacing_gain,
            window: self.params.startup_cwnd_gain,
        };
        let min_rtt = self.mode.network_model().min_rtt();

        self.careful().flag.pacing_rate(
            self.pacing_rate,
            self.cwnd,
            min_rtt,
            gains,
        )
    }

    /// Returns the target of the window, in bytes, with the flag.
    pub(in crate::recovery::gcongestion) fn careful_target(
        &self, target: usize,
    ) -> usize {
        let model = self.mode.network_model();
        let flag = &model.careful.flag;
        flag.target_window(target, model.min_rtt(), model.cwnd_gain())
    }

    /// Changes the window that BBR has made of `prior` bytes as the flag wants.
    pub(in crate::recovery::gcongestion) fn limit_carefully(
        &mut self, prior: usize,
    ) {
        self.cwnd = self.careful().flag.window(prior, self.cwnd);
    }

    /// RFC 9959, C.1: jumps, at the start of a round.
    pub(in crate::recovery::gcongestion) fn jump(
        &mut self, window: usize, probing_rate: Bandwidth, catch_up: Duration,
    ) {
        self.set_window(window);
        self.limit_startup_gain();
        self.mode.network_model_mut().restart_round_early();
        self.careful_mut().flag = Flag::Unvalidated { probing_rate };
        self.careful_mut().catch_up = catch_up;
    }

    /// Takes back a greater gain than BBR's own: near the path's limit, what it
    /// wins is less than what it loses.
    fn limit_startup_gain(&mut self) {
        let own = DEFAULT_PARAMS.startup_pacing_gain;
        let gain = self.params.startup_pacing_gain.min(own);
        self.params.startup_pacing_gain = gain;
        self.mode.network_model_mut().set_pacing_gain(gain);
    }

    /// Begins the second round with a window, in bytes.
    pub(in crate::recovery::gcongestion) fn validate(&mut self, window: usize) {
        let flag = &mut self.careful_mut().flag;

        if let Flag::Unvalidated { probing_rate } = *flag {
            *flag = Flag::Validating { probing_rate };
        }

        self.set_window(window);
    }

    /// Enters Drain by the next event, with a window of so many bytes at most
    /// (RFC 9959, C.3).
    pub(in crate::recovery::gcongestion) fn retreat(&mut self, window: usize) {
        self.set_window(window.min(self.cwnd));
        self.careful_mut().flag = Flag::Retreat { window };
        self.mode.network_model_mut().set_full_bandwidth_reached();
    }

    /// Ends the safe retreat: Startup goes on up to a window of `ssthresh`
    /// bytes, as slow start would (RFC 9959, 3.5 and 3.6). What BBR knows of
    /// the bandwidth is from before the loss, and may be next to nothing.
    pub(in crate::recovery::gcongestion) fn end_retreat(
        &mut self, ssthresh: usize,
    ) {
        let params = &self.params;
        let gains = (params.startup_pacing_gain, params.startup_cwnd_gain);

        self.mode = match std::mem::take(&mut self.mode) {
            Mode::Drain(Drain { model, .. }) => Mode::startup(model),
            mode => mode,
        };

        let model = self.mode.network_model_mut();
        model.forget_full_bandwidth();
        model.set_pacing_gain(gains.0);
        model.set_cwnd_gain(gains.1);
        self.limit_startup(ssthresh);
    }

    /// Clears the flag.
    pub(in crate::recovery::gcongestion) fn end_careful_resume(&mut self) {
        self.careful_mut().flag = Flag::Off;
    }

    /// Sets the largest window in Startup, in bytes.
    pub(in crate::recovery::gcongestion) fn limit_startup(
        &mut self, window: usize,
    ) {
        self.careful_mut().startup_window = window;
    }

    pub(in crate::recovery::gcongestion) fn set_window(&mut self, window: usize) {
        self.cwnd = window.min(self.cwnd_limits.hi);
    }
}

impl BBRv2 {
    /// Returns how much lost time is made up for, if what is sent now is
    /// unvalidated.
    pub(in crate::recovery::gcongestion) fn unvalidated_catch_up(
        &self,
    ) -> Option<Duration> {
        let is_unvalidated =
            matches!(self.careful().flag, Flag::Unvalidated { .. });

        is_unvalidated.then_some(self.careful().catch_up)
    }
}

#[cfg(test)]
impl BBRv2 {
    /// Returns how many rounds have begun.
    pub(in crate::recovery::gcongestion) fn rounds(&self) -> usize {
        self.mode.network_model().round_trip_count()
    }

    pub(in crate::recovery::gcongestion) fn flag(&self) -> Flag {
        self.careful().flag
    }

    pub(in crate::recovery::gcongestion) fn set_startup_pacing_gain(
        &mut self, gain: f32,
    ) {
        self.params.startup_pacing_gain = gain;
        self.mode.network_model_mut().set_pacing_gain(gain);
    }
}
