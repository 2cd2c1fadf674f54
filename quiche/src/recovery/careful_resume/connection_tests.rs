//! Whole connections in virtual time over one bottleneck: what an application
//! sees of Careful Resume, and what it gains.

use super::*;
use crate::clock::Simulation;
use crate::path_state::PathState;
use crate::recovery::careful_resume::state::State;
use crate::recovery::careful_resume::Trigger;
use crate::test_utils::Pipe;
use crate::RecvInfo;
use rstest::rstest;
use std::collections::VecDeque;
use std::time::Duration;

const RTT: Duration = Duration::from_millis(100);
const BYTES_PER_SECOND: u64 = 1_500_000;
const BDP: usize = 150_000;
const WINDOW: u64 = 1 << 30;

/// A datagram and when it arrives.
type InFlight = VecDeque<(Duration, Vec<u8>)>;

/// A server that sends one object to one client. Only its direction has a
/// bottleneck, with a buffer of one BDP.
struct Download {
    time: Simulation,
    pipe: Pipe,
    down: InFlight,
    up: InFlight,
    bottleneck_free: Duration,
    buffer: usize,
    unwritten: usize,
    /// How much of it the application does not have until when.
    missing: (usize, Duration),
    requested: bool,
    /// Used once, when the request arrives.
    saved: Option<PathState>,
    lost: usize,
    events: Vec<CarefulResumeEvent>,
    /// The limits of the server, in order.
    limits: Vec<SendLimit>,
    /// Times and sizes of the packets of the unvalidated phase.
    jump_packets: Vec<(Duration, usize)>,
}

