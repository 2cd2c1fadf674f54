//! The work of `SendBuf::emit` must not grow with what is in flight.

use super::*;

const LEN: usize = SEND_BUFFER_SIZE;

fn in_flight(chunks: usize) -> SendBuf {
    let mut buf: SendBuf = SendBuf::new(u64::MAX);
    let mut out = [0; LEN];

    for _ in 0..chunks {
        buf.write(&[1; LEN], false).unwrap();
        assert_eq!(buf.emit(&mut out).unwrap(), (LEN, false));
    }

    buf
}

#[test]
fn retransmission_skips_data_in_flight_at_once() {
    let mut buf = in_flight(1000);
    buf.write(&[2; LEN], false).unwrap();

    buf.retransmit(0, LEN);
    assert_eq!(buf.pos, 0);

    let mut out = [0; LEN];
    assert_eq!(buf.emit(&mut out).unwrap(), (LEN, false));
    assert_eq!(out, [1; LEN]);
    assert_eq!(buf.pos, 1000);

    assert_eq!(buf.emit(&mut out).unwrap(), (LEN, false));
    assert_eq!(out, [2; LEN]);
    assert_eq!(buf.off_front(), 1001 * LEN as u64);
}

#[test]
fn gap_between_retransmissions_ends_the_frame() {
    let mut buf = in_flight(5);

    buf.retransmit(0, LEN);
    buf.retransmit(3 * LEN as u64, LEN);

    let mut out = [0; 4 * LEN];
    assert_eq!(buf.emit(&mut out).unwrap(), (LEN, false));
    assert_eq!(buf.off_front(), 3 * LEN as u64);
    assert_eq!(buf.emit(&mut out).unwrap(), (LEN, false));
    assert_eq!(buf.off_front(), 5 * LEN as u64);
}

#[test]
fn retransmission_begins_where_data_was_lost() {
    let mut buf = in_flight(1000);
    let mut out = [0; 2 * LEN];

    for (off, len) in [(500 * LEN, LEN), (700 * LEN + 1, 2), (999 * LEN, LEN)] {
        assert_eq!(buf.retransmit(off as u64, len), len);
        assert_eq!(buf.off_front(), off as u64);
        assert_eq!(buf.emit(&mut out).unwrap(), (len, false));
    }
}
