//! C interface of the options, as `include/quiche_options.h` declares it.
//!
//! Each function calls the Rust one of the same name.

use super::*;

#[no_mangle]
pub extern "C" fn quiche_config_set_sws_avoidance(config: &mut Config, v: bool) {
    config.set_sws_avoidance(v);
}

#[no_mangle]
pub extern "C" fn quiche_config_set_coalesce_streams(
    config: &mut Config, v: bool,
) {
    config.set_coalesce_streams(v);
}

#[no_mangle]
pub extern "C" fn quiche_config_set_spurious_loss_evidence(
    config: &mut Config, v: bool,
) {
    config.set_spurious_loss_evidence(v);
}

#[no_mangle]
pub extern "C" fn quiche_config_set_hystart_samples_per_ack(
    config: &mut Config, v: bool,
) {
    config.set_hystart_samples_per_ack(v);
}

#[no_mangle]
pub extern "C" fn quiche_conn_raise_initial_rtt(
    conn: &mut Connection, rtt_us: u64,
) -> bool {
    conn.raise_initial_rtt(Duration::from_micros(rtt_us))
}

#[no_mangle]
pub extern "C" fn quiche_conn_send_new_token(
    conn: &mut Connection, token: *const u8, token_len: size_t,
) -> c_int {
    to_c(conn.send_new_token(bytes(token, token_len).to_vec()))
}

#[no_mangle]
pub extern "C" fn quiche_conn_new_token(
    conn: &Connection, out: &mut *const u8, out_len: &mut size_t,
) {
    let token = conn.new_token().unwrap_or_default();

    *out = token.as_ptr();
    *out_len = token.len();
}

#[no_mangle]
pub extern "C" fn quiche_conn_set_token(
    conn: &mut Connection, token: *const u8, token_len: size_t,
) -> c_int {
    to_c(conn.set_token(bytes(token, token_len)))
}

#[no_mangle]
pub extern "C" fn quiche_conn_set_peer_address_validated(
    conn: &mut Connection,
) -> c_int {
    to_c(conn.set_peer_address_validated())
}

#[no_mangle]
pub extern "C" fn quiche_refuse(
    scid: *const u8, scid_len: size_t, dcid: *const u8, dcid_len: size_t,
    version: u32, error_code: u64, out: *mut u8, out_len: size_t,
) -> ssize_t {
    let scid = ConnectionId::from_ref(bytes(scid, scid_len));
    let dcid = ConnectionId::from_ref(bytes(dcid, dcid_len));
    // SAFETY: the caller has `out_len` bytes at `out`.
    let out = unsafe { slice::from_raw_parts_mut(out, out_len) };

    match refuse(&scid, &dcid, version, error_code, out) {
        Ok(v) => v as ssize_t,

        Err(e) => e.to_c(),
    }
}

#[no_mangle]
pub extern "C" fn quiche_conn_stream_unacknowledged(
    conn: &Connection, stream_id: u64,
) -> u64 {
    conn.stream_unacknowledged(stream_id)
}

#[no_mangle]
pub extern "C" fn quiche_conn_stream_bytes_unsent(conn: &Connection) -> size_t {
    conn.stream_bytes_unsent()
}

#[no_mangle]
pub extern "C" fn quiche_conn_shrink_to_fit(conn: &mut Connection) {
    conn.shrink_to_fit();
}

#[no_mangle]
pub extern "C" fn quiche_h3_conn_shrink_to_fit(conn: &mut h3::Connection) {
    conn.shrink_to_fit();
}

/// Returns the caller's bytes; `bytes` may be NULL if there are none.
fn bytes<'a>(bytes: *const u8, len: size_t) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: the caller has `len` bytes at `bytes`.
        _ => unsafe { slice::from_raw_parts(bytes, len) },
    }
}

fn to_c(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,

        Err(e) => e.to_c() as c_int,
    }
}
