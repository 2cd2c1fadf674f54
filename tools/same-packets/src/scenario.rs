//! Scenario: everything that determines a run but the crate under test.

/// One of the two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Client,
    Server,
}

impl Endpoint {
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A run of one client and one server over a path.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,

    /// Seed of TLS, of connection IDs and of the path.
    pub seed: u64,
    pub path: Path,
    pub transport: Transport,
    pub handshake: Handshake,
    pub load: Load,

    /// Actions at times in ms, in their order.
    pub actions: Vec<(u64, Action)>,
    pub end: End,
}

/// A path, the same in both directions.
#[derive(Clone, Debug)]
pub struct Path {
    pub delay_ms: u64,

    /// Rate of the bottleneck; unlimited if zero.
    pub kbit_per_s: u64,
    pub queue_bytes: u64,

    /// Bytes of the longest datagram that passes.
    pub mtu: usize,

    /// Shares of datagrams that are lost, that are late by up to a fifth of the delay, and
    /// that arrive twice.
    pub loss_permille: u64,
    pub late_permille: u64,
    pub twice_permille: u64,

    /// Datagrams that are lost, by their number in either direction, from 0.
    pub lost: Vec<u64>,

    /// Microseconds between two reads of a socket; arrivals wait for the next one.
    pub read_interval_us: u64,
}

/// Transport settings of both endpoints.
#[derive(Clone, Debug)]
pub struct Transport {
    pub controller: &'static str,
    pub pacing: bool,
    pub hystart: bool,
    pub initial_window_packets: Option<usize>,
    pub pmtud: bool,
    pub max_udp_payload: usize,
    pub connection_window: u64,
    pub stream_window: u64,
    pub streams: u64,
    pub idle_ms: u64,
    pub ack_delay_ms: u64,
    pub datagrams: bool,
    pub connection_ids: u64,
    pub disable_migration: bool,
    pub large_certificate: bool,

    /// Bytes that a server may send to an unknown address, for each that it received;
    /// quiche's default if absent.
    pub amplification_factor: Option<usize>,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// A full handshake.
    Full,

    /// The server asks for a version that it supports.
    VersionNegotiation,

    /// The server asks for a token.
    Retry,

    /// After a first connection, with its session.
    Resumed,

    /// After a first connection, with its session and requests in 0-RTT packets.
    EarlyData,
}

/// What applications transfer.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Nothing.
    Nothing,

    /// Requests on streams of their own, each with a body, and the responses.
    Streams(Requests),

    /// The same over HTTP/3.
    Http3(Requests),

    /// Unidirectional streams of each endpoint.
    Unidirectional(Requests),

    /// DATAGRAM frames of `bytes` from each endpoint, one each ms.
    Datagrams { count: u64, bytes: usize },

    /// Writes of `bytes` by the client, 20,000 in a second, on one stream.
    SmallWrites { count: u64, bytes: usize },
}

/// Requests that a client sends.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    pub count: u64,
    pub up: u64,
    pub down: u64,

    /// Milliseconds from one request to the next.
    pub interval_ms: u64,
    pub priorities: Priorities,
}

/// Priorities of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priorities {
    Default,
    Incremental,
    ByUrgency,
}

/// Event during a connection.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A NAT gives the client another address.
    Rebind,

    /// The client probes a path from another address and migrates to it.
    Migrate,

    /// The client migrates to another address without probing.
    MigrateAtOnce,

    /// The client begins a key update.
    UpdateKey,
    Reset(Endpoint, u64),
    StopSending(Endpoint, u64),
    PauseReading(Endpoint, bool),
    Ping(Endpoint),
    Close(Endpoint),
    RetireConnectionId(Endpoint),

    /// The path loses everything, or no longer does.
    Blackhole(bool),
}

/// How a connection ends once its load is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Close(Endpoint),
    IdleTimeout,
}

impl Scenario {
    /// Returns a full handshake over a path of 40 ms and 20 Mbit/s that loses nothing.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            seed: 1,
            path: Path {
                delay_ms: 20,
                kbit_per_s: 20_000,
                queue_bytes: 100_000,
                mtu: 1500,
                loss_permille: 0,
                late_permille: 0,
                twice_permille: 0,
                lost: Vec::new(),
                read_interval_us: 0,
            },
            transport: Transport {
                controller: "cubic",
                pacing: false,
                hystart: true,
                initial_window_packets: None,
                pmtud: false,
                max_udp_payload: 1350,
                connection_window: 10_000_000,
                stream_window: 1_000_000,
                streams: 100,
                idle_ms: 5_000,
                ack_delay_ms: 25,
                datagrams: false,
                connection_ids: 4,
                disable_migration: false,
                large_certificate: false,
                amplification_factor: None,
            },
            handshake: Handshake::Full,
            load: Load::Nothing,
            actions: Vec::new(),
            end: End::Close(Endpoint::Client),
        }
    }
}

impl Requests {
    /// Returns requests that start at once.
    pub fn new(count: u64, up: u64, down: u64) -> Self {
        Self { count, up, down, interval_ms: 0, priorities: Priorities::Default }
    }
}
