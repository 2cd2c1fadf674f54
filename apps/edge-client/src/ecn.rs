//! ECN of connections, for reports: whether their paths carry marks, and marks that they have seen.

use quiche::ecn::EcnState;
use quiche::ecn::EcnStats;
use quiche::ecn::Marks;
use serde::Serialize;

/// ECN of a connection, as JSON.
#[derive(Debug, PartialEq, Serialize)]
pub struct EcnJson {
    /// State of the path; null if the client does not mark, or has not connected.
    state: Option<&'static str>,

    #[serde(flatten)]
    counts: CountsJson,
}

/// ECN of several connections, as JSON.
#[derive(Debug, PartialEq, Serialize)]
pub struct EcnSumJson {
    /// Connections whose path carries marks.
    capable: u64,

    #[serde(flatten)]
    counts: CountsJson,
}

/// Numbers of packets: sent with marks, received by their mark, and sent by the mark that the server
/// reports.
#[derive(Debug, PartialEq, Serialize)]
struct CountsJson {
    sent: u64,
    received: MarksJson,
    reported: MarksJson,
}

#[derive(Debug, PartialEq, Serialize)]
struct MarksJson {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

/// Sum over connections.
#[derive(Debug, Default)]
pub struct EcnSum {
    capable: u64,
    stats: EcnStats,
}

impl EcnSum {
    /// Adds a connection.
    pub fn add(&mut self, connection: &EcnStats) {
        self.capable += u64::from(connection.state == Some(EcnState::Capable));
        self.stats = EcnStats {
            state: None,
            sent: self.stats.sent + connection.sent,
            received: self.stats.received + connection.received,
            reported: self.stats.reported + connection.reported,
        };
    }

    pub fn json(&self) -> EcnSumJson {
        EcnSumJson { capable: self.capable, counts: CountsJson::new(&self.stats) }
    }
}

impl EcnJson {
    pub fn new(stats: &EcnStats) -> Self {
        Self { state: stats.state.map(EcnState::name), counts: CountsJson::new(stats) }
    }
}

impl CountsJson {
    fn new(stats: &EcnStats) -> Self {
        Self {
            sent: stats.sent,
            received: MarksJson::new(stats.received),
            reported: MarksJson::new(stats.reported),
        }
    }
}

impl MarksJson {
    fn new(marks: Marks) -> Self {
        let Marks { ect0, ect1, ce } = marks;
        Self { ect0, ect1, ce }
    }
}
