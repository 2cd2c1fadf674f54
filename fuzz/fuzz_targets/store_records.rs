//! Records of the store: a record is read as it was written.
#![no_main]

use std::time::UNIX_EPOCH;

use fuzz::redis_record;
use libfuzzer_sys::fuzz_target;
use quiche::path_state::PathState;

fuzz_target!(|data: &[u8]| {
    if let Ok(state) = PathState::from_bytes(data) {
        assert_eq!(state.to_bytes(), data);
        let _ = state.is_expired(UNIX_EPOCH);
    }
    let _ = redis_record::interpret("192.0.2.0/24", Some(data), UNIX_EPOCH);
});
