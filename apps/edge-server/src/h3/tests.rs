//! HTTP/3 between two endpoints in one thread: packets go over when a test says so, and
//! what has been handed to the transport can be looked at before it leaves.

use std::net::SocketAddr;
use std::path::Path;

use quiche::clock::Simulation;
use quiche::BufFactory;
use quiche::ConnectionId;
use quiche::RecvInfo;

use super::*;
use crate::admission::file_limits::tests::account;
use crate::config::Config;
use crate::content::read_pool::CheckTicket;
use crate::h3::stalled::StalledCounts;
use crate::http::body::Body;
use crate::http::body_stream;
use crate::http::body_stream::StreamWriter;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::secrets;
use crate::quic::Transport;

quiche::stand_ins!();

struct Endpoints {
    client: quiche::Connection,
    client_h3: h3::Connection,
    server: Quic,
    http: Session,
    virtual_hosts: VirtualHosts,
    limits: Limits,
    scratch: Vec<u8>,

    /// Reads that responses wait for.
    fetches: Vec<(u64, PendingChunk)>,
}

fn addresses() -> [SocketAddr; 2] {
    [1, 2].map(|port| ([127, 0, 0, 1], port).into())
}

fn config(root: &Path) -> Config {
    let root = root.to_str().unwrap();
    let words = [
        "edge-server",
        "--listen",
        "127.0.0.1:0",
        "--speedtest",
        "--resume",
        "off",
        "--root",
        root,
    ];
    crate::config::parse(words).unwrap()
}

fn request(method: &str, path: &str) -> Vec<h3::Header> {
    let fields =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    fields.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).to_vec()
}

/// Moves so many packets from one end to the other. Returns whether there were any.
fn carry<F: BufFactory, T: BufFactory>(
    from: &mut quiche::Connection<F>,
    to: &mut quiche::Connection<T>,
    packets_max: usize,
) -> bool {
    let mut packet = [0; 1500];
    for carried in 0..packets_max {
        let Ok((length, info)) = from.send(&mut packet) else { return carried > 0 };
        to.recv(&mut packet[..length], RecvInfo { from: info.from, to: info.to }).unwrap();
    }
    true
}

impl Endpoints {
    /// Returns both endpoints of a connection without requests.
    fn connect() -> Self {
        Self::connect_to(tempfile::tempdir().unwrap().path())
    }

    /// Returns the same, of a server of this folder.
    fn connect_to(root: &Path) -> Self {
        Self::connect_with(root, 1 << 20)
    }

    /// Returns the same, with a client whose streams have this window in bytes.
    fn connect_with(root: &Path, window: u64) -> Self {
        let config = config(root);
        let certificates = Certificates::read(&config).unwrap();
        let controllers = HostControllers::default();
        let secrets = secrets::open(None).unwrap();
        let cli = &config.flags;
        let transport = Transport::new(cli, &cli.listen[0], &certificates, &controllers, secrets);
        let mut transport = transport.unwrap();
        let [here, there] = addresses();
        let mut client_config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        client_config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
        client_config.verify_peer(false);
        client_config.set_initial_max_data(10 << 20);
        client_config.set_initial_max_stream_data_bidi_local(window);
        client_config.set_initial_max_stream_data_uni(1 << 20);
        client_config.set_initial_max_streams_uni(3);
        let id = |bytes| ConnectionId::from_ref(bytes);
        let mut client =
            quiche::connect(Some("localhost"), &id(&[1; 8]), here, there, &mut client_config)
                .unwrap();
        let mut server =
            quiche::accept_with_buf_factory(&id(&[2; 8]), None, there, here, &mut transport.quic)
                .unwrap();
        while carry(&mut client, &mut server, usize::MAX)
            | carry(&mut server, &mut client, usize::MAX)
        {}
        assert!(client.is_established() && server.is_established());

        let client_h3 =
            h3::Connection::with_transport(&mut client, &h3::Config::new().unwrap()).unwrap();
        let limits = config.flags.limits.clone();
        let http =
            Session::new(&mut server, &transport.http, &limits, false, clock::now()).unwrap();
        let virtual_hosts = VirtualHosts::open(&config).unwrap();
        let mut endpoints = Self {
            client,
            client_h3,
            server,
            http,
            virtual_hosts,
            limits,
            scratch: vec![0; 1 << 16],
            fetches: Vec::new(),
        };
        endpoints.deliver();
        carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
        endpoints
    }

