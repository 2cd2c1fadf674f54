//! The choice of a slow-start exit, and its names.

use super::*;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::Error;

fn config() -> Config {
    Config::new(crate::PROTOCOL_VERSION).unwrap()
}

#[test]
fn each_exit_name_parses_to_itself() {
    for name in SlowStartExit::NAMES {
        let exit: SlowStartExit = name.parse().unwrap();
        assert_eq!(exit.name(), name);
    }

    for other in ["", "Search", "search-4", "hystart++"] {
        let error = other.parse::<SlowStartExit>().unwrap_err().to_string();
        assert!(
            error.contains(other) && error.contains("search-3"),
            "{error}"
        );
    }
}

/// draft-chung-ccwg-search-09's one implementation, and
/// draft-chung-ietf-ccwg-00.
#[test]
fn search_form_has_its_threshold() {
    assert_eq!(SearchConfig::default().threshold, 0.26);
    assert_eq!(SearchConfig::delivered_only().threshold, 0.35);
}

/// Returns what a connection would use: HyStart++, and SEARCH.
fn chosen(config: &Config) -> (bool, Option<SearchForm>) {
    let Recovery::Legacy(recovery) = Recovery::new(config) else {
        unreachable!("CUBIC")
    };
    let search = recovery.slow_start().and_then(|s| s.search.as_ref());

    (
        recovery.congestion.hystart.enabled(),
        search.map(|search| search.config().form),
    )
}

#[test]
fn later_choice_of_exit_decides() {
    let search = SlowStartExit::Search(SearchConfig::default());
    let searches = Some(SearchForm::SentAgainstDelivered);
    let mut config = config();
    assert_eq!(chosen(&config), (true, None));

    config.set_slow_start_exit(search).unwrap();
    assert_eq!(chosen(&config), (false, searches));
    config.enable_hystart(true);
    assert_eq!(chosen(&config), (true, None));

    config.enable_hystart(false);
    config.set_slow_start_exit(search).unwrap();
    config.enable_hystart(false);
    assert_eq!(chosen(&config), (false, searches));

    config.set_slow_start_exit(SlowStartExit::None).unwrap();
    assert_eq!(chosen(&config), (false, None));
    config.set_slow_start_exit(SlowStartExit::HyStart).unwrap();
    assert_eq!(chosen(&config), (true, None));
}

#[test]
fn invalid_exit_settings_change_nothing() {
    let mut config = config();
    let threshold = 0.0;
    let search = SearchConfig {
        threshold,
        ..Default::default()
    };
    let refused = config.set_slow_start_exit(SlowStartExit::Search(search));

    assert_eq!(refused, Err(Error::CongestionControl));
    assert_eq!(chosen(&config), (true, None));
}
