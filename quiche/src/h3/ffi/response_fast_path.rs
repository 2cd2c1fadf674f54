//! C interface of responses in one write, as `include/quiche_batch.h` declares
//! it.

use crate::ffi::convert::bytes;

use super::*;

#[no_mangle]
pub extern "C" fn quiche_h3_send_response_with_body(
    conn: &mut h3::Connection, quic_conn: &mut Connection, stream_id: u64,
    headers: *const Header, headers_len: size_t, priority: &Priority,
    body: *const u8, body_len: size_t,
) -> c_int {
    let headers = headers_from_ptr(headers, headers_len);
    let body = bytes(body, body_len);
    let sent = conn
        .send_response_with_body(quic_conn, stream_id, &headers, priority, body);

    match sent {
        Ok(_) => 0,

        Err(e) => e.to_c() as c_int,
    }
}
