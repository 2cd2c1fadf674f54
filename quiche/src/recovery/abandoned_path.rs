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
    use crate::clock::Simulation;
    use crate::packet::Epoch;
    use crate::ranges::RangeSet;
    use crate::recovery::careful_resume::test_sender::packet;
    use crate::test_utils::Pipe;
    use crate::RecvInfo;
    use rstest::rstest;
    use std::collections::VecDeque;
    use std::net::SocketAddr;
    use std::time::Duration;

    const ONE_WAY: Duration = Duration::from_millis(25);
    const OBJECT: usize = 300_000;

    /// A datagram, when it arrives, and whether it is the client's.
    type Datagram = (Duration, bool, Vec<u8>);

    /// A download over a path of 50 ms without a bottleneck. The client does
    /// not know that its address changes.
    struct MigratingDownload {
        time: Simulation,
        pipe: Pipe,
        under_way: VecDeque<Datagram>,
        client_addr: SocketAddr,
        unwritten: usize,
        received: usize,
    }

    impl MigratingDownload {
        fn new(cc: &str) -> Self {
            let time = Simulation::start(1, Duration::from_secs(1_000_000));
            let mut config = Pipe::default_config(cc).unwrap();
            config.set_initial_max_data(1 << 30);
            config.set_initial_max_stream_data_bidi_local(1 << 30);
            config.set_initial_max_stream_data_bidi_remote(1 << 30);
            config.set_max_idle_timeout(30_000);
            let mut pipe = Pipe::with_config(&mut config).unwrap();
            pipe.handshake().unwrap();
            pipe.client.stream_send(0, b"get", true).unwrap();

            MigratingDownload {
                time,
                pipe,
                under_way: VecDeque::new(),
                client_addr: Pipe::client_addr(),
                unwritten: OBJECT,
                received: 0,
            }
        }

        fn send(&mut self) {
            let Pipe { client, server } = &mut self.pipe;
            if let Ok(room) = server.stream_capacity(0) {
                let len = room.min(self.unwritten);
                self.unwritten -= len;
                let fin = self.unwritten == 0;
                server.stream_send(0, &vec![7; len], fin).ok();
            }

            let arrival = self.time.elapsed() + ONE_WAY;
            let mut buf = [0; 1500];
            while let Ok((len, _)) = client.send(&mut buf) {
                self.under_way.push_back((arrival, true, buf[..len].into()));
            }
            while let Ok((len, info)) = server.send(&mut buf) {
                if info.to == self.client_addr {
                    let datagram = (arrival, false, buf[..len].into());
                    self.under_way.push_back(datagram);
                }
            }
        }

        /// Runs the next event. Returns false when there is none.
        fn step(&mut self) -> bool {
            let Pipe { client, server } = &mut self.pipe;
            let now = self.time.elapsed();
            let timers = [client.timeout(), server.timeout()];
            let timers = timers.into_iter().flatten().map(|left| now + left);
            let arrival = self.under_way.front().map(|(at, ..)| *at);
            let Some(next) = timers.chain(arrival).min() else {
                return false;
            };
            self.time.advance_to(next);

            while self.under_way.front().is_some_and(|d| d.0 <= next) {
                let (_, is_clients, mut datagram) =
                    self.under_way.pop_front().unwrap();
                let (conn, from, to) = match is_clients {
                    true => (&mut *server, self.client_addr, Pipe::server_addr()),
                    false => {
                        (&mut *client, Pipe::server_addr(), Pipe::client_addr())
                    },
                };
                conn.recv(&mut datagram, RecvInfo { from, to }).unwrap();
            }
            for conn in [&mut *client, server] {
                if conn.timeout().is_some_and(|left| left.is_zero()) {
                    conn.on_timeout();
                }
            }
            while let Ok((len, _)) = client.stream_recv(0, &mut [0; 65_536]) {
                self.received += len;
            }
            self.send();
            true
        }

        /// Changes the address while a window is in flight to the old one.
        fn rebind(&mut self) {
            self.client_addr = "127.0.0.1:9999".parse().unwrap();
            self.under_way.retain(|(_, is_clients, _)| *is_clients);
        }
    }

    #[test]
    fn unacked_packets_are_given_up_once() {
        let _time = Simulation::start(1, Duration::from_secs(1_000_000));
        let config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        let mut recovery = LegacyRecovery::new(&config);
        let status = HandshakeStatus::default();
        let (epoch, now) = (Epoch::Application, clock::now());
        for pkt_num in 0..5 {
            let sent = packet(pkt_num, 1000, now);
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
        #[values("reno", "cubic")] cc: &str, #[values(1, 5)] after: usize,
    ) {
        let mut download = MigratingDownload::new(cc);
        download.send();
        for _ in 0..after {
            download.step();
        }
        assert!(download.received < OBJECT);
        download.rebind();
        // A packet shows the server where the client is.
        download.pipe.client.send_ack_eliciting().unwrap();
        download.send();

        let end = download.time.elapsed() + Duration::from_secs(2);
        while download.received < OBJECT && download.time.elapsed() < end {
            download.step();
        }
        assert_eq!(download.received, OBJECT);
    }
}
