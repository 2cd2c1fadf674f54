//! A C application with `quiche_careful_resume.h`. The cases are C; they share
//! this thread's simulated clock, so that they are exact and take no time.

use quiche::clock::Simulation;
use std::ffi::{c_char, c_void, CString};
use std::time::Duration;

/// `struct environment` of testbed.h.
#[repr(C)]
struct Environment {
    cert_pem: *const c_char,
    key_pem: *const c_char,
    clock: *const c_void,
    advance_to_ns: extern "C" fn(&Simulation, u64),
    elapsed_ns: u64,
}

extern "C" fn advance_to_ns(clock: &Simulation, ns: u64) {
    clock.advance_to(Duration::from_nanos(ns));
}

fn pem(name: &str) -> CString {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/examples");
    CString::new(format!("{dir}/{name}")).unwrap()
}

fn run(case: unsafe extern "C" fn(*mut Environment)) {
    let clock = Simulation::start(1, Duration::from_secs(1_000_000));
    let (cert, key) = (pem("cert.crt"), pem("cert.key"));
    let mut env = Environment {
        cert_pem: cert.as_ptr(),
        key_pem: key.as_ptr(),
        clock: (&raw const clock).cast(),
        advance_to_ns,
        elapsed_ns: 0,
    };

    // SAFETY: all that `env` points to outlives the call, and nothing keeps it.
    unsafe { case(&mut env) };
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod program {
            unsafe extern "C" {
                $(pub(super) fn $name(env: *mut super::Environment);)*
            }
        }

        $(#[test]
        fn $name() {
            run(program::$name);
        })*
    };
}

cases! {
    a_stored_set_resumes_the_next_connection,
    a_jump_is_paced_by_its_release_times,
    a_path_that_became_narrow_ends_in_safe_retreat,
    a_claim_or_a_lifetime_that_ran_out_is_no_jump,
    the_operators_limits_hold,
    without_careful_resume_nothing_happens,
    a_saved_rtt_is_the_initial_one_until_a_sample,
    pacing_is_a_setting_of_its_own,
    a_slow_start_exit_is_chosen,
    what_is_no_record_is_refused,
    a_limited_observation_does_not_lower_a_held_set,
}
