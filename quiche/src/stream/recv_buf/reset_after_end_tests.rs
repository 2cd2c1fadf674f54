//! Reset of a stream after its end (RFC 9000, 3.2).

use super::*;

const ERROR_CODE: u64 = 7;

/// Returns a buffer that has received `data` and the end of the stream.
fn ended(data: &[u8]) -> RecvBuf {
    let mut recv = RecvBuf::new(u64::MAX, 0, 0);
    recv.write(RangeBuf::from(data, 0, true)).unwrap();
    recv
}

fn reset(recv: &mut RecvBuf) -> (u64, u64) {
    let done = recv.reset(ERROR_CODE, recv.max_off()).unwrap();
    (done.max_data_delta, done.consumed_flowcontrol)
}

#[test]
fn reset_after_an_end_that_was_not_read_is_read() {
    for (data, read) in [(&b""[..], 0), (b"data", 0), (b"data", 3)] {
        let mut recv = ended(data);
        if read > 0 {
            assert_eq!(recv.emit(&mut [0; 3][..read]), Ok((read, false)));
        }
        assert_eq!(reset(&mut recv), (0, (data.len() - read) as u64));
        assert!(recv.ready());
        let next = recv.emit(&mut [0; 10]);
        assert_eq!(next, Err(Error::StreamReset(ERROR_CODE)));
        assert!(recv.is_fin());
        assert!(!recv.ready());
    }
}

#[test]
fn reset_after_an_end_that_was_read_changes_nothing() {
    let mut recv = ended(b"data");
    assert_eq!(recv.emit(&mut [0; 10]), Ok((4, true)));
    assert_eq!(reset(&mut recv), (0, 0));
    assert!(recv.is_fin());
    assert!(!recv.ready());
}