    fn request(&mut self, path: &str, priority: Option<&str>) -> u64 {
        let mut fields = request("GET", path);
        fields.extend(priority.map(|said| h3::Header::new(b"priority", said.as_bytes())));
        self.client_h3.send_request(&mut self.client, &fields, true).unwrap()
    }

    fn prioritize(&mut self, stream: u64, urgency: u8) {
        let priority = h3::Priority::new(urgency, false);
        let client = &mut self.client;
        self.client_h3.send_priority_update_for_request(client, stream, &priority).unwrap();
    }

    /// Delivers the client's packets, and writes responses into the transport.
    fn deliver(&mut self) {
        carry(&mut self.client, &mut self.server, usize::MAX);
        let (virtual_hosts, limits) = (&self.virtual_hosts, &self.limits);
        let wall_now = SystemTime::UNIX_EPOCH;
        let now = quiche::clock::now();
        let mut fetches = Vec::new();
        let fetch = &mut |stream, range| fetches.push((stream, range));
        let mut context = RequestContext {
            virtual_hosts,
            limits,
            files: &account(),
            scratch: &mut self.scratch,
            now,
            wall_now,
            resume: None,
            fetch,
            check: &|_, _| Ok(CheckTicket::default()),
            waker: &|_| Waker::noop().clone(),
        };
        self.http.read_requests(&mut self.server, &mut context);
        self.http.write(&mut self.server, &mut context);
        self.fetches.extend(fetches);
    }

    /// Reads from disk what a response waits for.
    fn fetch(&mut self) {
        match self.fetches.remove(0) {
            (stream, PendingChunk::File(range)) => self.http.on_fetched(stream, range.read()),
            (_, PendingChunk::Stream(_)) => panic!("a file is no stream"),
        }
    }

    /// Delivers the server's packets after a one-way delay.
    fn reply_after(&mut self, way: Duration, time: &Simulation) {
        let mut flight = Vec::new();
        let mut packet = [0; 1500];
        while let Ok((length, info)) = self.server.send(&mut packet) {
            flight.push((packet[..length].to_vec(), info));
        }
        time.advance_to(time.elapsed() + way);
        for (mut packet, info) in flight {
            self.client.recv(&mut packet, RecvInfo { from: info.from, to: info.to }).unwrap();
        }
    }

    /// Returns what is cancelled when so many intervals have passed.
    fn stalled(&mut self, intervals: u32) -> StalledCounts {
        let later = clock::now() + intervals * self.limits.stall_time();
        self.http.cancel_stalled(&mut self.server, later)
    }

    /// Returns the order in which responses arrive, packet by packet.
    fn order(&mut self, count: usize) -> Vec<u64> {
        let mut started = Vec::new();
        let mut body = [0; 4096];
        while started.len() < count {
            assert!(carry(&mut self.server, &mut self.client, 1), "only {started:?} have come");
            while let Ok((stream, event)) = self.client_h3.poll(&mut self.client) {
                match event {
                    h3::Event::Headers { .. } => started.push(stream),
                    h3::Event::Data => {
                        while self.client_h3.recv_body(&mut self.client, stream, &mut body).is_ok()
                        {
                        }
                    }
                    _ => (),
                }
            }
        }
        started
    }
}

#[test]
fn urgent_response_overtakes_queued_bytes() {
    let mut endpoints = Endpoints::connect();
    let bulk = endpoints.request("/bytes/5000", None);
    endpoints.deliver();
    assert_eq!(endpoints.http.unsent_bytes(), 0);
    let urgent = endpoints.request("/bytes/3000", Some("u=0"));
    endpoints.deliver();
    assert_eq!(endpoints.http.unsent_bytes(), 0);
    assert_eq!(endpoints.order(2), [urgent, bulk]);
}

#[test]
fn requests_at_once_are_answered_in_order() {
    let mut endpoints = Endpoints::connect();
    let requested: Vec<_> =
        (0..=EVENTS_MAX).map(|_| endpoints.request("/bytes/10", None)).collect();
    endpoints.deliver();
    assert_eq!(endpoints.order(requested.len()), requested);
}

