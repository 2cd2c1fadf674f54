//! Search for conditions that give the published medians: P5 to P7.

use report::page::note;
use report::stats::median;

use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;

/// Case, name, and the published medians in seconds: slow start, Careful Resume.
const MEDIANS: [(&str, &str, f64, f64); 3] = [
    ("GEO", "P5, GEO", 19.3, 12.3),
    ("LEO", "P6, LEO", 2.7, 1.7),
    ("terrestrial", "P7, terrestrial", 1.4, 1.1),
];

/// Both medians have to be this close to the published ones, as a part of them.
const CLOSE: f64 = 0.10;

/// Conditions shown of each case.
const SHOWN: usize = 5;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut findings = Findings::default();
    for (case, name, slow_s, careful_s) in MEDIANS {
        let mut of_case: Vec<(f64, &Pair)> = pairs
            .iter()
            .filter(|p| p.careful.parameter("case") == case)
            .map(|p| (miss(p, slow_s, careful_s), p))
            .collect();
        of_case.sort_by(|a, b| a.0.total_cmp(&b.0));
        let medians = format!("{slow_s} s → {careful_s} s ({:.2})", careful_s / slow_s);
        findings.html += &page::heading(&format!("{name}: {medians}"));
        let rows: Vec<Vec<String>> =
            of_case.iter().take(SHOWN).map(|(miss, p)| row(*miss, p, &medians)).collect();
        findings.html += &page::table(&HEADS, &rows);

        let found = of_case.first();
        findings.verdicts.push(verdict(name, found, (slow_s, careful_s)));
        let row = Published::new(
            &format!("{name}: median times, slow start → Careful Resume, of fitted conditions"),
            &medians,
            found.map_or("–".into(), |(_, p)| format!("{} with {}", times(p), conditions(p))),
            found.map_or("–".into(), |(_, p)| bounds(p)),
        );
        let holds = |(_, p): &(f64, &Pair)| {
            let (slow, careful) = median_times(p);
            slow.holds(slow_s * 1e3) && careful.holds(careful_s * 1e3)
        };
        findings.published.push(row.judged(
            found.is_some_and(holds),
            [
                "Both published medians lie in our intervals, by construction: rate, size, jitter and \
                 loss are fitted to them, as the published ones are not known.",
                "The closest of the fitted conditions give medians near the published ones, whose \
                 intervals do not hold both: the published rates, sizes and losses are not known.",
            ],
        ));
    }
    findings.html += &note(
        "The closest first; off is the greater of both medians' deviations. Times are medians, and \
         ratios those of medians, with 95 % intervals. Rates, sizes, jitter and loss are those searched: the published ones are not known.",
    );
    Ok(findings)
}

const HEADS: [&str; 7] = [
    "conditions",
    "published",
    "ours, slow start → Careful Resume",
    "fluid bound",
    "off",
    "RTTs saved",
    "runs",
];

/// Returns the greater deviation of both medians, as a part of the published ones.
fn miss(pair: &Pair, slow_s: f64, careful_s: f64) -> f64 {
    let off = |ms: f64, published_s: f64| (ms / 1000.0 / published_s - 1.0).abs();
    let (slow, careful) = median_times(pair);
    off(slow.value, slow_s).max(off(careful.value, careful_s))
}

/// Returns the median times with slow start and with Careful Resume, in ms.
fn median_times(pair: &Pair) -> (Interval, Interval) {
    let of = |cell: &Cell| Interval::median(&cell.judged(|flow| flow.ttlb_ms));
    (of(pair.slow), of(pair.careful))
}

/// Returns [`miss`] with its interval, in %.
fn miss_percent(pair: &Pair, slow_s: f64, careful_s: f64) -> Interval {
    let times = pair.by_seed(|flow| flow.ttlb_ms);
    Interval::of(times.len(), |drawn| {
        let off = |of: fn(&(f64, f64)) -> f64, published_s: f64| {
            let ms = median(drawn.iter().map(|run| of(&times[*run]))).unwrap_or(f64::NAN);
            (ms / 1000.0 / published_s - 1.0).abs() * 100.0
        };
        off(|pair| pair.1, slow_s).max(off(|pair| pair.0, careful_s))
    })
}

fn verdict(name: &str, found: Option<&(f64, &Pair)>, medians: (f64, f64)) -> Verdict {
    let (slow_s, careful_s) = medians;
    let figure = |p: &Pair| Figure::new(conditions(p), miss_percent(p, slow_s, careful_s));
    let figures = found.map(|(_, p)| figure(p));
    let rule = format!("{name}: conditions are found whose medians are both within 10 %");
    Verdict::at_most(&rule, CLOSE * 100.0, (1, " % off"), figures.into_iter().collect())
}

fn conditions(pair: &Pair) -> String {
    let path = &pair.careful.named.scenario.path;
    let mut said = format!(
        "{} Mbit/s, {} ms, {} MB",
        path.rate_mbps,
        path.rtt_ms,
        pair.object_bytes() as f64 / 1e6
    );
    for (name, value, unit) in
        [("jitter", path.jitter_ms, " ms"), ("loss", path.loss * 100.0, " %")]
    {
        if value > 0.0 {
            said += &format!(", {name} {value}{unit}");
        }
    }
    said
}

fn times(pair: &Pair) -> String {
    let time = |ms: Interval| {
        format!("{} ({} to {})", page::time(ms.value), page::time(ms.low), page::time(ms.high))
    };
    let (slow, careful) = median_times(pair);
    let ratio = Interval::ratio_of_medians(&pair.by_seed(|flow| flow.ttlb_ms));
    format!("{} → {}, ratio {}", time(slow), time(careful), page::interval(ratio, 2))
}

fn bounds(pair: &Pair) -> String {
    let (slow, careful) = (page::time(pair.slow.bound_ms()), page::time(pair.careful.bound_ms()));
    format!("{slow} → {careful} ({:.2})", pair.bound_ratio())
}

fn row(miss: f64, pair: &Pair, medians: &str) -> Vec<String> {
    vec![
        conditions(pair),
        medians.into(),
        times(pair),
        bounds(pair),
        format!("{:.0} %", miss * 100.0),
        page::interval(pair.saved_rtts(), 1),
        pair.careful.runs.len().to_string(),
    ]
}
