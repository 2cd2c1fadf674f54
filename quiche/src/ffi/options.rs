//! C interface of the options, as `include/quiche_options.h` declares it.
//!
//! Each function calls the Rust one of the same name.

use super::convert::buffer;
use super::convert::bytes;
use super::convert::status;
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
pub extern "C" fn quiche_config_set_ecn(
    config: &mut Config, v: bool, alternative_backoff: bool,
) {
    config.set_ecn(v.then_some(ecn::EcnConfig {
        alternative_backoff,
        ..Default::default()
    }));
}

#[no_mangle]
pub extern "C" fn quiche_conn_recv_ecn(
    conn: &mut Connection, buf: *mut u8, buf_len: size_t, info: &RecvInfo,
    ecn: u8,
) -> ssize_t {
    let ecn = ecn::Codepoint::from_bits(ecn);

    match conn.recv_ecn(buffer(buf, buf_len), info.into(), ecn) {
        Ok(v) => v as ssize_t,

        Err(e) => e.to_c(),
    }
}

#[no_mangle]
pub extern "C" fn quiche_conn_sent_ecn(conn: &Connection) -> u8 {
    conn.sent_ecn() as u8
}

#[repr(C)]
pub struct EcnReport {
    state: c_int,
    sent: u64,
    received: [u64; 3],
    reported: [u64; 3],
}

#[no_mangle]
pub extern "C" fn quiche_conn_ecn_stats(conn: &Connection, out: &mut EcnReport) {
    let stats = conn.ecn_stats();
    let counts = |marks: ecn::Marks| [marks.ect0, marks.ect1, marks.ce];

    *out = EcnReport {
        state: match stats.state {
            None => 0,
            Some(ecn::EcnState::Testing) => 1,
            Some(ecn::EcnState::Unknown) => 2,
            Some(ecn::EcnState::Failed) => 3,
            Some(ecn::EcnState::Capable) => 4,
        },
        sent: stats.sent,
        received: counts(stats.received),
        reported: counts(stats.reported),
    };
}

#[no_mangle]
pub extern "C" fn quiche_config_set_pmtud_start_after(
    config: &mut Config, bytes: u64,
) {
    config.set_pmtud_start_after(bytes);
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
    status(conn.send_new_token(bytes(token, token_len).to_vec()))
}

#[no_mangle]
pub extern "C" fn quiche_conn_new_token(
    conn: &Connection, out: &mut *const u8, out_len: &mut size_t,
) {
    let token = conn.new_token();

    *out = token.map_or(ptr::null(), <[u8]>::as_ptr);
    *out_len = token.map_or(0, <[u8]>::len);
}

#[no_mangle]
pub extern "C" fn quiche_conn_set_token(
    conn: &mut Connection, token: *const u8, token_len: size_t,
) -> c_int {
    status(conn.set_token(bytes(token, token_len)))
}

#[no_mangle]
pub extern "C" fn quiche_conn_set_peer_address_validated(
    conn: &mut Connection,
) -> c_int {
    status(conn.set_peer_address_validated())
}

#[no_mangle]
pub extern "C" fn quiche_refuse(
    scid: *const u8, scid_len: size_t, dcid: *const u8, dcid_len: size_t,
    version: u32, error_code: u64, out: *mut u8, out_len: size_t,
) -> ssize_t {
    let scid = ConnectionId::from_ref(bytes(scid, scid_len));
    let dcid = ConnectionId::from_ref(bytes(dcid, dcid_len));

    match refuse(&scid, &dcid, version, error_code, buffer(out, out_len)) {
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
pub extern "C" fn quiche_conn_stream_missing(
    conn: &Connection, stream_id: u64,
) -> u64 {
    conn.stream_missing(stream_id)
}

#[no_mangle]
pub extern "C" fn quiche_conn_stream_bytes_unsent(conn: &Connection) -> size_t {
    conn.stream_bytes_unsent()
}

#[no_mangle]
pub extern "C" fn quiche_conn_stream_bytes_unread(conn: &Connection) -> u64 {
    conn.stream_bytes_unread()
}

#[no_mangle]
pub extern "C" fn quiche_conn_stream_chunks_unread(conn: &Connection) -> size_t {
    conn.stream_chunks_unread()
}

#[no_mangle]
pub extern "C" fn quiche_conn_packets_kept(conn: &Connection) -> size_t {
    conn.packets_kept()
}

#[no_mangle]
pub extern "C" fn quiche_h3_conn_unfinished_frame_bytes(
    conn: &h3::Connection,
) -> size_t {
    conn.unfinished_frame_bytes()
}

#[no_mangle]
pub extern "C" fn quiche_conn_shrink_to_fit(conn: &mut Connection) {
    conn.shrink_to_fit();
}

#[no_mangle]
pub extern "C" fn quiche_h3_conn_shrink_to_fit(conn: &mut h3::Connection) {
    conn.shrink_to_fit();
}
