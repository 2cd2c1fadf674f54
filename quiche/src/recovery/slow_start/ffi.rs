//! C interface of slow-start exits, as `include/quiche_slow_start.h` declares
//! it.

use libc::c_int;

use super::SearchConfig;
use super::SearchForm;
use super::SlowStartExit;
use crate::ffi::convert::status;
use crate::Config;
use crate::Error;

/// `quiche_search_config`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CSearchConfig {
    window_rtts: f64,
    bins: u32,
    threshold: f64,
    log_evaluations: bool,
}

impl CSearchConfig {
    /// Returns the settings, with the form's default for each 0.
    fn with_defaults(&self, form: SearchForm) -> SearchConfig {
        let default = match form {
            SearchForm::SentAgainstDelivered => SearchConfig::default(),
            SearchForm::DeliveredOnly => SearchConfig::delivered_only(),
        };
        let or_default = |v, default| if v == 0.0 { default } else { v };

        SearchConfig {
            form,
            window_rtts: or_default(self.window_rtts, default.window_rtts),
            bins: if self.bins == 0 {
                default.bins
            } else {
                self.bins
            },
            threshold: or_default(self.threshold, default.threshold),
            log_evaluations: self.log_evaluations,
        }
    }
}

/// Returns the exit of an `enum quiche_slow_start_exit`; None for another
/// number.
fn exit_from_c(exit: u32, search: CSearchConfig) -> Option<SlowStartExit> {
    let search = |form| SlowStartExit::Search(search.with_defaults(form));

    match exit {
        0 => Some(SlowStartExit::None),
        1 => Some(SlowStartExit::HyStart),
        2 => Some(search(SearchForm::SentAgainstDelivered)),
        3 => Some(search(SearchForm::DeliveredOnly)),
        4 => Some(SlowStartExit::Queue),
        5 => Some(SlowStartExit::Rapid),
        _ => None,
    }
}

#[no_mangle]
pub extern "C" fn quiche_config_set_slow_start_exit(
    config: &mut Config, exit: u32, search: Option<&CSearchConfig>,
) -> c_int {
    let search = search.copied().unwrap_or_default();
    let exit = exit_from_c(exit, search).ok_or(Error::CongestionControl);

    status(exit.and_then(|exit| config.set_slow_start_exit(exit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_the_default_of_each_setting_of_search() {
        let zeros = CSearchConfig::default();
        let named = |name: &str| Some(name.parse().unwrap());

        for (number, name) in [
            (0, "none"),
            (1, "hystart"),
            (2, "search"),
            (3, "search-3"),
            (4, "queue"),
            (5, "rapid"),
        ] {
            assert_eq!(exit_from_c(number, zeros), named(name));
        }
        assert_eq!(exit_from_c(6, zeros), None);

        let set = CSearchConfig {
            window_rtts: 2.0,
            bins: 5,
            threshold: 0.5,
            log_evaluations: true,
        };
        let expected = SearchConfig {
            form: SearchForm::DeliveredOnly,
            window_rtts: 2.0,
            bins: 5,
            threshold: 0.5,
            log_evaluations: true,
        };
        assert_eq!(exit_from_c(3, set), Some(SlowStartExit::Search(expected)));
    }

    #[test]
    fn invalid_exit_settings_are_refused_in_c() {
        let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
        let all = CSearchConfig {
            threshold: 1.0,
            ..Default::default()
        };
        let refused = Error::CongestionControl.to_c() as c_int;

        for (exit, search, expected) in [
            (2, None, 0),
            (3, Some(&CSearchConfig::default()), 0),
            (2, Some(&all), refused),
            (4, None, 0),
            (5, None, 0),
            (6, None, refused),
        ] {
            let said =
                quiche_config_set_slow_start_exit(&mut config, exit, search);
            assert_eq!(said, expected, "{exit}");
        }
    }
}
