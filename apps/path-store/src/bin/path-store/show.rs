//! Output of entries and figures, as tables and as JSON.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use comfy_table::CellAlignment;
use comfy_table::Table;
use path_store::Entry;
use path_store::RecordStatus;
use path_store::ServiceMetrics;
use path_store::Size;
use serde::Serialize;

use crate::selector::Key;

const HEADER: [&str; 8] =
    ["SENDER", "CLIENT PREFIX", "DSCP", "SAVED CWND", "SAVED RTT", "AGE", "EXPIRES IN", "NOTE"];

/// An entry as a line of JSON. Sizes are in bytes, times in milliseconds, those of
/// the wall clock since 1970.
#[derive(Debug, Serialize)]
struct EntryJson<'a> {
    endpoint: &'a str,
    sender: Option<&'a str>,
    prefix: Option<&'a str>,
    dscp: Option<u8>,
    saved_cwnd: Option<u64>,
    saved_rtt_ms: Option<f64>,
    observed_ms: Option<u64>,
    expires_ms: Option<u64>,
    limited: Option<bool>,
    validated: Option<bool>,
    lease_ms: Option<u64>,
    retreats: u32,
    hold_off_ms: Option<u64>,
    condition: RecordStatus,
}

/// A change of an entry.
#[derive(Debug, Serialize)]
struct ChangeJson<'a> {
    change: &'a str,
    at_ms: u64,
    #[serde(flatten)]
    entry: EntryJson<'a>,
}

/// Figures of a whole store.
#[derive(Debug, Default, Serialize)]
pub struct Stats {
    entries: u64,

    /// Entries that have saved parameters.
    sets: u64,

    claimed: u64,
    held_off: u64,
    newer: u64,
    damaged: u64,
    youngest_s: Option<u64>,
    median_age_s: Option<u64>,
    oldest_s: Option<u64>,
    saved_cwnd_median: Option<u64>,
    saved_cwnd_max: Option<u64>,

    /// Share of reads that found a record.
    hit_rate: Option<f64>,

    /// Share of claims that were granted.
    grant_rate: Option<f64>,

    #[serde(flatten)]
    size: Size,
    totals: ServiceMetrics,

    #[serde(skip)]
    ages_s: Vec<u64>,
    #[serde(skip)]
    saved_cwnds: Vec<u64>,
}

/// Returns one line of JSON.
pub fn json(entry: &Entry) -> serde_json::Result<String> {
    serde_json::to_string(&entry_json(entry))
}

/// Returns one line of JSON for a change seen now.
pub fn change_json(change: &str, entry: &Entry) -> serde_json::Result<String> {
    let at_ms = unix_ms(quiche::clock::wall_now());
    serde_json::to_string(&ChangeJson { change, at_ms, entry: entry_json(entry) })
}

/// Returns one line of text for a change seen now.
pub fn change(change: &str, entry: &Entry, wall_now: SystemTime) -> String {
    let [sender, prefix, dscp, cwnd, rtt, _, _, note] = row(entry, wall_now);
    let at = humantime::format_rfc3339_seconds(wall_now);
    let marked = if dscp == "-" { String::new() } else { format!("#{dscp}") };
    format!("{at} {change:<9} {sender}>{prefix}{marked} {cwnd} {rtt} {note}").trim_end().to_string()
}

fn entry_json(entry: &Entry) -> EntryJson<'_> {
    let key = Key::parse(&entry.endpoint);
    let state = entry.state.as_ref();

    EntryJson {
        endpoint: &entry.endpoint,
        sender: key.as_ref().map(|key| key.sender),
        prefix: key.as_ref().map(|key| key.prefix),
        dscp: key.as_ref().and_then(|key| key.dscp),
        saved_cwnd: state.map(|state| state.saved_cwnd),
        saved_rtt_ms: state.map(|state| state.saved_rtt.as_secs_f64() * 1e3),
        observed_ms: state.map(|state| unix_ms(state.observed)),
        expires_ms: state.map(|state| unix_ms(state.expires)),
        limited: state.map(|state| state.limited),
        validated: state.map(|state| state.validated),
        lease_ms: entry.lease.map(millis),
        retreats: entry.retreats,
        hold_off_ms: entry.hold_off.map(millis),
        condition: entry.status,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn unix_ms(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns a table with one row per entry.
pub fn table(entries: &[Entry], wall_now: SystemTime) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(HEADER);
    for column in 2..HEADER.len() - 1 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(entries.iter().map(|entry| row(entry, wall_now)));

    table
}

fn row(entry: &Entry, wall_now: SystemTime) -> [String; HEADER.len()] {
    let key = Key::parse(&entry.endpoint);
    // A damaged key may hold control characters.
    let (sender, prefix) =
        key.as_ref().map_or((entry.endpoint.as_str(), "?"), |k| (k.sender, k.prefix));
    let dscp = key.as_ref().and_then(|key| key.dscp);
    let state = entry.state.as_ref();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let between =
        |from: SystemTime, to: SystemTime| coarse(to.duration_since(from).unwrap_or_default());

    [
        sender.escape_debug().to_string(),
        prefix.escape_debug().to_string(),
        or_dash(dscp.map(|dscp| dscp.to_string())),
        or_dash(state.map(|state| bytes(state.saved_cwnd))),
        or_dash(state.map(|state| format!("{:.1} ms", state.saved_rtt.as_secs_f64() * 1e3))),
        or_dash(state.map(|state| between(state.observed, wall_now))),
        or_dash(state.map(|state| between(wall_now, state.expires))),
        note(entry),
    ]
}

fn note(entry: &Entry) -> String {
    let state = entry.state.as_ref();
    let notes = [
        state.filter(|state| state.limited).map(|_| "limited".to_string()),
        state.filter(|state| state.validated).map(|_| "validated".to_string()),
        entry.lease.map(|lease| format!("claimed for {}", coarse(lease))),
        entry.hold_off.map(|left| format!("held off for {}", coarse(left))),
        (entry.retreats > 0).then(|| format!("retreats: {}", entry.retreats)),
        (entry.status == RecordStatus::Newer).then(|| "of a newer version".to_string()),
        (entry.status == RecordStatus::Damaged).then(|| "damaged".to_string()),
    ];

    notes.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Formats a time in at most two units: "59m 12s", "1day 3h".
fn coarse(time: Duration) -> String {
    let seconds = time.as_secs();
    let shown = match seconds {
        0 => return format!("{}ms", time.as_millis()),
        1..3600 => seconds,
        3600..86_400 => seconds / 60 * 60,
        _ => seconds / 3600 * 3600,
    };

    humantime::format_duration(Duration::from_secs(shown)).to_string()
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.2} MB", bytes as f64 / 1e6),
    }
}

