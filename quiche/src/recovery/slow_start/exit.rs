//! Slow-start exits: the choice, its names, and the exit that came.

use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// What ends slow start on Reno and CUBIC, besides congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SlowStartExit {
    /// HyStart++, by a rising RTT (RFC 9406). The default.
    #[default]
    HyStart,

    /// A standing queue, found within the round trip that makes it, and
    /// confirmed by what is delivered in the next.
    Queue,

    /// As [`Queue`](Self::Queue), and until a queue shows the window triples
    /// in a round trip: Rapid Start (draft-kazuho-ccwg-rapid-start). For paths of
    /// which nothing is known; after a jump it is as `Queue`.
    Rapid,

    /// SEARCH, by what is delivered (draft-chung-ccwg-search).
    Search(SearchConfig),

    /// Nothing.
    None,
}

impl SlowStartExit {
    /// The names that [`FromStr`] takes.
    pub const NAMES: [&'static str; 6] =
        ["queue", "rapid", "hystart", "search", "search-3", "none"];

    /// The name of the method; settings of SEARCH have none.
    pub fn name(&self) -> &'static str {
        match self {
            SlowStartExit::HyStart => "hystart",
            SlowStartExit::Queue => "queue",
            SlowStartExit::Rapid => "rapid",
            SlowStartExit::Search(config) => match config.form {
                SearchForm::SentAgainstDelivered => "search",
                SearchForm::DeliveredOnly => "search-3",
            },
            SlowStartExit::None => "none",
        }
    }
}

/// No way to end slow start has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSlowStartExit(String);

impl fmt::Display for UnknownSlowStartExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = SlowStartExit::NAMES.join(", ");
        write!(f, "'{}' ends no slow start: say one of {names}", self.0)
    }
}

impl std::error::Error for UnknownSlowStartExit {}

impl FromStr for SlowStartExit {
    type Err = UnknownSlowStartExit;

    fn from_str(name: &str) -> Result<Self, UnknownSlowStartExit> {
        match name {
            "queue" => Ok(SlowStartExit::Queue),
            "rapid" => Ok(SlowStartExit::Rapid),
            "hystart" => Ok(SlowStartExit::HyStart),
            "search" => Ok(SlowStartExit::Search(SearchConfig::default())),
            "search-3" => {
                Ok(SlowStartExit::Search(SearchConfig::delivered_only()))
            },
            "none" => Ok(SlowStartExit::None),
            _ => Err(UnknownSlowStartExit(name.to_owned())),
        }
    }
}

/// What SEARCH compares the delivered bytes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchForm {
    /// The bytes sent one RTT earlier (SEARCH 4.0). At the exit the window is
    /// drained to what was delivered in one RTT.
    SentAgainstDelivered,

    /// Twice the bytes delivered one RTT earlier (SEARCH 3.x). At the exit the
    /// window is cut by what was delivered in two RTTs.
    DeliveredOnly,
}

/// The settings of SEARCH.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// What is compared.
    pub form: SearchForm,

    /// Length of the window, in RTTs; the first sample counts.
    pub window_rtts: f64,

    /// How many bins a window has.
    pub bins: u32,

    /// The share of the expected bytes that is missing when slow start ends.
    pub threshold: f64,

    /// Whether qlog has every evaluation, not only the one that ends slow
    /// start.
    pub log_evaluations: bool,
}

impl Default for SearchConfig {
    /// SEARCH 4.0, with the threshold of the one published implementation of
    /// draft-chung-ccwg-search-09.
    fn default() -> Self {
        SearchConfig {
            form: SearchForm::SentAgainstDelivered,
            window_rtts: 3.5,
            bins: 10,
            threshold: 0.26,
            log_evaluations: false,
        }
    }
}

impl SearchConfig {
    /// SEARCH 3.x, with the threshold of draft-chung-ietf-ccwg-00.
    pub fn delivered_only() -> Self {
        SearchConfig {
            form: SearchForm::DeliveredOnly,
            threshold: 0.35,
            ..Default::default()
        }
    }
}

/// Why the first slow start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStartEndReason {
    /// Packets were lost, also where HyStart++ had noticed a longer RTT.
    Loss,

    /// HyStart++ had noticed a longer RTT, and it stayed so for its rounds.
    HyStart,

    /// A queue stood, and nothing more was delivered.
    Queue,

    /// SEARCH: what is sent no longer arrives in time.
    Search,
}

impl SlowStartEndReason {
    /// The name that qlog uses.
    pub fn name(self) -> &'static str {
        match self {
            SlowStartEndReason::Loss => "loss",
            SlowStartEndReason::HyStart => "hystart",
            SlowStartEndReason::Queue => "queue",
            SlowStartEndReason::Search => "search",
        }
    }
}

/// The end of slow start, before any congestion or at the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStartEnd {
    /// When it happened.
    pub time: Instant,

    /// Why.
    pub reason: SlowStartEndReason,

    /// The congestion window before, in bytes.
    pub congestion_window: usize,

    /// The slow-start threshold from then on, in bytes.
    pub ssthresh: usize,
}

/// How far a path is from the end of its first slow start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlowStartStats {
    /// When HyStart++ first noticed a longer RTT, and entered its conservative
    /// slow start.
    pub conservative_since: Option<Instant>,

    /// The end, until slow start goes on. Reaching the ceiling of Careful Resume is
    /// none.
    pub end: Option<SlowStartEnd>,
}
