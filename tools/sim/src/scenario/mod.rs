//! Scenario of a run: one path, the flows that share its bottleneck, and what
//! changes while they run. One value of every setting; a [`file`](self::file)
//! with lists of values becomes several scenarios.

mod check;
pub mod file;
mod message;
mod named_files;
mod pages;
mod random;
pub mod shipped;
mod tables;
mod traces;

use std::sync::Arc;

use path_store::StateKept;
use quiche::careful_resume::AfterJump;
use quiche::slow_start::SlowStartExit;
use serde::Deserialize;
use serde::Serialize;

pub use self::pages::Page;
pub use self::traces::TraceFile;

/// One simulation, complete but for its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The bottleneck that all flows share.
    pub path: Path,

    /// The flows. The first is the one that is judged; the others are there
    /// for company.
    #[serde(rename = "flow")]
    pub flows: Vec<Flow>,

    /// All flows start one after the other, in an order that is drawn from the
    /// seed: each up to this many seconds after the end of the one before, its
    /// server's end included. They start at times of their own when absent.
    #[serde(default)]
    pub visit_pause_s: Option<f64>,

    /// Virtual time after which the run counts as stalled, in seconds.
    #[serde(default = "default::deadline_s")]
    pub deadline_s: f64,
}

/// A bottleneck and the way to it and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Rate towards the clients, in Mbit/s of IP packets.
    pub rate_mbps: f64,

    /// Rate towards the servers; the same when absent.
    #[serde(default)]
    pub up_rate_mbps: Option<f64>,

    /// Round-trip time without any queue or serialisation, in ms.
    pub rtt_ms: f64,

    /// Buffer in front of the bottleneck, in bandwidth-delay products of this
    /// path; never less than 20 packets.
    #[serde(default = "default::buffer_bdp")]
    pub buffer_bdp: f64,

    /// Packets to drop when the buffer is full.
    #[serde(default)]
    pub queue: Queue,

    /// With `queue = "step"`, the wait above which a packet is marked, in ms.
    #[serde(default)]
    pub mark_above_ms: Option<f64>,

    /// What the path does to ECN codepoints, in both directions.
    #[serde(default)]
    pub ecn: PathEcn,

    /// Probability that a packet towards a client is lost.
    #[serde(default)]
    pub loss: f64,

    /// Loss in bursts towards the clients, besides `loss`; none when absent.
    #[serde(default)]
    pub burst: Option<Burst>,

    /// What exceeds a rate is dropped before the buffer, towards the clients; nothing when absent.
    #[serde(default)]
    pub policer: Option<PolicedRate>,

    /// Each packet towards a client is delayed by up to this much more, in ms,
    /// without changing their order.
    #[serde(default)]
    pub jitter_ms: f64,

    /// The same as a share of `rtt_ms`; added to `jitter_ms`.
    #[serde(default)]
    pub jitter_share: f64,

    /// Packets towards the clients wait for a grant of the medium after their transmission, one in
    /// so many ms from a phase drawn from the seed, and arrive together; 0 is none.
    #[serde(default)]
    pub aggregation_ms: f64,

    /// Only each n-th ACK passes on the way to the server, with all that it says.
    #[serde(default = "default::ack_thinning")]
    pub ack_thinning: u32,

    /// Changes in order of time.
    #[serde(default, rename = "change")]
    pub changes: Vec<Change>,

    /// Rate, round-trip time and loss over time, from the file that a scenario file names as
    /// `trace`. `rate_mbps` and `rtt_ms`, the means of the trace when absent, then are what
    /// bandwidth-delay products are told of.
    #[serde(
        skip_deserializing,
        skip_serializing_if = "Option::is_none",
        serialize_with = "traces::serialize_name"
    )]
    pub trace: Option<Arc<TraceFile>>,

    /// How its rate and round-trip time swing; neither does when absent.
    #[serde(default)]
    pub swing: Option<Swing>,

    /// Periodic handovers; none when absent.
    #[serde(default)]
    pub handover: Option<Handover>,
}

/// Handovers that come at fixed intervals, as every 15 s with Starlink: nothing reaches a client for
/// a moment, and the path then has another rate and another round-trip time. When the first one
/// comes is drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Time from one to the next, in ms.
    pub every_ms: f64,

    /// For how long nothing passes, in ms.
    #[serde(default = "default::gap_ms")]
    pub gap_ms: f64,

    /// The rate is then drawn evenly, up to this share of `rate_mbps` above and below it.
    #[serde(default)]
    pub rate_share: f64,

    /// The same for the round-trip time.
    #[serde(default)]
    pub rtt_share: f64,
}

