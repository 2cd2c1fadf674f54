//! Tests of Careful Resume on a path whose recovery the handshake replaces.

use std::time::Duration;

use rstest::rstest;

use crate::clock;
use crate::path_state::PathState;
use crate::recovery::RecoveryOps;
use crate::test_utils::Pipe;

const RTT: Duration = Duration::from_millis(100);

/// Saved parameters that came before the ClientHello are those of the controller
/// that the handshake chooses.
#[rstest]
fn saved_parameters_outlive_the_choice_of_another_controller(
    #[values("reno", "cubic", "bbr2")] former: &str,
    #[values("reno", "cubic", "bbr2")] chosen: &str,
) {
    let mut config = Pipe::default_config(former).unwrap();
    config.set_careful_resume(Default::default()).unwrap();
    let mut server = Pipe::with_config(&mut config).unwrap().server;
    let (now, observed) = (clock::now(), clock::wall_now());
    let saved = PathState {
        saved_cwnd: 500_000,
        saved_rtt: RTT,
        observed,
        expires: observed + RTT,
        limited: false,
        validated: false,
    };
    server.careful_resume_from(saved, now + RTT).unwrap();

    let mut config = server.recovery_config;
    config.cc_algorithm = chosen.parse().unwrap();
    let path = server.paths.get_active_mut().unwrap();
    path.reinit_recovery(&config);

    assert!(path.recovery.careful_resume().unwrap().may_jump());
    assert!(!path.recovery.careful_resume_from(saved, now + RTT, now));
    assert_eq!(server.careful_resume_events().len(), 1);
}
