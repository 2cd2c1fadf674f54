//! Packet sizes while the path's MTU is sought: the recovery counts in packets
//! that are known to pass.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

pub(super) const ROUNDS_MAX: usize = 200;
pub(super) const LARGEST: usize = 1400;
const FIRST_WINDOW: usize = 10 * MIN_CLIENT_INITIAL_LEN;

pub(super) fn config(cc: &str) -> Config {
    let mut config = Pipe::default_config(cc).unwrap();
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_remote(10_000_000);
    config.set_max_send_udp_payload_size(LARGEST);
    // A busy machine must not look like a queue.
    config.enable_hystart(false);
    config
}

/// A server that looks for the MTU of the path to its client.
pub(super) struct MtuSearch {
    pub(super) pipe: Pipe,
    /// The longest packet in bytes that passes.
    pub(super) path_mtu: usize,
    /// Where the client's packets come from.
    pub(super) client: SocketAddr,
    /// Bytes that the server's application has written, and that the client's
    /// has read.
    pub(super) written: usize,
    pub(super) received: usize,
}

impl MtuSearch {
    pub(super) fn new(
        mut client: Config, mut server: Config, path_mtu: usize,
    ) -> Self {
        server.discover_pmtu(true);
        let mut pipe =
            Pipe::with_client_and_server_config(&mut client, &mut server)
                .unwrap();
        // The server has not sent anything since its handshake ended.
        loop {
            let flight = emit_flight(&mut pipe.client).unwrap();
            process_flight(&mut pipe.server, flight).unwrap();
            if pipe.server.is_established() {
                break;
            }
            let flight = emit_flight(&mut pipe.server).unwrap();
            process_flight(&mut pipe.client, flight).unwrap();
        }
        Self {
            pipe,
            path_mtu,
            client: Pipe::client_addr(),
            written: 0,
            received: 0,
        }
    }

    pub(super) fn packet_size(&self) -> usize {
        let path = self.pipe.server.paths.get_active().unwrap();
        path.recovery.max_datagram_size()
    }

    fn window(&self) -> usize {
        self.pipe.server.paths.get_active().unwrap().recovery.cwnd()
    }

    /// The server writes and sends what it can, which the client acknowledges.
    /// Returns the lengths of the server's packets.
    pub(super) fn round(&mut self, written: usize) -> Vec<usize> {
        let written = self.pipe.server.stream_send(1, &vec![7; written], false);
        self.written += written.unwrap_or(0);
        let sent = emit_flight(&mut self.pipe.server).unwrap_or_default();
        let sizes = sent.iter().map(|(packet, _)| packet.len()).collect();

        let (from, to) = (Pipe::server_addr(), Pipe::client_addr());
        for (mut packet, info) in sent {
            if packet.len() <= self.path_mtu && info.to == self.client {
                let info = RecvInfo { from, to };
                self.pipe.client.recv(&mut packet, info).unwrap();
            }
        }
        let got = self.pipe.client.stream_recv(1, &mut [0; 100_000]);
        self.received += got.map_or(0, |(bytes, _)| bytes);

        for (mut packet, info) in
            emit_flight(&mut self.pipe.client).unwrap_or_default()
        {
            let (from, to) = (self.client, info.to);
            let info = RecvInfo { from, to };
            self.pipe.server.recv(&mut packet, info).unwrap();
        }
        sizes
    }

    /// Sends until the path's MTU is known. Returns the longest packet's
    /// length.
    pub(super) fn find(&mut self) -> usize {
        let mut longest = 0;
        for _ in 0..ROUNDS_MAX {
            // Later packets reveal the loss of a probe.
            let sent = self.round(10_000);
            longest = sent.into_iter().fold(longest, usize::max);
            if self.pipe.server.pmtu().is_some() {
                return longest;
            }
        }
        panic!("the MTU of {} has not been found", self.path_mtu);
    }

    pub(super) fn assert_found(&self, size: usize, case: &str) {
        let stats = self.pipe.server.path_stats().find(|path| path.active);
        assert_eq!(self.packet_size(), size, "{case}");
        assert_eq!(stats.unwrap().pmtu, size, "{case}");
    }
}

#[test]
fn packets_have_the_length_that_was_found() {
    for cc in ["cubic", "bbr2_gcongestion"] {
        for path_mtu in [1201, 1250, 1299, 1399, LARGEST] {
            let mut search = MtuSearch::new(config(cc), config(cc), path_mtu);
            search.find();
            search.assert_found(path_mtu, &format!("{cc} {path_mtu}"));
        }
    }
}

// An application writes what the window has room for. Had a probe that is to be
// sent widened that, a full first flight would pass for all that there was to
// send.
#[test]
fn unacked_probe_does_not_set_the_packet_size() {
    let mut search = MtuSearch::new(config("cubic"), config("cubic"), LARGEST);
    assert_eq!(search.packet_size(), MIN_CLIENT_INITIAL_LEN);
    assert_eq!(search.window(), FIRST_WINDOW);

    let sent = search.round(FIRST_WINDOW);
    let longer = sent.iter().filter(|size| **size > MIN_CLIENT_INITIAL_LEN);
    assert_eq!(longer.collect::<Vec<_>>(), [&LARGEST]);
    let acknowledged = sent.iter().sum::<usize>();
    let window = FIRST_WINDOW + acknowledged - MIN_CLIENT_INITIAL_LEN;
    assert!(search.window() >= window, "{} {window}", search.window());

    search.find();
    search.assert_found(LARGEST, "before it is revalidated");
    search.pipe.server.revalidate_pmtu();
    search.assert_found(MIN_CLIENT_INITIAL_LEN, "while it is revalidated");
    search.find();
    search.assert_found(LARGEST, "after it has been revalidated");
}

#[test]
fn packet_size_is_known_whenever_discovery_starts() {
    let mut search = MtuSearch::new(config("cubic"), config("cubic"), LARGEST);
    let server = &mut search.pipe.server;
    for (is_on, size) in [(false, LARGEST), (true, MIN_CLIENT_INITIAL_LEN)] {
        server
            .paths
            .set_discover_pmtu_on_existing_paths(is_on, LARGEST, 3);
        let path = server.paths.get_active_mut().unwrap();
        assert_eq!(path.recovery.max_datagram_size(), size, "{is_on}");
        path.reinit_recovery(&server.recovery_config);
        assert_eq!(path.recovery.max_datagram_size(), size, "{is_on}");
    }
}
