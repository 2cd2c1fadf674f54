//! L4S beside classic flows: DualPI2, and CoDel as the single queue of both (RFC 9331, A.1).

use std::collections::BTreeMap;

use report::page::note;

use super::fairness::harm_rule_of;
use super::fairness::percent;
use super::fairness::Harm;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;

const SHARE: &str = "share-";
const CODEL: &str = "codel-";
const CLASSIC: &str = "-classic";
const JUMP: &str = "jump-";

/// Fewer runs say little of a mean.
const RUNS_MIN: usize = 20;

/// Share of a flow of L4S over that of a classic one.
const RATIO_MAX: f64 = 2.0;
const RATIO_MIN: f64 = 0.5;

/// Share of a classic flow beside one of L4S, over that beside a classic one.
const CLASSIC_LEFT_MIN: f64 = 0.5;

/// The longest wait of packets of L4S, but for the slowest links.
const WAIT_MS_MAX: f64 = 2.0;

/// Packets of background flows of L4S marked more, in %.
const MORE_MARKED_PERCENT: f64 = 1.0;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let dual = cells(chapter, SHARE);
    let single = singles(chapter);
    let jumps = jumps(chapter);
    let mut html = page::heading("Shares over DualPI2");
    let heads = ["link", "L4S / classic", "used", "99th percentile of the wait of L4S"];
    html += &page::table(&heads, &dual.iter().map(|cell| share_row(cell)).collect::<Vec<_>>());
    html += &page::heading("Shares over CoDel");
    let heads = ["link", "classic beside L4S", "beside classic ECN", "left"];
    html += &page::table(&heads, &single.iter().map(single_row).collect::<Vec<_>>());
    html += &page::heading("Jumps over DualPI2");
    let heads =
        ["background", "its packets lost more", "lost or marked more", "jumps", "the flow lost"];
    html += &page::table(&heads, &jumps.iter().map(jump_row).collect::<Vec<_>>());
    html += &note(
        "Means over all runs, with 95 % intervals. Used: what both flows got \
         of the link's rate. Left: the classic flow's share beside a flow of L4S over that beside one \
         with classic ECN.",
    );
    Ok(Findings { html, verdicts: verdicts(&dual, &single, &jumps), ..Findings::default() })
}

fn verdicts(dual: &[&Cell], single: &[Single], jumps: &[Harm]) -> Vec<Verdict> {
    let ratios =
        || dual.iter().map(|cell| Figure::new(cell.parameter("case"), ratio(cell))).collect();
    let left = |single: &Single| Figure::new(single.who(), single.left());
    let name = "dual-queue";
    let mut verdicts = vec![
        Verdict::at_most(
            &format!("{name}: a flow of L4S has at most 2 times the share of a classic one"),
            RATIO_MAX,
            (2, " times"),
            ratios(),
        ),
        Verdict::at_least(
            &format!("{name}: a flow of L4S has at least 0.5 of the share of a classic one"),
            RATIO_MIN,
            (2, " times"),
            ratios(),
        ),
        Verdict::at_least(
            &format!("{name}: beside L4S over CoDel, a classic flow has at least 0.5 of its share"),
            CLASSIC_LEFT_MIN,
            (2, " times"),
            single.iter().map(left).collect(),
        ),
        waits(name, dual),
    ];
    verdicts.extend(jump_verdicts(name, jumps));
    verdicts
}

fn waits(name: &str, dual: &[&Cell]) -> Verdict {
    // What a wait exceeds two packets at the link's rate by counts as a wait above 2 ms.
    let figure = |cell: &&Cell| {
        let packets_ms = 2.0 * 1378.0 * 8.0 / (cell.named.scenario.path.rate_mbps * 1e3);
        let allowance_ms = (packets_ms - WAIT_MS_MAX).max(0.0);
        Figure::new(cell.parameter("case"), wait_ms(cell).map(|ms| ms - allowance_ms))
    };
    let rule = format!("{name}: packets of L4S wait at most 2 ms (99th percentile)");
    Verdict::at_most(&rule, WAIT_MS_MAX, (2, " ms"), dual.iter().map(figure).collect())
}

fn is_idle(harm: &&Harm) -> bool {
    harm.who == "idle"
}

fn jump_verdicts(name: &str, jumps: &[Harm]) -> Vec<Verdict> {
    let most_lost = |harm: &Harm| {
        let lost = harm.careful.judged(|flow| flow.lost_packets);
        let jumped = harm.careful.judged(|flow| flow.jump_cwnd_bytes.is_some());
        // Beside others, a mark may end Careful Resume before the jump.
        let counts = !is_idle(&harm) || !jumped.contains(&false);
        let lost = lost.into_iter().max().filter(|_| counts);
        Figure::exact(harm.who.clone(), lost.map_or(f64::NAN, |lost| lost as f64))
    };
    let lossless = Verdict::at_most(
        &format!("{name}: a flow with Careful Resume jumps on an idle link, and loses nothing"),
        0.0,
        (0, " packets"),
        jumps.iter().map(most_lost).collect(),
    );
    let is_l4s = |harm: &&Harm| harm.who == "l4s";
    let has_classic = |harm: &&Harm| !is_l4s(harm) && !is_idle(harm);
    let classic: Vec<&Harm> = jumps.iter().filter(has_classic).collect();
    let l4s: Vec<&Harm> = jumps.iter().filter(is_l4s).collect();
    let lost_or_marked = FlowOutcome::lost_or_marked;
    let lost = |flow: &FlowOutcome| flow.lost_packets;
    let marked = |harm: &&Harm| Figure::new(harm.who.clone(), harm.more_percent(lost_or_marked));
    let marks = Verdict::at_most(
        &format!("{name}: background flows of L4S get at most 1 % of their packets marked more"),
        MORE_MARKED_PERCENT,
        (3, " %"),
        l4s.iter().map(marked).collect(),
    );
    vec![
        lossless,
        harm_rule_of(name, &classic, lost_or_marked, RUNS_MIN),
        harm_rule_of(&format!("{name}, L4S"), &l4s, lost, RUNS_MIN),
        marks,
    ]
}

