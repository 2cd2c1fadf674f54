//! Tests of ECN between two connections: codepoints of datagrams, and counts in
//! ACKs, over paths of every kind.

use super::*;
use crate::clock::Simulation;
use crate::test_utils::Pipe;
use rstest::rstest;
use std::time::Duration;

/// Returns how a path passes on the codepoint of a datagram, by its number;
/// None: it drops the datagram.
pub(crate) type PassOn = fn(u64, Codepoint) -> Option<Codepoint>;

/// Two connections, and what their datagrams left with.
struct MarkedPipe {
    pipe: Pipe,
    pass_on: PassOn,
    sent: [Vec<Codepoint>; 2],
}

fn config(cc: &str) -> Config {
    let mut config = Pipe::default_config(cc).unwrap();
    config.set_ecn(Some(EcnConfig::default()));
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    config
}

impl MarkedPipe {
    fn new(pass_on: PassOn) -> Self {
        MarkedPipe {
            pipe: Pipe::with_config(&mut config("cubic")).unwrap(),
            pass_on,
            sent: Default::default(),
        }
    }

    /// Sends everything that may be sent in one direction. Returns the number
    /// of datagrams.
    fn flush(&mut self, from_server: bool) -> usize {
        let Pipe { client, server } = &mut self.pipe;
        let (from, to) = match from_server {
            true => (server, client),
            false => (client, server),
        };
        let sent = &mut self.sent[usize::from(from_server)];
        let before = sent.len();
        let mut buf = [0; 1500];

        while let Ok((len, info)) = from.send(&mut buf) {
            sent.push(from.sent_ecn());
            let info = RecvInfo {
                from: info.from,
                to: info.to,
            };
            let number = sent.len() as u64;
            if let Some(ecn) = (self.pass_on)(number, from.sent_ecn()) {
                let _ = to.recv_ecn(&mut buf[..len], info, ecn);
            }
        }

        sent.len() - before
    }

    fn advance(&mut self) {
        while self.flush(false) + self.flush(true) > 0 {}
    }

    /// Downloads so many bytes. Returns how many arrived.
    fn download(&mut self, bytes: usize) -> usize {
        self.advance();
        self.pipe.client.stream_send(0, b"get", true).unwrap();
        self.advance();
        let mut read = 0;
        let mut written = 0;
        let mut buf = [0; 16384];
        for _ in 0..100 {
            let left = &vec![7; bytes - written];
            let fin = true;
            written += self.pipe.server.stream_send(0, left, fin).unwrap_or(0);
            self.advance();
            while let Ok((len, _)) = self.pipe.client.stream_recv(0, &mut buf) {
                read += len;
            }
        }
        read
    }
}

#[test]
fn marks_are_counted_and_reported() {
    let mut marked = MarkedPipe::new(|number, ecn| {
        Some(if number % 50 == 0 { Codepoint::Ce } else { ecn })
    });
    assert_eq!(marked.download(300_000), 300_000);

    for (i, conn) in [&marked.pipe.client, &marked.pipe.server]
        .iter()
        .enumerate()
    {
        let stats = conn.ecn_stats();
        assert_eq!(stats.state, Some(EcnState::Capable));
        assert!(marked.sent[i].iter().all(|ecn| *ecn == Codepoint::Ect0));
        assert!(stats.sent >= marked.sent[i].len() as u64);
    }
    let sent = marked.sent[1].len() as u64;
    let reported = marked.pipe.server.ecn_stats().reported;
    assert!(reported.ce >= sent / 50 - 1, "{reported:?} of {sent}");
    assert!(sent > 150);
    // Each packet of a datagram counts, in the client's three spaces.
    let received = marked.pipe.client.ecn_stats().received;
    assert!(received.ect0 + received.ce >= sent);
    assert_eq!(marked.pipe.server.stats().lost, 0);
}

