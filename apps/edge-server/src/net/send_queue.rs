//! Send queue: groups packets of one size and one ECN codepoint to one destination, so that one
//! system call sends many (GSO). The last packet of a group may be shorter.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use log::debug;
use quiche::ecn::Codepoint;
use quiche::RecvInfo;

use crate::config::limits::PACKET_BYTES_MAX;
use crate::net::route::AddressPair;
use crate::net::route::PacketSink;

/// Largest payload of one system call, in bytes: that of an IPv4 packet.
const SEND_BYTES_MAX: usize = 65_535 - 20 - 8;

/// Queue of packets that were built and not yet sent. It is bounded: while the socket is full, no
/// further packets are built.
pub struct SendQueue {
    buffer: Vec<u8>,
    filled: usize,
    sends: VecDeque<Transmit>,
}

/// Group of packets for one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transmit {
    route: AddressPair,
    ecn: Codepoint,
    range: Range<usize>,
    segment_bytes: usize,
    packets: usize,
}

/// The socket is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked;

impl SendQueue {
    pub fn new() -> Self {
        Self { buffer: vec![0; 1 << 16], filled: 0, sends: VecDeque::new() }
    }

    /// Returns whether no packet is queued.
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Flushes if the buffer has no space for one more packet.
    pub fn reserve(&mut self, sink: &dyn PacketSink) -> Result<(), Blocked> {
        match self.buffer.len() - self.filled < PACKET_BYTES_MAX {
            true => self.flush(sink),
            false => Ok(()),
        }
    }

    /// Returns free space for at least one packet and at most one system call, to be filled and
    /// then queued with [`push()`](Self::push).
    pub fn spare_space(&mut self, sink: &dyn PacketSink) -> Result<&mut [u8], Blocked> {
        self.reserve(sink)?;
        let spare = &mut self.buffer[self.filled..];
        let spare_bytes = spare.len().min(SEND_BYTES_MAX);
        Ok(&mut spare[..spare_bytes])
    }

    /// Queues the first `bytes` bytes of the spare space as packets of `packet_bytes`, the last of
    /// which may be shorter, with one codepoint.
    pub fn push(
        &mut self,
        bytes: usize,
        packet_bytes: usize,
        route: AddressPair,
        ecn: Codepoint,
        sink: &dyn PacketSink,
    ) {
        let range = self.filled..self.filled + bytes;
        self.filled = range.end;

        let packets = bytes.div_ceil(packet_bytes);
        let send = Transmit { route, ecn, range, segment_bytes: packet_bytes, packets };
        if let Some(last) = self.sends.back_mut() {
            if last.can_append(&send, sink.packets_per_send_max()) {
                last.range.end = send.range.end;
                last.packets += packets;
                return;
            }
        }
        self.sends.push_back(send);
    }

    /// Sends the datagram that `write` writes, if any, to the source of a received one. It belongs
    /// to no connection and is not ECN-capable. If the socket is full, the datagram is lost.
    pub fn reply(
        &mut self,
        info: RecvInfo,
        sink: &dyn PacketSink,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) {
        let Ok(spare) = self.spare_space(sink) else { return };
        let Some(packet_bytes) = write(spare) else { return };
        let route = AddressPair { to: info.from, from: info.to };
        self.push(packet_bytes, packet_bytes, route, Codepoint::NotEct, sink);
        let _ = self.flush(sink);
    }

    /// Sends all packets. After `Blocked`, the remaining ones stay queued.
    pub fn flush(&mut self, sink: &dyn PacketSink) -> Result<(), Blocked> {
        while let Some(send) = self.sends.front() {
            let contents = &self.buffer[send.range.clone()];
            match sink.send(send.route, send.ecn, contents, send.segment_bytes) {
                Ok(()) => (),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(Blocked),
                // One packet is too large for the interface, such as a probe of the path's MTU,
                // or the interface does not support segmentation.
                Err(_) if send.packets > 1 => {
                    self.split_first();
                    continue;
                }
                // Loss recovery treats them like packets that the network lost.
                Err(e) => debug!("cannot send packets to {}: {e}", send.route.to),
            }
            self.sends.pop_front();
        }
        self.filled = 0;
        Ok(())
    }

    /// Splits the first group into its packets.
    fn split_first(&mut self) {
        let Some(send) = self.sends.pop_front() else { return };
        for number in (0..send.packets).rev() {
            let start = send.range.start + number * send.segment_bytes;
            let end = send.range.end.min(start + send.segment_bytes);
            self.sends.push_front(Transmit { range: start..end, packets: 1, ..send });
        }
    }
}

