//! Speed-up of BDP-sized objects over rates and round-trip times: P9.

use report::chart::heat;
use report::chart::Heat;
use report::page::figure;
use report::page::note;

use super::gains::slower_nowhere;
use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::rules::loses_no_more;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;

/// Factor by which the speed-up may fall where the path holds more: a
/// round trip more or less at the end of slow start.
const FALL: f64 = 0.9;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let speed_up = |p: &Pair| p.ratio().map(|ratio| 1.0 / ratio);
    let bound = |p: &Pair| 1.0 / p.bound_ratio();

    let all: Vec<Interval> = pairs.iter().map(speed_up).collect();
    let ours = page::range_of(&all, 2);
    let mut html = page::paragraph(&format!(
        "The speed-up, t(slow start) / t(Careful Resume), is {ours}: the more round trips slow start \
         needs to fill the path, the more there is to gain."
    ));
    html += &figure(
        "Speed-up of an object of one BDP, t(slow start) / t(Careful Resume), with 95 % intervals. \
         Published (P9): above 1, and larger where the path holds more.",
        &heat(&map(&pairs, speed_up))?,
    );
    html += &figure(
        "The same by the fluid bounds: what an ideal sender of each kind would gain.",
        &heat(&map(&pairs, |pair| Interval::exact(bound(pair))))?,
    );
    html += &note(
        "Paths of less than 20 \
         packets have objects and buffers of 20 packets. The jump is never above 8 MiB, which limits \
         the gain where the path holds more than twice as much: there a bound takes the path for full \
         after the jump, and is too low.",
    );
    let published = Published::new(
        "P9, speed-up of BDP-sized objects, 1 Mbit/s to 1 Gbit/s x 5 to 800 ms",
        "above 1, larger BDP gains more",
        ours,
        page::range(pairs.iter().map(bound), 2),
    );
    let (jumping, others): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|pair| {
        let jumps = pair.careful.judged(|flow| flow.jump_cwnd_bytes.is_some());
        jumps.contains(&true)
    });
    let where_it_jumps = format!(
        "where it jumps, on {} of {} paths: the other {} hold too few initial windows for a jump, and take \
         the same time. How the speed-up grows is judged by a rule. P9 is a plot without figures.",
        jumping.len(),
        pairs.len(),
        others.len()
    );
    let yes = format!("Every interval is above 1 {where_it_jumps}");
    let no = format!("Not every interval is above 1 {where_it_jumps}");
    let is_above = |pair: &&Pair| speed_up(pair).low > 1.0;
    let published = published.judged(jumping.iter().all(is_above), [&yes, &no]);
    let rule = "grid: Careful Resume is slower nowhere by more than 1 %";
    let mut verdicts = vec![slower_nowhere(rule, 1.01, &pairs)];
    verdicts.push(falls(&pairs));
    verdicts.push(loses_no_more("grid", &pairs.iter().collect::<Vec<_>>()));
    Ok(Findings { html, published: vec![published], verdicts })
}

fn map(pairs: &[Pair], value: impl Fn(&Pair) -> Interval) -> Heat {
    let rates = distinct(pairs.iter().map(Pair::rate_mbps));
    let rtts = distinct(pairs.iter().map(Pair::rtt_ms));
    let cell = |rtt: f64, rate: f64| {
        pairs.iter().find(|p| (p.rate_mbps(), p.rtt_ms()) == (rate, rtt)).map(&value)
    };
    let all: Vec<Vec<_>> =
        rtts.iter().map(|&rtt| rates.iter().map(|&rate| cell(rtt, rate)).collect()).collect();
    Heat {
        x_title: "rate (Mbit/s)".into(),
        columns: rates.iter().map(f64::to_string).collect(),
        y_title: "RTT (ms)".into(),
        rows: rtts.iter().map(f64::to_string).collect(),
        cells: page::values(&all),
        intervals: page::all_ends(&all),
        digits: 2,
    }
}

/// Returns the speed-up of one pair over that of another, from the same draws of seeds for both.
fn over(next: &Pair, pair: &Pair) -> Interval {
    let times = |p: &Pair| p.by_seed(|flow| flow.ttlb_ms);
    let (next, pair) = (times(next), times(pair));
    Interval::of(next.len().min(pair.len()), |drawn| {
        let sum = |all: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
            drawn.iter().map(|run| of(&all[*run])).sum::<f64>()
        };
        let speed_up = |all: &[(f64, f64)]| sum(all, |times| times.1) / sum(all, |times| times.0);
        speed_up(&next) / speed_up(&pair)
    })
}

/// Checks that a path with the next larger BDP, at the same RTT, gains little less at most.
fn falls(pairs: &[Pair]) -> Verdict {
    let mut figures = Vec::new();
    for pair in pairs {
        let next = pairs
            .iter()
            .filter(|p| p.rtt_ms() == pair.rtt_ms() && p.rate_mbps() > pair.rate_mbps())
            .min_by(|a, b| a.rate_mbps().total_cmp(&b.rate_mbps()));
        if let Some(next) = next.filter(|p| !p.is_jump_limited()) {
            let who = format!("{} after {}", next.careful.label(), pair.careful.label());
            figures.push(Figure::new(who, over(next, pair)));
        }
    }
    let rule = "grid: the speed-up does not fall by more than 10 % as the path holds more, while max_jump allows";
    Verdict::at_least(rule, FALL, (2, ""), figures)
}