/// The recovery that the handshake puts in the place of another one tests the
/// path again, also after ACKs of a ClientHello of two packets have been sent.
#[cfg(feature = "boringssl-boring-crate")]
#[rstest]
#[case("cubic", "bbr2")]
#[case("bbr2", "reno")]
fn marks_outlive_the_choice_of_another_controller(
    #[case] configured: &str, #[case] chosen: &'static str,
    #[values(false, true)] is_hello_acked: bool,
) {
    let mut tls = Pipe::default_tls_ctx_builder();
    tls.set_select_certificate_callback(move |mut hello| {
        let ssl = hello.ssl_mut();
        <Connection>::set_cc_algorithm_name_in_handshake(ssl, chosen).unwrap();
        Ok(())
    });
    let mut server =
        Config::with_boring_ssl_ctx_builder(crate::PROTOCOL_VERSION, tls)
            .unwrap();
    server.set_application_protos(&[b"proto1"]).unwrap();
    server.set_initial_max_streams_bidi(1);
    server.set_initial_max_data(1 << 20);
    server.set_initial_max_stream_data_bidi_remote(1 << 20);
    server.set_cc_algorithm_name(configured).unwrap();
    server.set_ecn(Some(EcnConfig::default()));
    let mut client = config(configured);

    let mut marked = MarkedPipe::new(|_, ecn| Some(ecn));
    marked.pipe =
        Pipe::with_client_and_server_config(&mut client, &mut server).unwrap();
    if is_hello_acked {
        let mut buf = [0; 1500];
        let (len, info) = marked.pipe.client.send(&mut buf).unwrap();
        let ecn = marked.pipe.client.sent_ecn();
        let info = RecvInfo {
            from: info.from,
            to: info.to,
        };
        marked
            .pipe
            .server
            .recv_ecn(&mut buf[..len], info, ecn)
            .unwrap();
        assert_eq!(marked.flush(true), 1);
    }
    assert_eq!(marked.download(300_000), 300_000);

    let stats = marked.pipe.server.ecn_stats();
    assert_eq!(stats.state, Some(EcnState::Capable));
    assert!(marked.sent[1].iter().all(|ecn| *ecn == Codepoint::Ect0));
    assert_eq!(stats.reported.ect0, stats.sent);
    assert_eq!(marked.pipe.server.cc_algorithm(), chosen.parse().unwrap());
}

/// Without the setting, nothing is marked, and what arrives is reported.
#[test]
fn marks_are_reported_without_marking() {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    assert_eq!(pipe.server.ecn_stats().state, None);
    assert_eq!(pipe.server.sent_ecn(), Codepoint::NotEct);

    pipe.client.stream_send(0, b"hello", true).unwrap();
    let mut buf = [0; 1500];
    let (len, info) = pipe.client.send(&mut buf).unwrap();
    let info = RecvInfo {
        from: info.from,
        to: info.to,
    };
    let ce = Codepoint::Ce;
    pipe.server.recv_ecn(&mut buf[..len], info, ce).unwrap();
    let (len, _) = pipe.server.send(&mut buf).unwrap();
    let frames = crate::test_utils::decode_pkt(&mut pipe.client, &mut buf[..len]);
    let is_marked = frames.unwrap().iter().any(|frame| {
        format!("{frame:?}").contains("ect1_count: 0, ecn_ce_count: 1")
    });
    assert!(is_marked);
}

/// Every kind of faulty path passes a download, and all of it.
#[rstest]
#[case::cleared(|_, _| Some(Codepoint::NotEct), EcnState::Failed)]
#[case::changed_to_ect1(|_, _| Some(Codepoint::Ect1), EcnState::Failed)]
#[case::all_marked(|_, _| Some(Codepoint::Ce), EcnState::Failed)]
#[case::cleared_for_some(
    |number, ecn| (number % 7 != 0).then_some(ecn).or(Some(Codepoint::NotEct)),
    EcnState::Failed
)]
fn faulty_path_costs_nothing(#[case] pass_on: PassOn, #[case] state: EcnState) {
    let mut marked = MarkedPipe::new(pass_on);
    assert_eq!(marked.download(300_000), 300_000);
    assert_eq!(marked.pipe.server.ecn_stats().state, Some(state));
    assert_eq!(marked.pipe.server.sent_ecn(), Codepoint::NotEct);
    // Its window has grown as that of a path without marks.
    let stats = marked.pipe.server.path_stats().next().unwrap();
    assert!(stats.cwnd > 100 * 1200, "{}", stats.cwnd);
    assert_eq!(marked.pipe.server.stats().lost, 0);
}

/// A path that drops marked packets costs each side its first flight.
#[test]
fn black_hole_of_marks_costs_a_timeout() {
    let time = Simulation::start(1, Duration::from_secs(9));
    let mut marked =
        MarkedPipe::new(|_, ecn| (ecn == Codepoint::NotEct).then_some(ecn));
    marked.advance();
    while !marked.pipe.client.is_established() {
        let Pipe { client, server } = &mut marked.pipe;
        let due = [client.timeout(), server.timeout()];
        let due = due.into_iter().flatten().min().unwrap();
        time.advance_to(time.elapsed() + due);
        client.on_timeout();
        server.on_timeout();
        marked.advance();
        assert!(time.elapsed() < Duration::from_secs(5));
    }
    for sent in &marked.sent {
        let is_marked = |ecn: &&Codepoint| **ecn == Codepoint::Ect0;
        assert!(sent.iter().filter(is_marked).count() <= 5, "{sent:?}");
    }
    assert_eq!(marked.download(100_000), 100_000);
    let state = marked.pipe.server.ecn_stats().state;
    assert_eq!(state, Some(EcnState::Unknown));
}