/// A link with CoDel: a classic flow beside one of L4S, and beside another classic one.
struct Single<'a> {
    l4s: &'a Cell<'a>,
    classic: &'a Cell<'a>,
}

impl Single<'_> {
    fn who(&self) -> String {
        self.l4s.parameter("case")
    }

    /// Returns what is left of the classic flow's share.
    fn left(&self) -> Interval {
        let beside_classic: BTreeMap<u64, f64> =
            self.classic.runs.iter().map(|run| (run.seed, classic_share(run))).collect();
        let pair = |run: &&Outcome| Some((classic_share(run), *beside_classic.get(&run.seed)?));
        Interval::ratio_of_means(&self.l4s.runs.iter().filter_map(pair).collect::<Vec<_>>())
    }
}

fn cells<'a>(chapter: &'a Chapter, prefix: &str) -> Vec<&'a Cell<'a>> {
    let is_of = |cell: &&Cell| cell.parameter("case").starts_with(prefix);
    chapter.cells.iter().filter(is_of).collect()
}

fn singles<'a>(chapter: &'a Chapter) -> Vec<Single<'a>> {
    let all = cells(chapter, CODEL);
    let single = |l4s: &&'a Cell<'a>| {
        let name = l4s.parameter("case") + CLASSIC;
        let classic = all.iter().find(|cell| cell.parameter("case") == name)?;
        Some(Single { l4s, classic })
    };
    all.iter().filter_map(single).collect()
}

fn jumps<'a>(chapter: &'a Chapter) -> Vec<Harm<'a>> {
    let all = cells(chapter, JUMP);
    let harm = |careful: &&'a Cell<'a>| {
        let case = careful.parameter("case");
        let who = case.strip_prefix(JUMP)?.strip_suffix("-careful-resume")?;
        let slow = format!("{JUMP}{who}-slow-start");
        let slow = all.iter().find(|cell| cell.parameter("case") == slow)?;
        Some(Harm { who: who.to_owned(), slow, careful })
    };
    all.iter().filter_map(harm).collect()
}

fn share_bytes(run: &Outcome, flow: usize) -> f64 {
    run.flows[flow].share_bytes.map_or(f64::NAN, |bytes| bytes as f64)
}

/// Returns the share of the second flow, the classic one.
fn classic_share(run: &Outcome) -> f64 {
    share_bytes(run, 1) / (share_bytes(run, 0) + share_bytes(run, 1))
}

fn mean_of(cell: &Cell, figure: impl Fn(&Outcome) -> f64) -> Interval {
    Interval::mean(&cell.runs.iter().map(|run| figure(run)).collect::<Vec<_>>())
}

fn ratio(cell: &Cell) -> Interval {
    let shares = cell.runs.iter().map(|run| (share_bytes(run, 0), share_bytes(run, 1)));
    Interval::ratio_of_means(&shares.collect::<Vec<_>>())
}

fn wait_ms(cell: &Cell) -> Interval {
    mean_of(cell, |run| run.l4s_wait_p99_ms.unwrap_or(f64::NAN))
}

/// Returns what both flows got of the link's rate while shares were measured.
fn used(cell: &Cell) -> Interval {
    let from_ms = cell.named.scenario.flows[0].share_from_ms.unwrap_or(f64::NAN);
    mean_of(cell, |run| {
        let ends = run.flows.iter().map(|flow| flow.start_ms + flow.ttlb_ms);
        let lasted_ms = ends.fold(f64::INFINITY, f64::min) - from_ms;
        (share_bytes(run, 0) + share_bytes(run, 1)) * 8e-3 / lasted_ms / run.rate_mbps
    })
}

fn text(interval: Interval) -> String {
    page::interval(interval, 2)
}

fn share_row(cell: &Cell) -> Vec<String> {
    let case = cell.parameter("case").replace(SHARE, "");
    vec![case, text(ratio(cell)), text(used(cell)), format!("{} ms", text(wait_ms(cell)))]
}

fn single_row(single: &Single) -> Vec<String> {
    let share = |cell| text(mean_of(cell, classic_share));
    let who = single.who().replace(CODEL, "");
    vec![who, share(single.l4s), share(single.classic), text(single.left())]
}

fn jump_row(harm: &Harm) -> Vec<String> {
    let lost = harm.careful.judged(|flow| flow.lost_packets).into_iter().max().unwrap_or(0);
    let jumped = harm.careful.judged(|flow| flow.jump_cwnd_bytes.is_some());
    let jumps = jumped.iter().filter(|jumped| **jumped).count();
    let more = |figure| match is_idle(&harm) {
        true => "–".to_owned(),
        false => percent(harm.more_percent(figure)),
    };
    vec![
        harm.who.clone(),
        more(|flow| flow.lost_packets),
        more(FlowOutcome::lost_or_marked),
        format!("{jumps} of {}", jumped.len()),
        format!("{lost} packets"),
    ]
}