#[test]
fn content_of_a_refused_request_closes_nothing() {
    let malformed = [request("GET", "/bytes/10"), vec![h3::Header::new(b"te", b"gzip")]].concat();
    // A status, or what the stream is reset with.
    let table = [
        (request("POST", "/missing"), false, Ok("405")),
        (request("GET", "/missing"), false, Ok("404")),
        (request("GET", "/bytes/10"), false, Ok("200")),
        (malformed, false, Err(WireErrorCode::MessageError as u64)),
        (request("POST", "/missing"), true, Err(WireErrorCode::RequestRejected as u64)),
    ];
    let trailers = [h3::Header::new(b"x", b"y")];
    for (fields, after_goaway, expected) in table {
        for (body, has_trailers) in [(&b"body"[..], false), (b"", true), (b"body", true)] {
            let mut endpoints = Endpoints::connect();
            if after_goaway {
                endpoints.http.go_away(&mut endpoints.server, true);
            }
            let (client_h3, client) = (&mut endpoints.client_h3, &mut endpoints.client);
            let stream = client_h3.send_request(client, &fields, false).unwrap();
            if !body.is_empty() {
                client_h3.send_body(client, stream, body, !has_trailers).unwrap();
            }
            if has_trailers {
                client_h3.send_additional_headers(client, stream, &trailers, true, true).unwrap();
            }
            endpoints.deliver();
            endpoints.deliver();
            carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
            let outcome =
                std::iter::from_fn(|| endpoints.client_h3.poll(&mut endpoints.client).ok())
                    .find_map(|(_, event)| match event {
                        h3::Event::Headers { list, .. } => Some(Ok(list[0].value().to_vec())),
                        h3::Event::Reset(code) => Some(Err(code)),
                        _ => None,
                    });
            let case = format!("{fields:?} {body:?} {has_trailers}");
            assert_eq!(outcome, Some(expected.map(|status| status.as_bytes().to_vec())), "{case}");
            assert_eq!(endpoints.server.local_error(), None, "{case}");
        }
    }
}

#[test]
fn small_response_arrives_whole_with_any_window() {
    for window in [200, 500, 1000, 1100, 1 << 20] {
        let mut endpoints = Endpoints::connect_with(tempfile::tempdir().unwrap().path(), window);
        let stream = endpoints.request("/bytes/1000", None);
        let mut body = Vec::new();
        let mut piece = [0; 100];
        let is_over = (0..200).any(|_| {
            endpoints.deliver();
            carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
            let mut is_over = false;
            while let Ok((of, event)) = endpoints.client_h3.poll(&mut endpoints.client) {
                is_over |= (of, event) == (stream, h3::Event::Finished);
                while let Ok(count) =
                    endpoints.client_h3.recv_body(&mut endpoints.client, stream, &mut piece)
                {
                    body.extend_from_slice(&piece[..count]);
                }
            }
            is_over
        });
        assert!(is_over, "{} bytes have come, {window} at once", body.len());
        let expected: Vec<_> = (0..1000_usize).map(|at| (at ^ (at >> 8)) as u8).collect();
        assert!(body == expected, "{window}");
        assert_eq!(endpoints.http.exchanges.take_finished().count(), 0);
        endpoints.deliver();
        endpoints.deliver();
        let ended: Vec<_> = endpoints.http.exchanges.take_finished().collect();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].bytes, ended[0].complete), (1000, true));
    }
}

// The kernel never says of these files that they are in memory.
#[test]
fn response_that_waits_for_the_disk_lets_others_go() {
    let mut endpoints = Endpoints::connect_to(Path::new("/sys/kernel"));
    let length = std::fs::read("/sys/kernel/notes").unwrap().len() as u64;
    let waiting = endpoints.request("/notes", None);
    let other = endpoints.request("/bytes/3000", Some("u=7"));
    endpoints.deliver();
    endpoints.deliver();
    assert_eq!(endpoints.http.unsent_bytes(), length, "the other has been sent");
    assert_eq!(endpoints.fetches.len(), 1, "one read is requested");
    assert_eq!(endpoints.order(2), [waiting, other]);

    endpoints.fetch();
    endpoints.deliver();
    assert_eq!(endpoints.http.unsent_bytes(), 0);
}

#[test]
fn failed_read_resets_its_stream_only() {
    let mut endpoints = Endpoints::connect_to(Path::new("/sys/kernel"));
    let failing = endpoints.request("/notes", None);
    endpoints.deliver();
    endpoints.http.on_fetched(failing, Err(io::ErrorKind::UnexpectedEof.into()));
    let other = endpoints.request("/bytes/3000", None);
    endpoints.deliver();
    assert_eq!(endpoints.http.unsent_bytes(), 0);
    carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
    let stopped = endpoints.client.stream_recv(failing, &mut [0; 100]);
    let internal_error = WireErrorCode::InternalError as u64;
    assert_eq!(stopped, Err(quiche::Error::StreamReset(internal_error)));
    assert!(endpoints.client.stream_readable(other));
}