/// Returns a configuration with these flow-control windows.
fn download_config(cc: &str, window: u64) -> Config {
    let mut config = Pipe::default_config(cc).unwrap();
    config.set_initial_max_data(window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_max_connection_window(window);
    config.set_max_stream_window(window);
    config
}

impl Download {
    fn new(cc: &str, bytes: usize, saved: Option<PathState>) -> Self {
        Self::with_client_window(cc, bytes, saved, WINDOW)
    }

    /// The client never lets more than `window` bytes be in flight.
    fn with_client_window(
        cc: &str, bytes: usize, saved: Option<PathState>, window: u64,
    ) -> Self {
        let time = Simulation::start(1, Duration::from_secs(1_000_000));
        let mut config = download_config(cc, window);
        config
            .set_careful_resume(CarefulResumeConfig::default())
            .unwrap();

        Download {
            time,
            pipe: Pipe::with_config(&mut config).unwrap(),
            down: InFlight::new(),
            up: InFlight::new(),
            bottleneck_free: Duration::ZERO,
            buffer: BDP,
            unwritten: bytes,
            missing: (0, Duration::ZERO),
            requested: false,
            saved,
            lost: 0,
            events: vec![],
            limits: vec![],
            jump_packets: vec![],
        }
    }

    /// Downloads everything, until the last ACK has arrived. Returns how long
    /// the download took.
    fn run(&mut self) -> Duration {
        let mut done = None;

        loop {
            self.deliver();
            self.serve();
            self.send();
            self.events.extend(self.pipe.server.careful_resume_events());
            self.limits.push(self.pipe.server.send_limit());
            self.limits.dedup();

            if self.drain_client() {
                done = Some(self.time.elapsed());
            }

            if let Some(done) = done.filter(|_| self.up.is_empty()) {
                return done;
            }

            let next = self.next_event().expect("something is under way");
            self.time.advance_to(next);
        }
    }

    fn deliver(&mut self) {
        let now = self.time.elapsed();

        while self.down.front().is_some_and(|(at, _)| *at <= now) {
            let (_, mut packet) = self.down.pop_front().unwrap();
            let info = RecvInfo {
                from: Pipe::server_addr(),
                to: Pipe::client_addr(),
            };
            self.pipe.client.recv(&mut packet, info).unwrap();
        }

        while self.up.front().is_some_and(|(at, _)| *at <= now) {
            let (_, mut packet) = self.up.pop_front().unwrap();
            let info = RecvInfo {
                from: Pipe::client_addr(),
                to: Pipe::server_addr(),
            };
            self.pipe.server.recv(&mut packet, info).unwrap();
        }

        for conn in [&mut self.pipe.client, &mut self.pipe.server] {
            if conn.timeout().is_some_and(|timeout| timeout.is_zero()) {
                conn.on_timeout();
            }
        }
    }

    fn serve(&mut self) {
        let server = &mut self.pipe.server;

        if server.stream_recv(0, &mut [0; 16]).is_ok() {
            if let Some(saved) = self.saved.take() {
                let jump_before = clock::now() + Duration::from_secs(1);
                server.careful_resume_from(saved, jump_before).unwrap();
            }
        }
    }

    /// Writes until it is short, sends until the next packet has to wait, and
    /// over again until neither gets further.
    fn send(&mut self) {
        if self.pipe.client.is_established() && !self.requested {
            self.requested = true;
            self.pipe.client.stream_send(0, b"get", true).unwrap();
        }

        let now = self.time.elapsed();
        let mut buf = [0; 1500];

        while let Ok((len, _)) = self.pipe.client.send(&mut buf) {
            self.up.push_back((now + RTT / 2, buf[..len].to_vec()));
        }

        loop {
            let written = self.write();
            let mut sent = 0;

            while self.release_time().is_none() {
                let phase = self.pipe.server.careful_resume_phase();
                let Ok((len, _)) = self.pipe.server.send(&mut buf) else {
                    break;
                };
                self.transmit(&buf[..len]);
                sent += 1;

                if phase == Phase::Unvalidated {
                    self.jump_packets.push((now, len));
                }
            }

            if written == 0 && sent == 0 {
                return;
            }
        }
    }

    fn write(&mut self) -> usize {
        let (missing, until) = self.missing;
        let is_missing = self.time.elapsed() < until;
        let there = self.unwritten - if is_missing { missing } else { 0 };
        let server = &mut self.pipe.server;
        let capacity = server.stream_capacity(0).unwrap_or(0);
        let len = capacity.min(there);

        if len == 0 {
            return 0;
        }

        let fin = len == self.unwritten;
        let written = server.stream_send(0, &vec![0; len], fin).unwrap();
        self.unwritten -= written;
        written
    }

    fn release_time(&self) -> Option<Instant> {
        self.pipe.server.get_next_release_time()?.time(clock::now())
    }

    fn transmit(&mut self, packet: &[u8]) {
        let now = self.time.elapsed();
        let per_byte = 1_000_000_000 / BYTES_PER_SECOND;
        let serialisation =
            |bytes: usize| Duration::from_nanos(bytes as u64 * per_byte);

        let start = self.bottleneck_free.max(now);
        if start - now > serialisation(self.buffer) {
            self.lost += 1;
            return;
        }

        self.bottleneck_free = start + serialisation(packet.len());
        self.down
            .push_back((self.bottleneck_free + RTT / 2, packet.to_vec()));
    }

    fn drain_client(&mut self) -> bool {
        let mut buf = [0; 65536];

        loop {
            match self.pipe.client.stream_recv(0, &mut buf) {
                Ok((_, true)) => return true,
                Ok(_) => (),
                Err(_) => return false,
            }
        }
    }

    fn next_event(&self) -> Option<Duration> {
        let now = clock::now();
        let elapsed = self.time.elapsed();
        let release = self.release_time().map(|at| at - now);
        let timers = [
            release,
            self.pipe.client.timeout(),
            self.pipe.server.timeout(),
        ];

        timers
            .into_iter()
            .flatten()
            .map(|left| elapsed + left)
            .chain(Some(self.missing.1).filter(|until| *until > elapsed))
            .chain(self.down.front().map(|(at, _)| *at))
            .chain(self.up.front().map(|(at, _)| *at))
            .min()
    }

    fn phases(&self) -> Vec<Phase> {
        self.events.iter().map(|event| event.new).collect()
    }
}

const JUMP: [Phase; 4] = [
    Phase::Reconnaissance,
    Phase::Unvalidated,
    Phase::Validating,
    Phase::Normal,
];

/// Returns a server whose configuration says nothing of Careful Resume.
fn plain_server(cc: &str, saved: PathState) -> Download {
    let mut download = Download::new(cc, BDP, Some(saved));
    let mut config = download_config(cc, WINDOW);
    download.pipe = Pipe::with_config(&mut config).unwrap();
    download
}

#[rstest]
fn connection_enables_careful_resume_before_data(
    #[values("reno", "cubic")] cc: &str,
) {
    let saved = learn(cc);
    let mut configured = Download::new(cc, BDP, Some(saved));
    let ttlb = configured.run();
    let jump_packets = configured.jump_packets.clone();
    drop(configured);

    let mut enabled = plain_server(cc, saved);
    let server = &mut enabled.pipe.server;
    server.set_careful_resume(Default::default()).unwrap();

    assert_eq!(enabled.run(), ttlb);
    assert_eq!(enabled.phases(), JUMP);
    assert_eq!(enabled.jump_packets, jump_packets);
}

#[test]
fn connection_that_has_sent_data_refuses_careful_resume() {
    let mut config = Pipe::default_config("cubic").unwrap();
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.server.stream_send(1, b"data", true).unwrap();
    pipe.advance().unwrap();

    let enabled = pipe.server.set_careful_resume(Default::default());

    assert_eq!(enabled, Err(Error::InvalidState));
    assert_eq!(pipe.server.careful_resume_phase(), Phase::Normal);
}

/// Returns a server whose handshake calls `choose` when the ClientHello has come.
#[cfg(feature = "boringssl-boring-crate")]
fn choosing_server(
    cc: &str, choose: fn(&mut boring::ssl::SslRef) -> Result<()>,
) -> Config {
    let mut tls = Pipe::default_tls_ctx_builder();
    tls.set_select_certificate_callback(move |mut hello| {
        choose(hello.ssl_mut()).unwrap();
        Ok(())
    });
    let mut server =
        Config::with_boring_ssl_ctx_builder(crate::PROTOCOL_VERSION, tls)
            .unwrap();
    server.set_application_protos(&[b"proto1"]).unwrap();
    server.set_initial_max_streams_bidi(1);
    server.set_initial_max_data(WINDOW);
    server.set_initial_max_stream_data_bidi_remote(WINDOW);
    server.set_cc_algorithm_name(cc).unwrap();
    server
}

#[cfg(feature = "boringssl-boring-crate")]
fn download_from(server: &mut Config, cc: &str, saved: PathState) -> Download {
    let mut client = download_config(cc, WINDOW);
    let mut download = Download::new(cc, BDP, Some(saved));
    download.pipe =
        Pipe::with_client_and_server_config(&mut client, server).unwrap();
    download
}

#[cfg(feature = "boringssl-boring-crate")]
#[rstest]
fn handshake_callback_enables_careful_resume(
    #[values("reno", "cubic")] cc: &str,
) {
    let saved = learn(cc);
    let mut server = choosing_server(cc, |ssl| {
        let resume = CarefulResumeConfig::default();
        <Connection>::set_careful_resume_in_handshake(ssl, resume)
    });

    let mut download = download_from(&mut server, cc, saved);
    download.run();

    assert_eq!(download.phases(), JUMP);
}

/// What was set before is as if the controller had been configured.
#[cfg(feature = "boringssl-boring-crate")]
#[rstest]
#[case("cubic", CongestionControlAlgorithm::Reno)]
#[case("reno", CongestionControlAlgorithm::CUBIC)]
fn controller_chosen_in_handshake_jumps_as_a_configured_one(
    #[case] configured: &str, #[case] chosen: CongestionControlAlgorithm,
) {
    let saved = learn(configured);
    let run = |is_configured: bool| {
        let choose: fn(&mut boring::ssl::SslRef) -> Result<()> =
            match (is_configured, chosen) {
                (true, _) => |_| Ok(()),
                (_, CongestionControlAlgorithm::Reno) => |ssl| {
                    let reno = CongestionControlAlgorithm::Reno;
                    <Connection>::set_cc_algorithm_in_handshake(ssl, reno)
                },
                _ => |ssl| {
                    let cubic = CongestionControlAlgorithm::CUBIC;
                    <Connection>::set_cc_algorithm_in_handshake(ssl, cubic)
                },
            };
        let mut server = choosing_server(configured, choose);
        if is_configured {
            server.set_cc_algorithm(chosen);
        }
        server.set_careful_resume(Default::default()).unwrap();

        let mut download = download_from(&mut server, configured, saved);
        let ttlb = download.run();

        assert_eq!(download.pipe.server.cc_algorithm(), chosen);
        assert_eq!(download.phases(), JUMP);
        (ttlb, download.lost, download.jump_packets)
    };

    assert_eq!(run(false), run(true));
}

fn learn(cc: &str) -> PathState {
    learn_through(cc, BDP)
}

fn learn_through(cc: &str, buffer: usize) -> PathState {
    let mut first = Download::new(cc, 12 * BDP, None);
    first.buffer = buffer;
    first.run();
    first.pipe.server.path_state().unwrap()
}

/// A3, A7: capacity, not the overshot window or the standing queue.
#[rstest]
fn long_download_observes_the_capacity(
    #[values("reno", "cubic")] cc: &str,
    #[values(BDP / 2, BDP, 4 * BDP)] buffer: usize,
) {
    let state = learn_through(cc, buffer);
    let share = state.saved_cwnd as f64 / BDP as f64;

    assert!((0.85..1.05).contains(&share), "{share}");
    // Nothing is lost where the buffer is deep: the queue shows the limit.
    assert!(!state.limited);
    assert!(state.saved_rtt >= RTT && state.saved_rtt < RTT * 11 / 10);
}

#[rstest]
fn resumed_download_is_round_trips_shorter(#[values("reno", "cubic")] cc: &str) {
    use Phase::*;

    let saved = learn(cc);

    let slow_start = Download::new(cc, BDP, None).run();
    let mut resumed = Download::new(cc, BDP, Some(saved));
    let careful_resume = resumed.run();

    assert_eq!(
        resumed.phases(),
        [Reconnaissance, Unvalidated, Validating, Normal]
    );
    assert_eq!(resumed.lost, 0);

    let stats = resumed.pipe.server.path_stats().next().unwrap();
    let stats = stats.careful_resume.unwrap();
    assert_eq!(stats.phase, Normal);
    assert_eq!(stats.jump_cwnd, Some(saved.saved_cwnd as usize / 2));
    assert!(stats.pipe_size > saved.saved_cwnd as usize / 2);

    assert!(resumed.limits.contains(&SendLimit::CongestionWindow));
    assert!(!resumed.limits.contains(&SendLimit::FlowControl));
    assert_eq!(resumed.limits.last(), Some(&SendLimit::Application));

    // A handshake, a request, the initial window's ACK, half the object at
    // half the rate, and the rest; what the first ACKs let go before the jump
    // leaves sooner.
    let bound = RTT * 9 / 2;
    assert!(careful_resume > bound * 99 / 100, "{careful_resume:?}");
    assert!(careful_resume < bound * 11 / 10, "{careful_resume:?}");
    assert!(slow_start - careful_resume > RTT * 9 / 10, "{slow_start:?}");
}

/// Vector 4 in a whole connection: the path lost nine tenths of its capacity.
#[rstest]
fn jump_into_a_narrower_path_retreats_and_completes(
    #[values("reno", "cubic")] cc: &str,
) {
    let saved = PathState {
        saved_cwnd: 10 * BDP as u64,
        ..learn(cc)
    };

    let mut resumed = Download::new(cc, 10 * BDP, Some(saved));
    resumed.run();

    let triggers: Vec<_> = resumed.events.iter().map(|e| e.trigger).collect();
    assert!(resumed.phases().contains(&Phase::SafeRetreat));
    assert_eq!(resumed.pipe.server.path_state(), None);
    assert!(triggers.contains(&Some(Trigger::PacketLoss)));
    assert_eq!(triggers.last(), Some(&Some(Trigger::ExitRecovery)));
}

/// A limited object never lowers what is held (A8), and a validated jump says
/// so.
#[rstest]
fn short_resumed_download_keeps_the_saved_capacity(
    #[values("reno", "cubic")] cc: &str,
) {
    let mut saved = learn(cc);
    let first = saved.saved_cwnd;

    for _ in 0..50 {
        let mut resumed = Download::new(cc, BDP, Some(saved));
        resumed.run();

        let observed = resumed.pipe.server.path_state().unwrap();
        assert!(observed.validated);

        let kept = PathState::merged(Some(saved), observed, observed.observed);
        assert!(kept.saved_cwnd >= first * 85 / 100);
        assert!(kept.saved_cwnd <= first * 115 / 100);
        assert!(kept.expires >= observed.expires);
        saved = kept;
    }
}

/// A7: a download that ends in slow start shows what its last round carried,
/// and that the path may carry more.
#[rstest]
fn slow_start_is_not_the_paths_limit(#[values("reno", "cubic")] cc: &str) {
    let mut download = Download::new(cc, BDP, None);
    download.run();

    let observed = download.pipe.server.path_state().unwrap();
    let share = observed.saved_cwnd as f64 / BDP as f64;
    assert!(observed.limited);
    assert!((0.35..0.6).contains(&share), "{share}");
}

/// A2: a path that lost capacity since it was saved.
#[rstest]
fn long_download_lowers_the_saved_capacity(#[values("reno", "cubic")] cc: &str) {
    let saved = PathState {
        saved_cwnd: BDP as u64 * 8 / 5,
        ..learn(cc)
    };
    let mut resumed = Download::new(cc, 20 * BDP, Some(saved));
    resumed.run();

    let observed = resumed.pipe.server.path_state().unwrap();
    let share = observed.saved_cwnd as f64 / BDP as f64;
    assert!(!observed.limited);
    assert!((0.85..1.05).contains(&share), "{share}");
}

/// A8: a client that takes little does not make the path look narrow.
#[rstest]
fn flow_control_is_not_the_paths_limit(#[values("reno", "cubic")] cc: &str) {
    let window = BDP as u64 * 3 / 4;
    let mut download = Download::with_client_window(cc, 12 * BDP, None, window);
    download.run();

    let observed = download.pipe.server.path_state().unwrap();
    assert!(observed.limited);
    assert!(observed.saved_cwnd <= window);
    assert!(download.limits.contains(&SendLimit::FlowControl));
}

/// C3: what the application did not have in time is not sent faster afterwards.
#[rstest]
fn jump_keeps_its_pace_after_a_pause(#[values("reno", "cubic")] cc: &str) {
    let saved = learn(cc);
    let mut download = Download::new(cc, 3 * BDP, Some(saved));
    download.missing = (3 * BDP - 36_000, RTT * 3);
    download.run();

    let mut events = download.events.iter();
    let jump = events.find(|e| e.new == Phase::Unvalidated).unwrap();
    let pace = jump.congestion_window as f64 / RTT.as_secs_f64();
    let packets = &download.jump_packets;
    let gaps = packets.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let pause = gaps.clone().position(|gap| gap > RTT / 5);

    assert!(
        pause.is_some_and(|at| at + 2 < packets.len()),
        "{packets:?}"
    );
    for (gap, (_, bytes)) in gaps.zip(packets) {
        let sent_max = gap.as_secs_f64() * pace + 1.0;
        assert!(*bytes as f64 <= sent_max, "{packets:?}");
    }
}

/// B4: a client that shows up elsewhere is on another path. The application
/// hears of it, although that path is no longer the active one.
#[test]
fn migration_ends_careful_resume() {
    let saved = learn("cubic");
    let mut download = Download::new("cubic", 1, None);
    let pipe = &mut download.pipe;
    pipe.handshake().unwrap();
    pipe.server
        .careful_resume_from(saved, clock::now() + RTT)
        .unwrap();
    assert_eq!(pipe.server.careful_resume_phase(), Phase::Reconnaissance);

    pipe.client.stream_send(0, b"get", true).unwrap();
    let mut packet = [0; 1500];
    let (len, _) = pipe.client.send(&mut packet).unwrap();
    let elsewhere = RecvInfo {
        from: "127.0.0.2:9999".parse().unwrap(),
        to: Pipe::server_addr(),
    };
    pipe.server.recv(&mut packet[..len], elsewhere).unwrap();

    let events = pipe.server.careful_resume_events();
    let changes: Vec<_> = events.iter().map(|e| (e.new, e.trigger)).collect();
    assert_eq!(
        changes,
        [
            (Phase::Reconnaissance, None),
            (Phase::Normal, Some(Trigger::PathChanged)),
        ]
    );
}

/// C7: a NAT that gives the client another port in the midst of a jump is no
/// other path; another address is one.
#[rstest]
#[case::rebinding("127.0.0.1:9999", Phase::Normal)]
#[case::migration("127.0.0.2:9999", Phase::SafeRetreat)]
fn rebinding_ends_a_jump_without_retreat(
    #[values("reno", "cubic")] cc: &str, #[case] from: &str, #[case] then: Phase,
) {
    let mut download = Download::new(cc, 3 * BDP, Some(learn(cc)));
    while download.pipe.server.careful_resume_phase() != Phase::Unvalidated {
        download.deliver();
        download.serve();
        download.send();
        let next = download.next_event().unwrap();
        download.time.advance_to(next);
    }
    download.pipe.server.careful_resume_events().clear();

    let pipe = &mut download.pipe;
    pipe.client.stream_send(4, b"more", true).unwrap();
    let mut packet = [0; 1500];
    let (len, _) = pipe.client.send(&mut packet).unwrap();
    let info = RecvInfo {
        from: from.parse().unwrap(),
        to: Pipe::server_addr(),
    };
    pipe.server.recv(&mut packet[..len], info).unwrap();

    let events = pipe.server.careful_resume_events();
    let changes: Vec<_> = events.iter().map(|e| (e.new, e.trigger)).collect();
    assert_eq!(changes, [(then, Some(Trigger::PathChanged))]);

    // The jump is over.
    assert!(events[0].congestion_window < BDP / 2);
    assert_eq!(pipe.server.careful_resume_phase(), Phase::Reconnaissance);
}

#[test]
fn connection_without_careful_resume_refuses_state() {
    let saved = learn("cubic");
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();

    let given = pipe.server.careful_resume_from(saved, clock::now());
    assert_eq!(given, Err(Error::InvalidState));
    assert_eq!(pipe.server.path_state(), None);
    assert_eq!(pipe.server.careful_resume_phase(), Phase::Normal);
    assert!(pipe.server.careful_resume_events().is_empty());
}

/// B8: no peer holds back the ACK of the packet that fills the initial window.
#[rstest]
fn last_initial_packet_follows_a_skipped_number(
    #[values("reno", "cubic")] cc: &str, #[values(false, true)] has_saved: bool,
) {
    let saved = has_saved.then(|| learn(cc));
    let mut download = Download::new(cc, BDP, saved);
    let initial_end = |download: &Download| {
        let path = download.pipe.server.paths.get_active().unwrap();
        match &path.recovery.careful_resume().unwrap().state {
            State::Reconnaissance(phase) => phase.initial_end,
            _ => None,
        }
    };

    while initial_end(&download).is_none() {
        download.deliver();
        download.serve();
        download.send();
        let next = download.next_event().unwrap();
        download.time.advance_to(next);
    }

    let skipped = download.pipe.server.pkt_num_manager.skip_pn();
    assert_eq!(skipped, initial_end(&download).map(|end| end - 1));

    // The client acknowledges what is there.
    download.run();
    assert_eq!(download.lost, 0);
}