impl Stats {
    /// Returns the figures of a store of this size, without its entries.
    pub fn new(size: Size, totals: ServiceMetrics) -> Self {
        let rate = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        Stats {
            size,
            totals,
            hit_rate: rate(totals.hits, totals.gets),
            grant_rate: rate(totals.claims_granted, totals.claims),
            ..Stats::default()
        }
    }

    /// Counts an entry.
    pub fn add(&mut self, entry: &Entry, wall_now: SystemTime) {
        self.entries += 1;
        self.sets += u64::from(entry.state.is_some());
        self.claimed += u64::from(entry.lease.is_some());
        self.held_off += u64::from(entry.hold_off.is_some());
        self.newer += u64::from(entry.status == RecordStatus::Newer);
        self.damaged += u64::from(entry.status == RecordStatus::Damaged);

        if let Some(state) = &entry.state {
            let age_s = wall_now.duration_since(state.observed).unwrap_or_default().as_secs();
            self.ages_s.push(age_s);
            self.saved_cwnds.push(state.saved_cwnd);
        }
    }

    /// Computes the figures that need all entries.
    pub fn finish(&mut self) {
        self.ages_s.sort_unstable();
        self.saved_cwnds.sort_unstable();
        let median = |sorted: &[u64]| sorted.get(sorted.len() / 2).copied();
        self.youngest_s = self.ages_s.first().copied();
        self.median_age_s = median(&self.ages_s);
        self.oldest_s = self.ages_s.last().copied();
        self.saved_cwnd_median = median(&self.saved_cwnds);
        self.saved_cwnd_max = self.saved_cwnds.last().copied();
    }

    /// Returns a table with one figure per row.
    pub fn table(&self) -> Table {
        let age = |age_s: Option<u64>| {
            age_s.map_or("-".to_string(), |age_s| coarse(Duration::from_secs(age_s)))
        };
        let rate = |rate: Option<f64>, part: u64, all: u64| match rate {
            Some(rate) => format!("{:.1} %: {part} of {all}", rate * 1e2),
            None => "-".to_string(),
        };
        let totals = &self.totals;
        let mut table = Table::new();

        table.load_preset(comfy_table::presets::NOTHING).add_rows([
            ["entries".to_string(), format!("{} of at most {}", self.entries, self.size.capacity)],
            ["records".to_string(), self.sets.to_string()],
            ["claimed".to_string(), self.claimed.to_string()],
            ["held off".to_string(), self.held_off.to_string()],
            ["of a newer version".to_string(), self.newer.to_string()],
            ["damaged".to_string(), self.damaged.to_string()],
            ["youngest record".to_string(), age(self.youngest_s)],
            ["median age".to_string(), age(self.median_age_s)],
            ["oldest record".to_string(), age(self.oldest_s)],
            ["median saved_cwnd".to_string(), self.saved_cwnd_median.map_or("-".into(), bytes)],
            ["largest saved_cwnd".to_string(), self.saved_cwnd_max.map_or("-".into(), bytes)],
            ["size of the store".to_string(), bytes(self.size.bytes)],
            ["reads with an entry".to_string(), rate(self.hit_rate, totals.hits, totals.gets)],
            [
                "claims granted".to_string(),
                rate(self.grant_rate, totals.claims_granted, totals.claims),
            ],
            ["recorded".to_string(), totals.records.to_string()],
            ["forgotten".to_string(), totals.forgets.to_string()],
            ["dropped".to_string(), (totals.dropped + totals.dropped_ends).to_string()],
            ["failed".to_string(), totals.failed.to_string()],
        ]);

        table
    }
}