/// A path whose rate and round-trip time go up and down around those it is
/// told, each as a sine from a phase that is drawn from the seed: what moving
/// satellites and radio schedulers do to a path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swing {
    /// By how much of itself the rate goes up, and down.
    #[serde(default)]
    pub rate_share: f64,

    /// By how much of itself the round-trip time goes up, and down.
    #[serde(default)]
    pub rtt_share: f64,

    /// How long it takes to swing once, in round-trip times. Measured GEO and
    /// LEO paths: 3.3.
    #[serde(default = "default::period_rtts")]
    pub period_rtts: f64,
}

/// Bursty loss by the Gilbert-Elliott model: a path that is good or bad, which may change before
/// each packet. A share of `enter / (enter + leave)` of all packets comes while it is bad, for
/// `1 / leave` packets on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Probability of a change from good to bad.
    pub enter: f64,
    /// Probability of a change from bad to good.
    pub leave: f64,
    /// Probability that a packet is lost while the path is bad.
    pub loss: f64,
}

/// A token-bucket policer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicedRate {
    /// What passes in the long run, in Mbit/s of IP packets.
    pub rate_mbps: f64,
    /// What passes at once, in bytes of IP packets.
    pub burst_bytes: u64,
}

/// A queueing discipline of the bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Drops what finds the buffer full.
    #[default]
    DropTail,
    /// RFC 8289 with its default target and interval. Marks what is ECN-capable.
    Codel,
    /// RFC 8033 with its defaults. Marks what is ECN-capable.
    Pie,
    /// Drop-tail that marks what is ECN-capable and waits for more than
    /// `mark_above_ms`.
    Step,
    /// RFC 9332, with the defaults of Linux: a queue for ECT(1) and CE, and one for all else.
    Dualpi2,
    /// RFC 8290 with the defaults of CoDel: a queue for each flow, which take turns.
    FqCodel,
}

/// What a path does to ECN codepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathEcn {
    #[default]
    Pass,
    /// It bleaches: every packet arrives as not ECN-capable.
    Clear,
    /// ECT(0) becomes ECT(1).
    Ect1,
    /// Every packet arrives as CE.
    Ce,
    /// It drops ECN-capable packets.
    Drop,
}

/// Whether both ends of a flow mark their packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowEcn {
    #[default]
    Off,
    On,
    /// With the backoff of RFC 8511.
    Alternative,
    /// With ECT(1), and a scalable response of Reno and CUBIC (RFC 9331).
    L4s,
}

/// New properties of the path from a time on. What is absent stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Since the start of the run, in ms.
    pub at_ms: f64,
    /// 0 is an outage: packets wait until a later change.
    #[serde(default)]
    pub rate_mbps: Option<f64>,
    #[serde(default)]
    pub rtt_ms: Option<f64>,
    #[serde(default)]
    pub loss: Option<f64>,
}