impl Transmit {
    /// Returns whether the packets of `next` can join this group.
    fn can_append(&self, next: &Self, packets_max: usize) -> bool {
        let ends_with_shorter = self.range.len() < self.packets * self.segment_bytes;
        let is_shorter_end = next.packets == 1 && next.segment_bytes <= self.segment_bytes;
        self.route == next.route
            && self.ecn == next.ecn
            && !ends_with_shorter
            && (next.segment_bytes == self.segment_bytes || is_shorter_end)
            && self.packets + next.packets <= packets_max
            && self.range.len() + next.range.len() <= SEND_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cell::RefCell;

    /// Sink that accepts a limited number of sends.
    struct LimitedSink {
        capacity: Cell<usize>,
        packets_max: usize,
        packet_bytes_max: usize,
        segments: bool,
        sent: RefCell<Vec<Vec<u8>>>,
        codepoints: RefCell<Vec<Codepoint>>,
    }

    impl LimitedSink {
        fn new(capacity: usize, packets_max: usize) -> Self {
            let capacity = Cell::new(capacity);
            let packet_bytes_max = usize::MAX;
            Self {
                capacity,
                packets_max,
                packet_bytes_max,
                segments: true,
                sent: RefCell::default(),
                codepoints: RefCell::default(),
            }
        }

        fn sent_bytes(&self) -> Vec<usize> {
            self.sent.borrow().iter().map(Vec::len).collect()
        }
    }

    impl PacketSink for LimitedSink {
        fn send(
            &self,
            _: AddressPair,
            ecn: Codepoint,
            contents: &[u8],
            segment_bytes: usize,
        ) -> io::Result<()> {
            let largest = contents.len().min(segment_bytes);
            if largest > self.packet_bytes_max || (largest < contents.len() && !self.segments) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let capacity = self.capacity.get().checked_sub(1);
            self.capacity.set(capacity.ok_or(io::ErrorKind::WouldBlock)?);
            self.sent.borrow_mut().push(contents.to_vec());
            self.codepoints.borrow_mut().push(ecn);
            Ok(())
        }

        fn packets_per_send_max(&self) -> usize {
            self.packets_max
        }
    }

    fn push(
        send_queue: &mut SendQueue,
        bytes: usize,
        packet_bytes: usize,
        port: u16,
        sink: &LimitedSink,
    ) {
        send_queue.push(bytes, packet_bytes, route(port), Codepoint::NotEct, sink);
    }

    fn route(port: u16) -> AddressPair {
        let address = |port| ([127, 0, 0, 1], port).into();
        AddressPair { to: address(port), from: address(1) }
    }

    /// Returns the sizes of the sends into which these packets are grouped.
    fn sends(packets: &[(usize, u16)], packets_max: usize) -> Vec<usize> {
        let batches: Vec<_> = packets.iter().map(|(bytes, port)| (*bytes, *bytes, *port)).collect();
        sends_of_batches(&batches, packets_max)
    }

    fn sends_of_batches(batches: &[(usize, usize, u16)], packets_max: usize) -> Vec<usize> {
        let sink = LimitedSink::new(usize::MAX, packets_max);
        let mut send_queue = SendQueue::new();
        for (bytes, packet_bytes, port) in batches {
            send_queue.spare_space(&sink).unwrap();
            push(&mut send_queue, *bytes, *packet_bytes, *port, &sink);
        }
        send_queue.flush(&sink).unwrap();
        sink.sent_bytes()
    }

    #[test]
    fn equal_packets_share_send_until_shorter_one() {
        let long_then = |rest: &[(usize, u16)]| [&[(1350, 5)], rest].concat();
        for (packets, packets_max, expected) in [
            (long_then(&[(1350, 5), (1350, 5)]), 64, vec![4050]),
            (long_then(&[(200, 5), (1350, 5)]), 64, vec![1550, 1350]),
            (vec![(200, 5), (1350, 5)], 64, vec![200, 1350]),
            (long_then(&[(1350, 6)]), 64, vec![1350, 1350]),
            (long_then(&[(1350, 5), (1350, 5)]), 2, vec![2700, 1350]),
        ] {
            assert_eq!(sends(&packets, packets_max), expected, "{packets:?}");
        }
    }

    #[test]
    fn batches_to_one_destination_share_send() {
        for (batches, packets_max, expected) in [
            (vec![(3000, 1000, 5), (2500, 1000, 5)], 64, vec![5500]),
            (vec![(3000, 1000, 5), (2500, 1000, 5)], 5, vec![3000, 2500]),
            (vec![(3000, 1000, 5), (900, 900, 5)], 64, vec![3900]),
            (vec![(3000, 1000, 5), (1800, 900, 5)], 64, vec![3000, 1800]),
            (vec![(2500, 1000, 5), (3000, 1000, 5)], 64, vec![2500, 3000]),
            (vec![(3000, 1000, 5), (3000, 1000, 6)], 64, vec![3000, 3000]),
            (vec![(40_000, 1000, 5), (25_507, 1000, 5)], 66, vec![65_507]),
            (vec![(40_000, 1000, 5), (25_508, 1000, 5)], 99, vec![40_000, 25_508]),
        ] {
            assert_eq!(sends_of_batches(&batches, packets_max), expected, "{batches:?}");
        }
    }

    #[test]
    fn packets_of_different_codepoints_leave_apart() {
        const SENT: [(Codepoint, usize); 4] = [
            (Codepoint::Ect0, 3000),
            (Codepoint::NotEct, 2000),
            (Codepoint::Ect0, 1000),
            (Codepoint::Ect0, 500),
        ];
        let (together, singly) = ([3, 2, 2], [1; 7]);
        for (segments, packets) in [(true, &together[..]), (false, &singly)] {
            let sink = LimitedSink { segments, ..LimitedSink::new(usize::MAX, 64) };
            let mut send_queue = SendQueue::new();
            for (ecn, bytes) in SENT {
                send_queue.spare_space(&sink).unwrap();
                send_queue.push(bytes, 1000, route(5), ecn, &sink);
            }
            send_queue.flush(&sink).unwrap();
            let sent = sink.sent_bytes().into_iter().map(|bytes| bytes.div_ceil(1000));
            assert_eq!(sent.clone().collect::<Vec<_>>(), packets);
            let codepoints = sink.codepoints.borrow();
            let by_packet = sent.zip(codepoints.iter()).flat_map(|(count, ecn)| vec![*ecn; count]);
            let expected = SENT.map(|(ecn, bytes)| vec![ecn; bytes.div_ceil(1000)]).concat();
            assert_eq!(by_packet.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn reply_without_connection_is_not_ecn_capable() {
        let sink = LimitedSink::new(1, 64);
        let info = RecvInfo { from: route(5).to, to: route(5).from };
        SendQueue::new().reply(info, &sink, |_| Some(100));
        assert_eq!(*sink.codepoints.borrow(), [Codepoint::NotEct]);
    }

    #[test]
    fn spare_space_is_one_send() {
        let sink = LimitedSink::new(0, 64);
        assert_eq!(SendQueue::new().spare_space(&sink).unwrap().len(), SEND_BYTES_MAX);
    }

    #[test]
    fn packets_without_segmentation_are_sent_singly() {
        assert_eq!(sends(&[(1350, 5), (1350, 5)], 1), [1350, 1350]);
    }

    #[test]
    fn send_is_limited_to_ip_packet() {
        let sent = sends(&[(1350, 5); 100], 1000);
        assert_eq!(sent.iter().sum::<usize>(), 135_000);
        assert!(sent.iter().all(|bytes| *bytes <= SEND_BYTES_MAX));
    }

    #[test]
    fn blocked_packets_are_kept_in_order() {
        let sink = LimitedSink::new(1, 64);
        let mut send_queue = SendQueue::new();
        for (fill, port) in [(1, 5), (2, 6), (3, 7)] {
            send_queue.spare_space(&sink).unwrap()[..100].fill(fill);
            push(&mut send_queue, 100, 100, port, &sink);
        }
        assert_eq!(send_queue.flush(&sink), Err(Blocked));
        assert_eq!(send_queue.flush(&sink), Err(Blocked));
        sink.capacity.set(9);
        assert_eq!(send_queue.flush(&sink), Ok(()));
        let firsts: Vec<u8> = sink.sent.borrow().iter().map(|sent| sent[0]).collect();
        assert_eq!(firsts, [1, 2, 3]);
    }

    #[test]
    fn failed_group_is_sent_packet_by_packet() {
        let probe_and_data = [(1452, 5), (1200, 5), (1200, 5), (1200, 5), (300, 5)];
        for (packet_bytes_max, segments, expected) in [
            (1452, true, vec![2652, 2700]),
            (1400, true, vec![1200, 2700]),
            (1452, false, vec![1452, 1200, 1200, 1200, 300]),
            (1400, false, vec![1200, 1200, 1200, 300]),
            (1000, true, vec![300]),
        ] {
            let sink = LimitedSink { packet_bytes_max, segments, ..LimitedSink::new(0, 64) };
            let mut send_queue = SendQueue::new();
            for (fill, (bytes, port)) in (0..).zip(probe_and_data) {
                send_queue.spare_space(&sink).unwrap()[..bytes].fill(fill);
                push(&mut send_queue, bytes, bytes, port, &sink);
            }
            // The socket blocks before each send, and no packet is sent twice.
            while send_queue.flush(&sink) == Err(Blocked) {
                sink.capacity.set(1);
            }
            assert_eq!(sink.sent_bytes(), expected, "{packet_bytes_max} {segments}");
            let fills: Vec<u8> = sink.sent.borrow().concat();
            assert!(fills.is_sorted(), "{packet_bytes_max} {segments}");
        }
    }

    #[test]
    fn full_socket_bounds_the_queue() {
        let sink = LimitedSink::new(0, 64);
        let mut send_queue = SendQueue::new();
        let mut packets = 0;
        while send_queue.spare_space(&sink).is_ok() {
            push(&mut send_queue, 1350, 1350, 5, &sink);
            packets += 1;
            assert!(packets < 100);
        }
        sink.capacity.set(9);
        send_queue.flush(&sink).unwrap();
        assert_eq!(sink.sent_bytes().iter().sum::<usize>(), packets * 1350);
    }
}
