//! Places for paths: those that a client has left make room for the one that it
//! comes to.
//!
//! A NAT may give a client another address every few minutes. Each is a path
//! (RFC 9000, 9.3), and the library keeps as many as there may be connection
//! IDs, the first ones for ever.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// Gives the place of a path up that was left, if a new one finds none.
    pub(crate) fn make_room_for_path(&mut self) {
        let paths_max = self.local_transport_params.active_conn_id_limit;
        if !self.is_server || (self.paths.len() as u64) < paths_max {
            return;
        }
        let Some((_, path)) =
            self.paths.iter_mut().find(|(_, path)| is_over(path))
        else {
            return self.give_up_left_path();
        };
        // What has no connection ID is removed when another path is added.
        let Some(seq) = path.active_dcid_seq.take() else {
            return;
        };
        // RFC 9000, 5.1.2: an ID that is not used any more is retired.
        let is_used = |path: &path::Path| path.active_dcid_seq == Some(seq);
        if !self.paths.iter().any(|(_, path)| is_used(path)) {
            let _ = self.ids.retire_dcid(seq);
        }
    }

    /// Gives up what was sent on a path that was left: the one on which least is
    /// missed. It is sent again where the client is, and then the place is free,
    /// for the client's next packet. A client whose address changes every few
    /// seconds would else not be heard until its old ones have failed validation.
    fn give_up_left_path(&mut self) {
        let handshake_status = self.handshake_status();
        let left = self.paths.iter_mut().map(|(_, path)| path);
        let left = left.filter(|path| path.left);
        let Some(path) = left.min_by_key(|path| path.recovery.bytes_in_flight())
        else {
            return;
        };
        let (lost_packets, lost_bytes) = path
            .recovery
            .on_left_path_timeout(handshake_status, clock::now());

        self.lost_count += lost_packets;
        self.lost_bytes += lost_bytes as u64;
    }
}

/// Whether a path was left, and nothing that was sent on it is missed. One that is
/// only probed stays: anybody who repeats a packet could take its place.
fn is_over(path: &path::Path) -> bool {
    let has_lost = path.recovery.has_lost_frames(packet::Epoch::Application);
    path.left && path.recovery.bytes_in_flight() == 0 && !has_lost
}

#[cfg(all(test, feature = "internal"))]
mod tests {
    use super::*;
    use crate::clock::Simulation;
    use crate::test_utils::Pipe;

    const PACKETS_MAX: usize = 2;

    #[test]
    fn a_client_that_moves_again_and_again_is_heard_each_time() {
        let time = Simulation::start(1, Duration::from_secs(1_000_000));
        let mut config = Pipe::default_config("cubic").unwrap();
        config.set_initial_max_data(1 << 20);
        config.set_initial_max_stream_data_bidi_remote(1 << 20);
        let mut pipe = Pipe::with_config(&mut config).unwrap();
        pipe.handshake().unwrap();
        pipe.advance().unwrap();
        let to = Pipe::server_addr();

        for port in 5000..5010 {
            let from = SocketAddr::new(Pipe::client_addr().ip(), port);
            let is_answered = (0..PACKETS_MAX).any(|_| {
                time.advance_to(time.elapsed() + Duration::from_millis(200));
                pipe.server.on_timeout();
                pipe.client.stream_send(4, &[0; 400], false).unwrap();
                let mut packet = [0; 1500];
                let (len, _) = pipe.client.send(&mut packet).unwrap();
                let info = RecvInfo { from, to };
                let _ = pipe.server.recv(&mut packet[..len], info);
                let sent = || pipe.server.send(&mut packet).ok();
                std::iter::from_fn(sent).any(|(_, info)| info.to == from)
            });
            assert!(is_answered, "from port {port}");
        }
    }
}
