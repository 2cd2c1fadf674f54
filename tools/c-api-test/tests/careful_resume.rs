//! C API of Careful Resume and of the fork's other additions, used by a C program. Its cases run on
//! this thread's simulated clock, so that they are exact and fast.

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
    kept_bytes: extern "C" fn(extern "C" fn(*mut c_void), *mut c_void) -> i64,
}

extern "C" fn advance_to_ns(clock: &Simulation, ns: u64) {
    clock.advance_to(Duration::from_nanos(ns));
}

extern "C" fn kept_bytes(call: extern "C" fn(*mut c_void), argument: *mut c_void) -> i64 {
    allocation_counter::measure(|| call(argument)).bytes_current
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
        kept_bytes,
    };

    // SAFETY: everything that `env` points to outlives the call, and the case keeps no pointer.
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
    stored_path_state_resumes_next_connection,
    jump_is_paced_by_release_times,
    connection_is_enabled_alone,
    narrower_path_leads_to_safe_retreat,
    expired_claim_or_lifetime_prevents_jump,
    configured_limits_are_enforced,
    disabled_careful_resume_has_no_effect,
    pacing_is_independent_of_careful_resume,
    slow_start_exit_is_selectable,
    invalid_record_is_refused,
    limited_observation_keeps_saved_capacity,
    saved_rtt_is_initial_rtt_until_sample,
    token_validates_address_of_next_connection,
    refused_client_learns_error_code,
    sender_knows_what_it_keeps,
    receiver_knows_what_it_keeps,
    packets_of_a_batch_have_one_size,
    packets_of_bbr2_are_released_in_batches,
    streams_share_a_packet_as_an_option,
    datagrams_are_marked_as_an_option,
    rest_of_window_waits_for_full_packet,
    congestion_event_is_undone_on_evidence_only,
    hystart_counts_one_sample_per_ack,
    path_mtu_is_searched_after_some_bytes,
    send_limit_names_what_limits,
    response_leaves_in_one_write,
    connection_works_after_releasing_memory,
}