/// One or several like flows: a client that downloads one object from a
/// server over a connection of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// How results name it.
    #[serde(default = "default::name")]
    pub name: String,

    /// How many such flows there are.
    #[serde(default = "default::count")]
    pub count: u32,

    #[serde(default)]
    pub cc: Controller,

    #[serde(default)]
    pub mode: Mode,

    #[serde(default)]
    pub ecn: FlowEcn,

    /// Exactly one of these three, or a `page`: the object's size in bytes; in
    /// bandwidth-delay products of the path (never less than 20 packets); or
    /// the size in bandwidth-delay products of what all `count` flows download
    /// together.
    #[serde(default)]
    pub object_bytes: Option<u64>,
    #[serde(default)]
    pub object_bdp: Option<f64>,
    #[serde(default)]
    pub total_bdp: Option<f64>,

    /// It downloads the objects of a page, from the HAR file that a scenario file names: the
    /// first one, and all others when it has that.
    #[serde(
        skip_deserializing,
        skip_serializing_if = "Option::is_none",
        serialize_with = "pages::serialize_name"
    )]
    pub page: Option<Arc<Page>>,

    /// Round-trip time beyond that of the path, in ms: the access link's delay.
    #[serde(default)]
    pub extra_rtt_ms: f64,

    /// Rate of the client's access link, in Mbit/s; no limit when absent.
    #[serde(default)]
    pub access_mbps: Option<f64>,

    /// When the client sends its first packet, in ms since the start of the run.
    #[serde(default)]
    pub start_ms: f64,

    /// Whether its `count` flows start one after the other: each but the first
    /// as long after the end of the one before, its server's end included, as
    /// the first after the start of the run.
    #[serde(default)]
    pub in_turn: bool,

    /// It starts up to this much later, in ms, drawn from the seed.
    #[serde(default)]
    pub start_spread_ms: f64,

    /// Its `count` flows arrive at random, so many a second on average, from `start_ms` on: gaps are
    /// exponential (a Poisson process), drawn from the seed.
    #[serde(default)]
    pub arrivals_per_s: Option<f64>,

    /// Each flow's object has a size of its own, drawn from the seed: from the one told up.
    #[serde(default)]
    pub size_pareto: Option<Pareto>,

    /// Its share of the link is measured from then on until the first of all flows is complete, in
    /// ms since the start of the run.
    #[serde(default)]
    pub share_from_ms: Option<f64>,

    /// What ends slow start besides loss: `queue`, `rapid`, `hystart`, `search`,
    /// `search-3` or `none`.
    #[serde(default = "default::slow_start_exit", with = "exit_name")]
    pub slow_start_exit: SlowStartExit,

    /// The share of the expected bytes that is missing when SEARCH ends slow
    /// start; its own default when absent.
    #[serde(default)]
    pub search_threshold: Option<f64>,

    /// The largest window to jump to, in bytes; what is saved is at most twice that.
    #[serde(default = "default::max_jump")]
    pub max_jump: usize,

    /// How slow start goes on after a jump: `soft`, `ceiling` or `none`.
    #[serde(default, with = "after_jump_name")]
    pub after_jump: AfterJump,

    /// The initial window, in packets. Other ones than 10 are for slow start, to compare with.
    #[serde(default = "default::initial_window_packets")]
    pub initial_window_packets: usize,

    /// The server has at most so many bytes of the response that are not acknowledged, as with
    /// `edge-server --send-buffer-max`; no limit when absent.
    #[serde(default)]
    pub send_buffer_bytes: Option<u64>,

    /// A paced packet leaves up to this much later than at its release time, in ms, drawn from
    /// the seed: timers of a busy host.
    #[serde(default)]
    pub release_late_ms: f64,

    /// The client's flow-control window in bytes; never a limit when absent.
    #[serde(default)]
    pub client_window_bytes: Option<u64>,

    /// The server's application hands over this many Mbit/s at most.
    #[serde(default)]
    pub app_limit_mbps: Option<f64>,

    /// The server's application hands over a segment at a time, as for video: it is on and off.
    #[serde(default)]
    pub segments: Option<Segments>,

    /// The saved path state it is given when it resumes.
    #[serde(default)]
    pub saved: Saved,

    /// Flows of one subnet share one saved path state, which one of them may
    /// claim at a time. Every flow has a subnet of its own when absent.
    #[serde(default)]
    pub subnet: Option<String>,

    /// How many clients the `count` flows are visits of: each is of one of them,
    /// drawn from the seed. Every flow has a client of its own when absent.
    #[serde(default)]
    pub clients: Option<u32>,

    /// Where saved path state is kept: `store`, `token` or `both`, as in
    /// `edge-server --state`.
    #[serde(default)]
    pub state: StateKept,
}

/// A bounded Pareto distribution of sizes: many small ones, few large ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// The smaller, the more of all bytes is in the largest ones.
    pub shape: f64,
    /// The largest size, as a multiple of the smallest one.
    pub most: f64,
}

/// Segments of a stream, of which one becomes available at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segments {
    pub bytes: u64,
    /// Time from one to the next, in ms; the first one is available at once.
    pub every_ms: f64,
}

/// A congestion controller of quiche that is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    #[default]
    Cubic,
    Reno,
    Bbr2,
}

/// Start mode of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Careful Resume is off, and with it the pacing of Reno and CUBIC, unless
    /// `slow_start_exit` paces them.
    #[default]
    SlowStart,
    /// Careful Resume is on and a path state is saved.
    CarefulResume,
}

/// The path state in the store before the run, told by the path as it was when
/// it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Saved {
    /// saved_cwnd, as a multiple of the path's bandwidth-delay product.
    pub cwnd_bdp: f64,
    /// saved_rtt, as a multiple of the path's round-trip time.
    pub rtt_ratio: f64,
    /// How long ago it was observed, in seconds.
    pub age_s: f64,
    /// Nothing was saved, and nothing of the above counts: the first flow of the
    /// subnet does not jump, and what it observes is saved for those after it.
    pub cold: bool,
}

