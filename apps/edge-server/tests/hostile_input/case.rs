//! Case of hostile input: sent by a
//! [`Peer`](crate::peer::Peer), after which the server gives the answer that is
//! expected, and still serves a client that behaves.

use std::fs;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::panic::AssertUnwindSafe;

use crate::heard::Close;
use crate::packet::Space;
use crate::peer::Peer;
use crate::peer::INITIAL_BYTES;
use crate::support::client::Client;
use crate::support::metrics;
use crate::support::process::serve;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::stream;

/// A request's stream that no input uses.
const SPARE_STREAM: u64 = 400;

/// How often a request is sent, until it is answered.
const RESENDS_MAX: usize = 60;

/// What the server serves.
const PAGE: &[u8] = b"home";

/// What is left when all are gone: the client that behaves.
const CONNECTIONS_OPEN: &str = "edge_server_connections_open";

/// More than the server takes for one connection, whatever comes on it.
const GROWTH_KIB_MAX: usize = 24 << 10;

/// What an input is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is closed with an error of the transport, or of a TLS alert.
    Transport(u64),

    /// The connection is closed with an error of HTTP/3 or QPACK.
    Application(u64),

    /// A stream is reset: RESET_STREAM with this code.
    Reset {
        stream: u64,
        code: u64,
    },

    /// The request on the first stream has this status.
    Status(&'static str),

    /// Nothing: the connection does what it did before.
    Served,

    /// Nothing at all: there is no connection.
    Silence,

    /// A Version Negotiation packet with the IDs of the input.
    VersionNegotiation,
    Retry,
    StatelessReset,
}

/// How far a connection gets before the input is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is sent.
    Fresh,

    /// The server has answered the ClientHello.
    Met,

    /// The handshake is confirmed.
    Open,

    /// And the client's control stream is open, with its SETTINGS.
    Http,
}

type Act = Box<dyn Fn(&mut Peer)>;

/// One input.
pub struct Input {
    name: String,
    stage: Stage,
    act: Act,
}

/// A rule that inputs break, each in its way.
pub struct Kind {
    pub rule: &'static str,

    /// The document and its section.
    pub section: &'static str,
    pub answer: Answer,
    pub inputs: Vec<Input>,
}

/// A kind without inputs.
pub fn kind(rule: &'static str, section: &'static str, answer: Answer) -> Kind {
    Kind { rule, section, answer, inputs: Vec::new() }
}

impl Kind {
    /// One more input.
    pub fn input(
        mut self,
        name: impl Into<String>,
        stage: Stage,
        act: impl Fn(&mut Peer) + 'static,
    ) -> Self {
        self.inputs.push(Input { name: name.into(), stage, act: Box::new(act) });
        self
    }

    /// Inputs that do the same with different things.
    pub fn inputs<T: 'static>(
        mut self,
        stage: Stage,
        things: impl IntoIterator<Item = (impl Into<String>, T)>,
        act: impl Fn(&mut Peer, &T) + Copy + 'static,
    ) -> Self {
        for (name, thing) in things {
            self = self.input(name, stage, move |peer| act(peer, &thing));
        }
        self
    }

    /// Inputs that are the frames of a packet.
    pub fn frames(
        self,
        space: Space,
        frames: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    ) -> Self {
        let stage = match space {
            Space::Data => Stage::Open,
            _ => Stage::Met,
        };
        self.inputs(stage, frames, move |peer, frames| peer.send(space, frames))
    }

    /// Inputs that are a whole stream of HTTP/3.
    pub fn streams(
        self,
        id: u64,
        streams: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    ) -> Self {
        self.inputs(Stage::Http, streams, move |peer, bytes| peer.write(id, bytes, true))
    }

    /// Inputs that are what comes on an open stream of HTTP/3.
    pub fn pieces(
        self,
        stage: Stage,
        id: u64,
        pieces: impl IntoIterator<Item = (impl Into<String>, Vec<u8>)>,
    ) -> Self {
        self.inputs(stage, pieces, move |peer, bytes| peer.write(id, bytes, false))
    }
}

