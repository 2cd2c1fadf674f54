//! Cases of hostile input: a [`HostilePeer`](crate::peer::HostilePeer) sends each, the server must react as the
//! rule expects, and must still serve a regular client.

use std::fs;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::panic::AssertUnwindSafe;

use crate::packet::Space;
use crate::peer::HostilePeer;
use crate::peer::INITIAL_BYTES;
use crate::received::Close;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::serve;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::stream;

/// Request stream that no case uses.
const SPARE_STREAM: u64 = 400;

/// Limit on retransmissions of a request.
const RESENDS_MAX: usize = 60;

/// Content of the server's index file.
const PAGE: &[u8] = b"home";

/// Gauge of open connections: at the end only that of the regular client.
const CONNECTIONS_OPEN: &str = "edge_server_connections_open";

/// Limit on the growth of the server's memory. It exceeds what one connection may use.
const GROWTH_KIB_MAX: usize = 24 << 10;

/// Expected reaction of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The connection is closed with a transport error or a TLS alert.
    Transport(u64),

    /// The connection is closed with an HTTP/3 or QPACK error.
    Application(u64),

    /// A stream is reset with RESET_STREAM and this code.
    Reset {
        stream: u64,
        code: u64,
    },

    /// The request on the first stream has this status.
    Status(&'static str),

    /// None: the connection still serves requests.
    Served,

    /// None, not even a connection.
    Silence,

    /// A Version Negotiation packet with the connection IDs of the case.
    VersionNegotiation,
    Retry,
    StatelessReset,
}

/// Progress of the connection before the case is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No packet was sent.
    Fresh,

    /// The server's handshake messages were received.
    ServerHello,

    /// The handshake is confirmed.
    Established,

    /// The client's control stream is open and its SETTINGS were sent.
    Http,
}

type Action = Box<dyn Fn(&mut HostilePeer)>;

/// One input that breaks a rule.
pub struct HostileCase {
    name: String,
    progress: Progress,
    act: Action,
}

/// Rule of an RFC and the cases that break it.
pub struct Rule {
    /// What breaks the rule.
    pub name: &'static str,

    /// Document and section.
    pub section: &'static str,
    pub expected: Expected,
    pub cases: Vec<HostileCase>,
}

/// Returns a rule without cases.
pub fn rule(name: &'static str, section: &'static str, expected: Expected) -> Rule {
    Rule { name, section, expected, cases: Vec::new() }
}

impl Rule {
    /// Adds a case.
    pub fn case(
        mut self,
        name: impl Into<String>,
        progress: Progress,
        act: impl Fn(&mut HostilePeer) + 'static,
    ) -> Self {
        self.cases.push(HostileCase { name: name.into(), progress, act: Box::new(act) });
        self
    }

    /// Adds a case for each value.
    pub fn cases<T: 'static>(
        mut self,
        progress: Progress,
        values: impl IntoIterator<Item = (impl Into<String>, T)>,
        act: impl Fn(&mut HostilePeer, &T) + Copy + 'static,
    ) -> Self {
        for (name, value) in values {
            self = self.case(name, progress, move |peer| act(peer, &value));
        }
        self
    }

    /// Adds a case for each list of frames in one packet.
    pub fn frames(
        self,
        space: Space,
        frames: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    ) -> Self {
        let progress = match space {
            Space::Data => Progress::Established,
            _ => Progress::ServerHello,
        };
        self.cases(progress, frames, move |peer, frames| peer.send(space, frames))
    }

    /// Adds a case for each complete stream.
    pub fn streams(
        self,
        id: u64,
        streams: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    ) -> Self {
        self.cases(Progress::Http, streams, move |peer, bytes| peer.write(id, bytes, true))
    }

    /// Adds a case for each start of a stream that stays open.
    pub fn stream_starts(
        self,
        progress: Progress,
        id: u64,
        stream_starts: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    ) -> Self {
        self.cases(progress, stream_starts, move |peer, bytes| peer.write(id, bytes, false))
    }
}

/// Returns rules with one case each.
pub fn single_cases(rules: Vec<Rule>) -> Vec<Rule> {
    let split = |Rule { name, section, expected, cases }: Rule| {
        let alone = move |case| Rule { name, section, expected, cases: vec![case] };
        cases.into_iter().map(alone)
    };
    rules.into_iter().flat_map(split).collect()
}

