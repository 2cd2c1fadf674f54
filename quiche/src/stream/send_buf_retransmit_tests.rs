//! Losses that lie side by side do not cut a buffer into pieces.

use super::*;
use crate::clock::Simulation;
use crate::data_packets::tests::Given;
use crate::rand::rand_u64_uniform;
use std::time::Duration;

const PACKET: usize = 10;
const PACKETS: usize = 100;

/// One buffer, of which all was sent.
fn sent() -> SendBuf<Given> {
    let mut buf = SendBuf::new(u64::MAX);
    let data = bytes::Bytes::from_iter((0..PACKET * PACKETS).map(|n| n as u8));
    buf.append_buf(data, PACKET * PACKETS, true).unwrap();
    for _ in 0..PACKETS {
        buf.emit(&mut [0; PACKET]).unwrap();
    }
    buf
}

/// Loses the packets, sends what is to be sent again, and checks that it is
/// that.
fn assert_sent_again(lost: impl Iterator<Item = usize>, pieces: usize) {
    let mut buf = sent();
    let mut left = vec![];
    for packet in lost {
        let start = packet * PACKET;
        assert_eq!(buf.retransmit(start as u64, PACKET), PACKET);
        left.extend(start..start + PACKET);
    }
    assert_eq!(buf.data.len(), pieces);

    left.sort();
    while !left.is_empty() {
        let (mut out, offset) = ([0; 7], buf.off_front());
        let (len, fin) = buf.emit(&mut out).unwrap();
        assert_eq!(fin, offset as usize + len == PACKET * PACKETS);
        let expected = Vec::from_iter(left.drain(..len));
        assert_eq!(expected[0], offset as usize);
        let expected = Vec::from_iter(expected.iter().map(|n| *n as u8));
        assert_eq!(out[..len], expected);
    }
    assert_eq!(buf.emit(&mut [0; 7]), Ok((0, true)));
}

#[test]
fn neighbouring_losses_stay_one_buffer() {
    // Before the loss, the loss, and after it.
    assert_sent_again((20..80).rev(), 2);
    assert_sent_again((0..PACKETS).rev(), 1);
    assert_sent_again((50..PACKETS).rev(), 1);
}

#[test]
fn data_that_is_not_lost_is_not_resent() {
    assert_sent_again([90, 50, 10].into_iter(), 4);
    assert_sent_again(20..23, 4);
    assert_sent_again([50, 49, 51].into_iter(), 3);
}

/// State of a buffer, byte by byte.
#[derive(Default)]
struct Model {
    is_due: Vec<bool>,
    in_flight: Vec<(usize, usize)>,
}

impl Model {
    /// Something of what is in flight, which is not in flight from then on.
    fn take(&mut self) -> Option<(usize, usize)> {
        let count = self.in_flight.len();
        (count > 0).then(|| self.in_flight.swap_remove(below(count)))
    }

    fn set_due(&mut self, (start, len): (usize, usize), is_due: bool) {
        self.is_due[start..start + len].fill(is_due);
    }

    fn due(&self) -> usize {
        self.is_due.iter().filter(|is_due| **is_due).count()
    }
}

fn below(count: usize) -> usize {
    rand_u64_uniform(count as u64) as usize
}

#[test]
fn random_losses_and_acks_send_what_is_due() {
    for seed in 0..200 {
        let _time = Simulation::start(seed, Duration::from_secs(1));
        let mut buf = SendBuf::<Given>::new(u64::MAX);
        let mut model = Model::default();
        for step in 0..400 {
            match below(8) {
                0 => {
                    let len = 1 + below(40);
                    buf.append_buf(vec![0; len].into(), len, false).unwrap();
                    model.is_due.resize(model.is_due.len() + len, true);
                },
                1..4 => {
                    let start = buf.off_front() as usize;
                    let len = buf.emit(&mut vec![0; 1 + below(12)]).unwrap().0;
                    let first_due = model.is_due.iter().position(|due| *due);
                    assert_eq!(
                        first_due,
                        (len > 0).then_some(start),
                        "{seed} {step}"
                    );
                    assert!(model.is_due[start..start + len]
                        .iter()
                        .all(|due| *due));
                    model.set_due((start, len), false);
                    model.in_flight.extend((len > 0).then_some((start, len)));
                },
                4..6 => {
                    let Some((start, len)) = model.take() else {
                        continue;
                    };
                    assert_eq!(
                        buf.retransmit(start as u64, len),
                        len,
                        "{seed} {step}"
                    );
                    model.set_due((start, len), true);
                },
                _ => {
                    let Some((start, len)) = model.take() else {
                        continue;
                    };
                    buf.ack_and_drop(start as u64, len);
                },
            }
            assert_eq!(buf.buffered_bytes as usize, model.due(), "{seed} {step}");
        }
    }
}