/// Tries all inputs on one server, one after the other.
///
/// # Panics
///
/// The server does not give the answers that are expected, or does not serve.
pub fn try_all(kinds: &[Kind], arguments: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), PAGE).unwrap();
    let common = ["--workers", "1", "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve(dir.path(), &[&common, arguments].concat());
    let metrics_at = server.metrics_address();
    let mut regular = Client::connect(address);
    assert_eq!(regular.get("/").body, PAGE);
    let before_kib = server.memory_kib("VmHWM");
    let mut wrong = Vec::new();
    for kind in kinds {
        for input in &kind.inputs {
            if let Err(got) = try_one(address, kind, input) {
                let line = format!(
                    "{}: {} ({}): {:?} expected, {got}",
                    kind.section, kind.rule, input.name, kind.answer
                );
                eprintln!("{line}");
                wrong.push(line);
            }
            assert_eq!(regular.get("/").body, PAGE, "after {} ({})", kind.rule, input.name);
        }
    }
    assert!(wrong.is_empty(), "{} wrong answers: {wrong:#?}", wrong.len());
    metrics::wait_until(metrics_at, CONNECTIONS_OPEN, |open| open == 1);
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    assert!(growth_kib < GROWTH_KIB_MAX, "the server took {growth_kib} KiB");
}

fn try_one(server: SocketAddr, kind: &Kind, input: &Input) -> Result<(), String> {
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let mut peer = Peer::new(server);
        reach(&mut peer, input.stage);
        (input.act)(&mut peer);
        let answered = meets(&mut peer, kind.answer);
        let heard = format!("{:?}", (peer.heard.close, &peer.heard.resets, &peer.heard.stops));
        if answered {
            peer.leave();
        }
        answered.then_some(()).ok_or(heard)
    }));
    tried.unwrap_or_else(|_| Err("panicked".to_owned()))
}

fn reach(peer: &mut Peer, stage: Stage) {
    match stage {
        Stage::Fresh => (),
        Stage::Met => peer.meet(),
        Stage::Open | Stage::Http => peer.complete(),
    }
    if stage == Stage::Http {
        // The type of the stream, and SETTINGS that say nothing.
        peer.write(2, &[&[0x00], &h3_frame(0x04, &[])[..]].concat(), false);
    }
}

/// Waits for an answer. Returns whether it came.
fn meets(peer: &mut Peer, answer: Answer) -> bool {
    match answer {
        Answer::Transport(code) => closes(peer, Close::Transport(code)),
        Answer::Application(code) => closes(peer, Close::Application(code)),
        Answer::Reset { stream, code } => {
            peer.await_that(|peer| peer.heard.resets.contains_key(&stream));
            peer.heard.resets.get(&stream) == Some(&code) && is_served(peer)
        }
        Answer::Status(status) => {
            peer.await_that(|peer| peer.heard.response(0).status.is_some());
            peer.heard.response(0).status.as_deref() == Some(status)
        }
        Answer::Served => is_served(peer),
        Answer::Silence => is_unanswered(peer),
        Answer::VersionNegotiation => {
            let ids = [peer.source.clone(), peer.destination.clone()];
            peer.await_that(|peer| peer.heard.datagrams > 0) && peer.heard.negotiated == Some(ids)
        }
        Answer::Retry => peer.await_that(|peer| peer.heard.retry.is_some()),
        Answer::StatelessReset => peer.await_that(|peer| peer.heard.is_reset()),
    }
}

fn closes(peer: &mut Peer, close: Close) -> bool {
    peer.await_that(|peer| peer.heard.close.is_some());
    peer.heard.close == Some(close)
}

/// Whether a request on the connection is answered.
fn is_served(peer: &mut Peer) -> bool {
    if !peer.is_complete() {
        peer.complete();
    }
    let request = stream(SPARE_STREAM, 0, &get("/"), true);
    let whole = |peer: &Peer| peer.heard.streams.get(&SPARE_STREAM).is_some_and(|s| s.is_whole());
    // A path that the server has no place for yet loses what comes first.
    let is_answered = (0..RESENDS_MAX).any(|_| {
        peer.send(Space::Data, &request);
        peer.await_briefly(whole)
    });
    is_answered && peer.heard.response(SPARE_STREAM).body == PAGE
}

/// Whether the next thing is answered first.
fn is_unanswered(peer: &mut Peer) -> bool {
    let mut unsupported = vec![0xc0, 0x5a, 0x5a, 0x5a, 0x5a, 0];
    unsupported.extend(*b"\x04next");
    unsupported.resize(INITIAL_BYTES, 0);
    peer.throw(&unsupported);
    peer.await_that(|peer| peer.heard.datagrams > 0);
    peer.heard.negotiated == Some([b"next".to_vec(), Vec::new()])
}

/// A request for a path.
pub fn get(path: &str) -> Vec<u8> {
    headers(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ])
}