impl Default for Saved {
    fn default() -> Self {
        Self { cwnd_bdp: 1.0, rtt_ratio: 1.0, age_s: 60.0, cold: false }
    }
}

/// Payload bytes of a full packet.
pub const PACKET_BYTES: u64 = 1350;

/// Initial window of QUIC, in packets (RFC 9002, 7.2).
pub const INITIAL_WINDOW_PACKETS: usize = 10;

/// Minimum, in packets, of figures that are given in bandwidth-delay products.
pub const PACKETS_MIN: u64 = 20;

impl Path {
    /// Returns the longest delay by jitter, in ms.
    pub fn longest_jitter_ms(&self) -> f64 {
        self.jitter_ms + self.jitter_share * self.rtt_ms
    }

    /// Returns the bandwidth-delay product, in bytes.
    pub fn bdp_bytes(&self) -> f64 {
        self.rate_mbps * 1e6 / 8.0 * self.rtt_ms / 1e3
    }
}

impl Flow {
    /// Returns the flow with an object of a size of its own.
    pub fn with_bytes(&self, bytes: u64) -> Self {
        let sized = Self { object_bytes: Some(bytes), ..self.clone() };
        Self { object_bdp: None, total_bdp: None, page: None, ..sized }
    }

    /// Returns what each of the `count` flows downloads over `path`, in bytes.
    pub fn each_bytes(&self, path: &Path) -> u64 {
        if let Some(page) = &self.page {
            return page.objects.iter().sum();
        }
        let of_bdp = |bdp: f64| (bdp * path.bdp_bytes()) as u64;
        let told = match (self.object_bytes, self.object_bdp, self.total_bdp) {
            (Some(bytes), ..) => return bytes,
            (_, Some(bdp), _) => of_bdp(bdp),
            (.., total_bdp) => of_bdp(total_bdp.unwrap_or(0.0) / f64::from(self.count.max(1))),
        };
        told.max(PACKETS_MIN * PACKET_BYTES)
    }
}

impl Scenario {
    /// Returns the scenario without what a flow with slow start does not use: scenarios that are
    /// equal then have the same outcome.
    pub fn as_simulated(&self) -> Self {
        let mut scenario = self.clone();
        for flow in scenario.flows.iter_mut().filter(|flow| flow.mode == Mode::SlowStart) {
            flow.saved = Saved::default();
            flow.after_jump = AfterJump::default();
            flow.max_jump = default::max_jump();
        }
        scenario
    }

    /// Returns how many data packets all flows need, without any loss: what a run
    /// costs.
    pub fn data_packets(&self) -> u64 {
        let packets = |flow: &Flow| flow.each_bytes(&self.path).div_ceil(PACKET_BYTES);
        self.flows.iter().map(|flow| u64::from(flow.count) * packets(flow)).sum()
    }
}

/// Defaults that are not a type's own.
mod default {
    use quiche::careful_resume::CarefulResumeConfig;
    use quiche::slow_start::SlowStartExit;

    pub fn deadline_s() -> f64 {
        600.0
    }
    pub fn buffer_bdp() -> f64 {
        1.0
    }
    pub fn gap_ms() -> f64 {
        100.0
    }
    pub fn ack_thinning() -> u32 {
        1
    }
    pub fn period_rtts() -> f64 {
        3.3
    }
    pub fn slow_start_exit() -> SlowStartExit {
        SlowStartExit::Queue
    }
    pub fn initial_window_packets() -> usize {
        super::INITIAL_WINDOW_PACKETS
    }
    pub fn max_jump() -> usize {
        CarefulResumeConfig::default().max_jump
    }
    pub fn name() -> String {
        "flow".into()
    }
    pub fn count() -> u32 {
        1
    }
}

/// A way to go on after a jump by its name, as edge-server takes it.
mod after_jump_name {
    use quiche::careful_resume::AfterJump;
    use serde::Deserialize;
    use serde::Deserializer;
    use serde::Serializer;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(after_jump: &AfterJump, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(after_jump.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<AfterJump, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// A slow-start exit by its name, as edge-server takes it.
mod exit_name {
    use quiche::slow_start::SlowStartExit;
    use serde::Deserialize;
    use serde::Deserializer;
    use serde::Serializer;

    pub fn serialize<S: Serializer>(exit: &SlowStartExit, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(exit.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SlowStartExit, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}
