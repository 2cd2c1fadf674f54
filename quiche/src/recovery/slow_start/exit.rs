//! Slow-start exits: the choice, its names, and the statistics.

use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// Exit from slow start of Reno and CUBIC, besides congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SlowStartExit {
    /// HyStart++, by a rising RTT (RFC 9406). The default.
    #[default]
    HyStart,

    /// A standing queue, which shows within the round trip that makes it, and
    /// is confirmed in the next.
    Queue,

    /// As [`Queue`](Self::Queue), and the window triples in a round trip until
    /// a queue shows: Rapid Start (draft-kazuho-ccwg-rapid-start). For unknown
    /// paths; after a jump it is as `Queue`.
    Rapid,

    /// SEARCH, by the bytes delivered (draft-chung-ccwg-search).
    Search(SearchConfig),

    /// Loss alone.
    None,
}

impl SlowStartExit {
    /// The names that [`FromStr`] accepts.
    pub const NAMES: [&'static str; 6] =
        ["queue", "rapid", "hystart", "search", "search-3", "none"];

    /// Returns the name of the method; the settings of SEARCH have none.
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

/// Error: no [`SlowStartExit`] has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSlowStartExit(String);

impl fmt::Display for UnknownSlowStartExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = SlowStartExit::NAMES.join(", ");
        write!(f, "must be one of {names}, not '{}'", self.0)
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

/// The bytes that SEARCH compares with those delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchForm {
    /// The bytes sent one RTT earlier (SEARCH 4.0). At the exit the window is
    /// drained to what was delivered in one RTT.
    SentAgainstDelivered,

    /// Twice the bytes delivered one RTT earlier (SEARCH 3.x). At the exit the
    /// window is cut by what was delivered in two RTTs.
    DeliveredOnly,
}

/// Settings of SEARCH.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// The comparison.
    pub form: SearchForm,

    /// Length of the window, in RTTs; the first sample counts.
    pub window_rtts: f64,

    /// Number of bins in a window.
    pub bins: u32,

    /// The missing share of the expected bytes at which slow start ends.
    pub threshold: f64,

    /// Whether qlog has every evaluation, or only the one that ends slow start.
    pub log_evaluations: bool,
}

impl Default for SearchConfig {
    /// Returns SEARCH 4.0, with the threshold of the published implementation
    /// of draft-chung-ccwg-search-09.
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
    /// Returns SEARCH 3.x, with the threshold of draft-chung-ietf-ccwg-00.
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
    /// Packets were lost, perhaps after HyStart++ had noticed a longer RTT.
    Loss,

    /// HyStart++ noticed a longer RTT, which stayed longer for its rounds.
    HyStart,

    /// A queue stood, and no more was delivered.
    Queue,

    /// SEARCH: the bytes delivered no longer follow those sent.
    Search,
}

impl SlowStartEndReason {
    /// Returns the name in qlog.
    pub fn name(self) -> &'static str {
        match self {
            SlowStartEndReason::Loss => "loss",
            SlowStartEndReason::HyStart => "hystart",
            SlowStartEndReason::Queue => "queue",
            SlowStartEndReason::Search => "search",
        }
    }
}

/// End of slow start, at or before the first congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStartEnd {
    /// The time of the end.
    pub time: Instant,

    /// The reason.
    pub reason: SlowStartEndReason,

    /// The congestion window before, in bytes.
    pub congestion_window: usize,

    /// The slow-start threshold from then on, in bytes.
    pub ssthresh: usize,
}

/// Statistics of the first slow start of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlowStartStats {
    /// When HyStart++ first noticed a longer RTT, and entered its conservative
    /// slow start.
    pub conservative_since: Option<Instant>,

    /// The end; None again if slow start goes on. Reaching the ceiling of
    /// Careful Resume is no end.
    pub end: Option<SlowStartEnd>,
}