#[test]
fn acks_are_awaited_by_long_responses_on_long_paths() {
    for (path, round_trip_ms, expected) in
        [("/bytes/100000000", 20, true), ("/bytes/100000000", 2, false), ("/bytes/9000", 20, false)]
    {
        let time = Simulation::start(1, Duration::ZERO);
        let mut endpoints = Endpoints::connect();
        endpoints.request(path, None);
        for _ in 0..30 {
            endpoints.deliver();
            endpoints.reply_after(Duration::from_millis(round_trip_ms), &time);
        }
        let awaits = endpoints.http.awaits_acks(&endpoints.server, quiche::clock::now()).is_some();
        assert_eq!(awaits, expected, "{path}, {round_trip_ms} ms");
    }
}

// RFC 9218, 7.
#[test]
fn priority_update_reorders_queued_bytes() {
    let mut endpoints = Endpoints::connect();
    endpoints.request("/bytes/4000", None);
    let second = endpoints.request("/bytes/100000", Some("u=5"));
    endpoints.deliver();
    assert!((1..100_000).contains(&endpoints.http.unsent_bytes()));
    endpoints.prioritize(second, 0);
    endpoints.deliver();
    assert_eq!(endpoints.order(1), [second]);
}

// RFC 9218, 7: control streams are read first, so the update is known before its
// request, although the stream is there.
#[test]
fn early_priority_update_waits_for_its_request() {
    let mut endpoints = Endpoints::connect();
    let first = endpoints.request("/bytes/4000", None);
    let second = endpoints.request("/bytes/4000", Some("u=7"));
    endpoints.prioritize(second, 0);
    endpoints.deliver();
    assert_eq!(endpoints.order(2), [second, first]);
}

#[test]
fn finished_requests_leave_no_state() {
    let mut endpoints = Endpoints::connect();
    for _ in 0..50 {
        let stream = endpoints.request("/bytes/100", None);
        endpoints.prioritize(stream, 1);
        endpoints.deliver();
        assert_eq!(endpoints.order(1), [stream]);
        endpoints.prioritize(stream, 2);
        endpoints.deliver();
    }
    assert!(endpoints.http.request_bodies.is_empty(), "{:?}", endpoints.http.request_bodies);
    assert_eq!(endpoints.http.unsent_bytes(), 0);
}

#[test]
fn turn_bounds_bytes_of_one_of_several_responses() {
    let mut endpoints = Endpoints::connect();
    for _ in 0..3 {
        endpoints.request("/bytes/1000000", None);
    }
    endpoints.deliver();
    // The initial window is less than a turn: who had it goes last.
    let next = endpoints.http.responses.at(0).unwrap();
    assert_eq!((next.stream, next.unsent_bytes()), (4, 1_000_000));
}

#[test]
fn response_is_cancelled_when_nothing_is_acknowledged() {
    let mut endpoints = Endpoints::connect();
    endpoints.request("/bytes/1000000", None);
    let one = StalledCounts { responses: 1, ..StalledCounts::default() };
    for (interval, round_trips, expected) in [
        (1, 1, StalledCounts::default()),
        (2, 5, StalledCounts::default()),
        (3, 0, one),
        (4, 0, StalledCounts::default()),
    ] {
        for _ in 0..round_trips {
            endpoints.deliver();
            carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
        }
        assert_eq!(endpoints.stalled(interval), expected, "{interval}");
    }
    assert_eq!(endpoints.http.unsent_bytes(), 0);
    assert!(endpoints.http.is_idle());
}

#[test]
fn response_that_waits_for_the_disk_is_not_stalled() {
    let mut endpoints = Endpoints::connect_to(Path::new("/sys/kernel"));
    let waiting = endpoints.request("/notes", None);
    for interval in 1..4 {
        endpoints.deliver();
        assert_eq!(endpoints.stalled(interval), StalledCounts::default());
    }
    endpoints.fetch();
    endpoints.deliver();
    assert_eq!(endpoints.order(1), [waiting]);
}

#[test]
fn unacknowledged_bytes_are_bounded_by_the_quota() {
    const BOUND: u64 = 1 << 16;
    for (max, exceeds) in [(BOUND, false), (1 << 30, true)] {
        let mut endpoints = Endpoints::connect();
        endpoints.http.send_quota = SendQuota::new(max);
        let stream = endpoints.request("/bytes/900000", None);
        for _ in 0..5 {
            endpoints.deliver();
            carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
        }
        // The congestion window has opened, and nobody acknowledges.
        for _ in 0..5 {
            endpoints.deliver();
            while endpoints.server.send(&mut [0; 1500]).is_ok() {}
        }
        let kept = endpoints.server.stream_unacknowledged(stream);
        assert_eq!(kept > BOUND + 1000, exceeds, "{kept}");
    }
}

