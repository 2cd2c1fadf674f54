//! C interface of batches of packets, as `include/quiche_batch.h` declares it.

use super::convert::buffer;
use super::*;

#[no_mangle]
pub extern "C" fn quiche_conn_send_batch(
    conn: &mut Connection, out: *mut u8, out_len: size_t, packets_max: size_t,
    out_packet_len: &mut size_t, out_info: &mut SendInfo,
) -> ssize_t {
    match conn.send_batch(buffer(out, out_len), packets_max, clock::now()) {
        Ok(batch) => {
            let info = batch.info;

            out_info.from_len = std_addr_to_c(&info.from, &mut out_info.from);
            out_info.to_len = std_addr_to_c(&info.to, &mut out_info.to);
            std_time_to_c(&info.at, &mut out_info.at);
            *out_packet_len = batch.packet_len;

            batch.len as ssize_t
        },

        Err(e) => e.to_c(),
    }
}

#[no_mangle]
pub extern "C" fn quiche_config_set_bbr2_batches(config: &mut Config, v: bool) {
    config.set_bbr2_batches(v);
}
