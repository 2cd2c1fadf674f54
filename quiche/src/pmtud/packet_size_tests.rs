//! Packet sizes and probes while the path's MTU is sought.

use super::packet_size::BLACK_HOLE_TIMEOUTS;
use crate::recovery::RecoveryOps;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;
use crate::Config;
use crate::RecvInfo;
use crate::MIN_CLIENT_INITIAL_LEN;
use rstest::rstest;
use std::net::SocketAddr;

const ROUNDS_MAX: usize = 200;
const LARGEST: usize = 1400;
const FIRST_WINDOW: usize = 10 * MIN_CLIENT_INITIAL_LEN;

fn config(cc: &str) -> Config {
    let mut config = Pipe::default_config(cc).unwrap();
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_remote(10_000_000);
    config.set_max_send_udp_payload_size(LARGEST);
    // A busy machine must not look like a queue.
    config.enable_hystart(false);
    config
}

/// A server that looks for the MTU of the path to its client.
struct MtuSearch {
    pipe: Pipe,
    /// The longest packet in bytes that passes.
    path_mtu: usize,
    /// Where the client's packets come from.
    client: SocketAddr,
    /// Bytes that the server's application has written, and that the client's
    /// has read.
    written: usize,
    received: usize,
}

impl MtuSearch {
    fn new(mut client: Config, mut server: Config, path_mtu: usize) -> Self {
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

    fn packet_size(&self) -> usize {
        let path = self.pipe.server.paths.get_active().unwrap();
        path.recovery.max_datagram_size()
    }

    fn window(&self) -> usize {
        self.pipe.server.paths.get_active().unwrap().recovery.cwnd()
    }

    /// The server writes and sends what it can, which the client acknowledges.
    /// Returns the lengths of the server's packets.
    fn round(&mut self, written: usize) -> Vec<usize> {
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
    fn find(&mut self) -> usize {
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

    fn assert_found(&self, size: usize, case: &str) {
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

// RFC 9000, 18.2.
#[test]
fn probe_is_limited_by_what_the_peer_receives() {
    let mut client = config("cubic");
    client.set_max_recv_udp_payload_size(1250);
    let mut search = MtuSearch::new(client, config("cubic"), usize::MAX);
    assert_eq!(search.find(), 1250);
    search.assert_found(1250, "the peer's limit");
}

#[test]
fn discovery_starts_after_the_configured_bytes() {
    let mut server = config("cubic");
    server.set_pmtud_start_after(20_000);
    let mut search = MtuSearch::new(config("cubic"), server, LARGEST);
    let mut sent = search.pipe.server.path_stats().next().unwrap().sent_bytes;
    let mut sizes = Vec::new();
    while !sizes.contains(&LARGEST) {
        sent += sizes.iter().sum::<usize>() as u64;
        sizes = search.round(1000);
        assert!(sent < 20_000, "no probe in {sent} bytes");
    }
    let before = sizes.iter().take_while(|size| **size != LARGEST);
    sent += before.sum::<usize>() as u64;
    assert!(sent >= 20_000, "a probe after {sent} bytes");
    search.assert_found(LARGEST, "started later");
}

// RFC 8899, 4.3.
#[rstest]
fn packets_are_short_again_after_a_black_hole(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
    #[values(true, false)] is_outage: bool,
) {
    let mut search = MtuSearch::new(config(cc), config(cc), LARGEST);
    search.find();
    // An outage passes nothing for a time. Otherwise short packets pass, and
    // each ACK of one ends a series of timeouts.
    search.path_mtu = if is_outage { 0 } else { 1250 };
    search.round(20_000);
    for _ in 0..ROUNDS_MAX {
        let path = search.pipe.server.paths.get_active().unwrap();
        let is_silent = path.recovery.pto_count() >= BLACK_HOLE_TIMEOUTS;
        if is_silent {
            search.path_mtu = 1250;
        }
        let sent = search.round(0);
        let longest = sent.iter().max().filter(|_| is_silent);
        assert!(longest <= Some(&MIN_CLIENT_INITIAL_LEN), "{cc} {sent:?}");
        if sent.is_empty() && search.received < search.written {
            let wait = search.pipe.server.timeout().unwrap();
            std::thread::sleep(wait);
            search.pipe.server.on_timeout();
        }
    }
    assert_eq!(search.received, search.written, "{cc}");
    search.find();
    search.assert_found(1250, cc);
}

// RFC 9000, 14.2.
#[test]
fn discovery_starts_again_on_another_path() {
    for next_mtu in [LARGEST, 1250] {
        let mut search =
            MtuSearch::new(config("cubic"), config("cubic"), LARGEST);
        search.find();
        search.path_mtu = next_mtu;
        search.client.set_port(5000);
        search
            .pipe
            .client
            .stream_send(4, b"from elsewhere", false)
            .unwrap();
        search.round(0);
        let path = search.pipe.server.paths.get_active().unwrap();
        assert_eq!(path.peer_addr(), search.client);
        search.assert_found(MIN_CLIENT_INITIAL_LEN, "on the new path");
        search.find();
        search.assert_found(next_mtu, "found on the new path");
    }
}
