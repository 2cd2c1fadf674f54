//! Packets in flight on an abandoned path.
//!
//! After a client's address has changed, a whole window may be lost on the old
//! path. ACKs on the new path do not tell, and a probe timeout resends only the
//! data of the two oldest packets, the same ones every time. At the old path's
//! first probe timeout, all of it is therefore sent again on the new path. That
//! is no sign of congestion on either (RFC 9000, 9.4).

use super::*;

impl LegacyRecovery {
    /// Declares lost what is not acknowledged. Returns packets and bytes.
    pub(super) fn give_up_unacked(
        &mut self, handshake_status: HandshakeStatus, now: Instant,
    ) -> (usize, usize) {
        let (mut packets, mut bytes) = (0, 0);

        for epoch in &mut self.epochs {
            for pkt in &mut epoch.sent_packets {
                if pkt.time_acked.is_some() || pkt.time_lost.is_some() {
                    continue;
                }

                epoch.lost_frames_ack.extend(pkt.frames.drain(..));
                pkt.time_lost = Some(now);

                if pkt.in_flight {
                    epoch.in_flight_count -= 1;
                    bytes += pkt.size;
                    packets += 1;
                }
            }

            epoch.lost_frames_pto.clear();
            epoch.loss_probes = 0;
        }

        self.bytes_in_flight.saturating_subtract(bytes, now);
        self.congestion.lost_count += packets;
        self.set_loss_detection_timer(handshake_status, now);

        (packets, bytes)
    }
}

#[cfg(all(test, feature = "internal"))]
mod tests {
    use super::*;
    use crate::packet::Epoch;
    use crate::ranges::RangeSet;
    use crate::test_utils::emit_flight;
    use crate::test_utils::helper_packet_sent;
    use crate::test_utils::Pipe;
    use crate::RecvInfo;
    use rstest::rstest;
    use std::net::SocketAddr;

    const OBJECT: usize = 300_000;
    const TIMEOUTS_MAX: usize = 6;

    /// A download by a client that does not know that its address changes.
    struct MigratingDownload {
        pipe: Pipe,
        client_addr: SocketAddr,
        unwritten: usize,
        received: usize,
    }

    impl MigratingDownload {
        fn new(cc: &str) -> Self {
            let mut config = Pipe::default_config(cc).unwrap();
            config.set_initial_max_data(1 << 30);
            config.set_initial_max_stream_data_bidi_local(1 << 30);
            config.set_initial_max_stream_data_bidi_remote(1 << 30);
            let mut pipe = Pipe::with_config(&mut config).unwrap();
            pipe.handshake().unwrap();
            pipe.client.stream_send(0, b"get", true).unwrap();

            MigratingDownload {
                pipe,
                client_addr: Pipe::client_addr(),
                unwritten: OBJECT,
                received: 0,
            }
        }

        /// Delivers what the client sends, and what the server sends in answer
        /// unless that is lost. Returns whether either sent anything.
        fn exchange(&mut self, is_lost: bool) -> bool {
            let Pipe { client, server } = &mut self.pipe;
            let up = emit_flight(client).unwrap_or_default();
            let is_idle = up.is_empty();
            for (mut datagram, info) in up {
                let (from, to) = (self.client_addr, info.to);
                server.recv(&mut datagram, RecvInfo { from, to }).unwrap();
            }

            let room = server.stream_capacity(0).unwrap_or(0);
            let len = room.min(self.unwritten);
            if len > 0 {
                self.unwritten -= len;
                let fin = self.unwritten == 0;
                server.stream_send(0, &vec![7; len], fin).unwrap();
            }

            let down = emit_flight(server).unwrap_or_default();
            let is_idle = is_idle && down.is_empty();
            for (mut datagram, info) in down {
                if is_lost || info.to != self.client_addr {
                    continue;
                }
                let (from, to) = (info.from, Pipe::client_addr());
                client.recv(&mut datagram, RecvInfo { from, to }).unwrap();
            }
            while let Ok((len, _)) = client.stream_recv(0, &mut [0; 65_536]) {
                self.received += len;
            }
            !is_idle
        }

        /// Waits for the next timer.
        fn await_timer(&mut self) {
            let Pipe { client, server } = &mut self.pipe;
            let timers = [client.timeout(), server.timeout()];
            std::thread::sleep(timers.into_iter().flatten().min().unwrap());
            client.on_timeout();
            server.on_timeout();
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn unacked_packets_are_given_up_once() {
        let config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        let mut recovery = LegacyRecovery::new(&config);
        let status = HandshakeStatus::default();
        let (epoch, now) = (Epoch::Application, Instant::now());
        for pkt_num in 0..5 {
            let sent = helper_packet_sent(pkt_num, now, 1000);
            recovery.on_packet_sent(sent, epoch, status, now, "");
        }
        let mut ranges = RangeSet::default();
        ranges.insert(0..1);
        recovery
            .on_ack_received(&ranges, 0, epoch, status, now, None, "")
            .unwrap();

        assert_eq!(recovery.give_up_unacked(status, now), (4, 4000));
        assert_eq!(recovery.epochs[epoch].in_flight_count, 0);
        assert_eq!(recovery.bytes_in_flight(), 0);
        assert_eq!(recovery.congestion.lost_count, 4);
        assert_eq!(recovery.give_up_unacked(status, now), (0, 0));
        assert_eq!(recovery.congestion.lost_count, 4);
    }

    #[rstest]
    fn window_lost_on_the_old_path_is_sent_again(
        #[values("reno", "cubic")] cc: &str, #[values(0, 2)] rounds: usize,
    ) {
        let mut download = MigratingDownload::new(cc);
        for _ in 0..rounds {
            download.exchange(false);
        }
        // A window is in flight to the old address.
        download.exchange(true);
        assert!(download.received < OBJECT);
        download.client_addr = "127.0.0.1:9999".parse().unwrap();
        // A packet shows the server where the client is.
        download.pipe.client.send_ack_eliciting().unwrap();

        for _ in 0..TIMEOUTS_MAX {
            while download.exchange(false) {}
            if download.received == OBJECT {
                return;
            }
            download.await_timer();
        }
        panic!("{} of {OBJECT} bytes", download.received);
    }
}
