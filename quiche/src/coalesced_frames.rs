//! Acknowledged frames, coalesced: data of a stream that one ACK acknowledges
//! is one frame.

use crate::frame::Frame;

/// Appends a frame, or extends the last one if the frame continues it.
pub fn push(frames: &mut Vec<Frame>, frame: Frame) {
    let is_extended = frames.last_mut().is_some_and(|last| extend(last, &frame));
    if !is_extended {
        frames.push(frame);
    }
}

/// Extends `frame` by `next` if that is the data right behind. Returns whether
/// it is.
fn extend(frame: &mut Frame, next: &Frame) -> bool {
    let (
        Frame::StreamHeader {
            stream_id,
            offset,
            length,
            fin,
        },
        Frame::StreamHeader {
            stream_id: next_id,
            offset: next_offset,
            length: next_length,
            fin: next_fin,
        },
    ) = (frame, next)
    else {
        return false;
    };
    let follows =
        next_id == stream_id && *next_offset == *offset + *length as u64;
    if follows {
        *length += next_length;
        *fin |= next_fin;
    }
    follows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Epoch;
    use crate::ranges::RangeSet;
    use crate::recovery::HandshakeStatus;
    use crate::recovery::Recovery;
    use crate::recovery::RecoveryOps;
    use crate::test_utils::helper_packet_sent;

    fn data(stream_id: u64, offset: u64, length: usize, fin: bool) -> Frame {
        Frame::StreamHeader {
            stream_id,
            offset,
            length,
            fin,
        }
    }

    fn coalesced(given: &[Frame]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for frame in given {
            push(&mut frames, frame.clone());
        }
        frames
    }

    #[test]
    fn contiguous_data_of_a_stream_is_one_frame() {
        for (given, expected) in [
            (
                vec![
                    data(4, 0, 10, false),
                    data(4, 10, 5, false),
                    data(4, 15, 1, false),
                ],
                vec![data(4, 0, 16, false)],
            ),
            // The end, with data or without.
            (
                vec![data(4, 7, 3, false), data(4, 10, 5, true)],
                vec![data(4, 7, 8, true)],
            ),
            (
                vec![data(4, 7, 3, false), data(4, 10, 0, true)],
                vec![data(4, 7, 3, true)],
            ),
            // Behind data of another stream.
            (
                vec![
                    data(0, 0, 9, false),
                    data(4, 0, 9, false),
                    data(4, 9, 9, false),
                ],
                vec![data(0, 0, 9, false), data(4, 0, 18, false)],
            ),
        ] {
            assert_eq!(coalesced(&given), expected, "{given:?}");
        }
    }

    #[test]
    fn other_frames_stay_as_they_are() {
        let crypto = |offset| Frame::CryptoHeader { offset, length: 10 };
        for given in [
            // A gap, an overlap, what came before.
            vec![data(4, 0, 10, false), data(4, 11, 5, false)],
            vec![data(4, 0, 10, false), data(4, 9, 5, false)],
            vec![data(4, 10, 5, false), data(4, 0, 10, false)],
            // Another stream, another frame between, other kinds of frame.
            vec![data(4, 0, 10, false), data(8, 10, 5, false)],
            vec![
                data(4, 0, 10, false),
                Frame::HandshakeDone,
                data(4, 10, 5, false),
            ],
            vec![crypto(0), crypto(10)],
        ] {
            assert_eq!(coalesced(&given), given);
        }
    }

    #[test]
    fn packets_of_one_ack_give_one_frame() {
        let config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        let mut recovery = Recovery::new(&config);
        let (epoch, status) = (Epoch::Application, HandshakeStatus::default());
        let now = crate::clock::now();
        for n in 0..4 {
            let mut packet = helper_packet_sent(n, now, 1000);
            packet.frames = smallvec::smallvec![data(4, n * 10, 10, n == 3)];
            recovery.on_packet_sent(packet, epoch, status, now, "");
        }

        let mut ack = RangeSet::default();
        ack.insert(0..4);
        recovery
            .on_ack_received(&ack, 0, epoch, status, now, None, "")
            .unwrap();
        assert_eq!(recovery.next_acked_frame(epoch), Some(data(4, 0, 40, true)));
        assert_eq!(recovery.next_acked_frame(epoch), None);
    }
}