#[test]
fn unsent_bytes_are_bounded() {
    let mut endpoints = Endpoints::connect_with(tempfile::tempdir().unwrap().path(), 10 << 20);
    endpoints.request("/bytes/9000000", None);
    let mut turn = |packets_max| {
        carry(&mut endpoints.server, &mut endpoints.client, packets_max);
        endpoints.deliver();
        endpoints.server.stream_bytes_unsent()
    };
    // The congestion window opens until it is no bound.
    let all: Vec<_> = (0..9).map(|_| turn(usize::MAX)).collect();
    assert!(all.is_sorted() && all[0] < UNSENT_BYTES_MAX, "{all:?}");
    let full = UNSENT_BYTES_MAX..UNSENT_BYTES_MAX + 100;
    for packets_max in [usize::MAX, 0, 0, 1, 5] {
        let unsent = turn(packets_max);
        assert!(full.contains(&unsent), "{unsent} after {packets_max}");
    }
}

#[test]
fn goaway_is_acknowledged_with_its_bytes() {
    let mut endpoints = Endpoints::connect();
    for last in [false, true] {
        endpoints.deliver();
        assert!(endpoints.http.is_goaway_acknowledged(&endpoints.server));
        endpoints.http.go_away(&mut endpoints.server, last);
        carry(&mut endpoints.server, &mut endpoints.client, usize::MAX);
        assert!(!endpoints.http.is_goaway_acknowledged(&endpoints.server), "{last}");
    }
    endpoints.deliver();
    assert!(endpoints.http.is_goaway_acknowledged(&endpoints.server));
}

#[test]
fn shrinking_frees_memory_of_finished_requests() {
    let mut endpoints = Endpoints::connect();
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/bytes/9")];
    let fields = fields.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()));
    let ask = |_| endpoints.client_h3.send_request(&mut endpoints.client, &fields, false).unwrap();
    let streams: Vec<_> = (0..50).map(ask).collect();
    endpoints.deliver();
    for stream in streams {
        endpoints.client_h3.send_body(&mut endpoints.client, stream, b"", true).unwrap();
    }
    endpoints.deliver();
    assert!(endpoints.http.request_bodies.is_empty());
    let room = endpoints.http.request_bodies.capacity();
    endpoints.http.shrink_to_fit();
    assert!(room > 0 && endpoints.http.request_bodies.capacity() == 0, "{room}");
}

#[test]
fn stopped_response_counts_as_a_cancelled_request() {
    let mut endpoints = Endpoints::connect_with(tempfile::tempdir().unwrap().path(), 1 << 16);
    let stop = |endpoints: &mut Endpoints, begins: bool| {
        let stream = endpoints.request("/bytes/1000000", None);
        if begins {
            endpoints.deliver();
        }
        let code = WireErrorCode::RequestCancelled as u64;
        endpoints.client.stream_shutdown(stream, Shutdown::Read, code).unwrap();
        endpoints.deliver();
    };
    stop(&mut endpoints, true);
    stop(&mut endpoints, false);
    assert_eq!((endpoints.http.cancelled, endpoints.http.is_idle()), (2, true));
    endpoints.http.cancelled = CANCELLED_MAX;
    stop(&mut endpoints, true);
    let error = endpoints.server.local_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (true, WireErrorCode::ExcessiveLoad as u64));
}

// What a claim of saved parameters counts.
#[test]
fn streamed_response_counts_its_length_or_what_is_queued() {
    for (length, queued, is_finished, expected) in [
        (Some(100_000), 0, false, 100_000),
        (Some(100_000), 300, false, 100_000),
        (None, 0, false, 0),
        (None, 300, false, 300),
        (None, 300, true, 300),
    ] {
        let (writer, reader) = body_stream::stream(length);
        writer.push(vec![0; queued].into());
        let mut open = Some(writer);
        if is_finished {
            open.take().into_iter().for_each(StreamWriter::finish);
        }
        let response = Response::new(200, Body::of_stream(reader));
        let start = SystemTime::UNIX_EPOCH;
        let writer = ResponseWriter::new(0, response, true, Priority::DEFAULT, start);
        assert_eq!(writer.sendable_bytes(clock::now()), expected, "{length:?} {queued}");
    }
}