/// Runs all cases on one server, one after the other.
///
/// # Panics
///
/// The server does not react as expected, or does not serve the regular client.
pub fn run_rules(rules: &[Rule], arguments: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), PAGE).unwrap();
    let common = ["--workers", "1", "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve(dir.path(), &[&common, arguments].concat());
    let metrics_at = server.metrics_address();
    let mut regular = UdpClient::connect(address);
    assert_eq!(regular.get("/").body, PAGE);
    let before_kib = server.memory_kib("VmHWM");
    let mut failures = Vec::new();
    for rule in rules {
        for case in &rule.cases {
            if let Err(error) = run_case(address, rule, case) {
                let line = format!(
                    "{}: {} ({}): expected {:?}, got {error}",
                    rule.section, rule.name, case.name, rule.expected
                );
                eprintln!("{line}");
                failures.push(line);
            }
            assert_eq!(regular.get("/").body, PAGE, "after {} ({})", rule.name, case.name);
        }
    }
    assert!(failures.is_empty(), "{} cases failed: {failures:#?}", failures.len());
    metrics::wait_until(metrics_at, CONNECTIONS_OPEN, |open| open == 1);
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    assert!(growth_kib < GROWTH_KIB_MAX, "the server took {growth_kib} KiB");
}

fn run_case(server: SocketAddr, rule: &Rule, case: &HostileCase) -> Result<(), String> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut peer = HostilePeer::new(server);
        reach(&mut peer, case.progress);
        (case.act)(&mut peer);
        let responds = check_expected(&mut peer, rule.expected);
        let received =
            format!("{:?}", (peer.received.close, &peer.received.resets, &peer.received.stops));
        if responds {
            peer.close();
        }
        responds.then_some(()).ok_or(received)
    }));
    result.unwrap_or_else(|_| Err("panicked".to_owned()))
}

fn reach(peer: &mut HostilePeer, progress: Progress) {
    match progress {
        Progress::Fresh => (),
        Progress::ServerHello => peer.await_server_handshake(),
        Progress::Established | Progress::Http => peer.complete(),
    }
    if progress == Progress::Http {
        // The stream type and empty SETTINGS.
        peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
    }
}

/// Waits for the expected reaction. Returns whether it came.
fn check_expected(peer: &mut HostilePeer, expected: Expected) -> bool {
    match expected {
        Expected::Transport(code) => closes(peer, Close::Transport(code)),
        Expected::Application(code) => closes(peer, Close::Application(code)),
        Expected::Reset { stream, code } => {
            peer.wait_until(|peer| peer.received.resets.contains_key(&stream));
            peer.received.resets.get(&stream) == Some(&code) && is_served(peer)
        }
        Expected::Status(status) => {
            peer.wait_until(|peer| peer.received.response(0).status.is_some());
            peer.received.response(0).status.as_deref() == Some(status)
        }
        Expected::Served => is_served(peer),
        Expected::Silence => stays_silent(peer),
        Expected::VersionNegotiation => {
            let ids = [peer.source.clone(), peer.destination.clone()];
            peer.wait_until(|peer| peer.received.datagrams > 0)
                && peer.received.negotiated == Some(ids)
        }
        Expected::Retry => peer.wait_until(|peer| peer.received.retry.is_some()),
        Expected::StatelessReset => peer.wait_until(|peer| peer.received.is_reset()),
    }
}

fn closes(peer: &mut HostilePeer, close: Close) -> bool {
    peer.wait_until(|peer| peer.received.close.is_some());
    peer.received.close == Some(close)
}

/// Returns whether the connection serves a request.
fn is_served(peer: &mut HostilePeer) -> bool {
    if !peer.is_complete() {
        peer.complete();
    }
    let request = stream(SPARE_STREAM, 0, &get("/"), true);
    let complete = |peer: &HostilePeer| {
        peer.received.streams.get(&SPARE_STREAM).is_some_and(|s| s.is_complete())
    };
    // The server drops the first packets of a new path while it has no slot for the path.
    let responded = (0..RESENDS_MAX).any(|_| {
        peer.send(Space::Data, &request);
        peer.wait_briefly(complete)
    });
    responded && peer.received.response(SPARE_STREAM).body == PAGE
}

/// Returns whether the case gets no reply: a packet sent after it gets the first one.
fn stays_silent(peer: &mut HostilePeer) -> bool {
    let mut unsupported = vec![0xc0, 0x5a, 0x5a, 0x5a, 0x5a, 0];
    unsupported.extend(*b"\x04next");
    unsupported.resize(INITIAL_BYTES, 0);
    peer.send_datagram(&unsupported);
    peer.wait_until(|peer| peer.received.datagrams > 0);
    peer.received.negotiated == Some([b"next".to_vec(), Vec::new()])
}

/// Returns a GET request for a path.
pub fn get(path: &str) -> Vec<u8> {
    headers(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ])
}
