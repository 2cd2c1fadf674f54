//! Random paths: losses, and the time that downloads take.

use quiche::careful_resume::CarefulResumeConfig;
use report::bound::INITIAL_WINDOW_BYTES;
use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;
use report::page::note;
use report::stats::mean;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::Outcome;
use crate::scenario::Controller;
use crate::scenario::Mode;
use crate::scenario::PACKET_BYTES;

/// Limits on paths of one kind.
pub struct Limits {
    /// In rules and aims.
    pub name: &'static str,
    /// Mean loss with Careful Resume, in BDP.
    pub careful_lost_bdp: f64,
}

pub const STEADY: Limits = Limits { name: "random paths, steady", careful_lost_bdp: 0.08 };
pub const JITTERY: Limits = Limits { name: "random paths, jittery", careful_lost_bdp: 0.06 };

/// Fewer paths than this show nothing.
const PATHS_MIN: usize = 300;

/// Limits on slow start: mean loss in BDP, and ratio of times.
const SLOW_LOST_BDP: f64 = 0.25;
const SLOW_RATIO: f64 = 1.03;

/// Limits on the time with Careful Resume: in the mean, where nearly all that the path
/// holds was saved, beside growth after the jump that nothing restrains, and in any run.
const CAREFUL_RATIO: f64 = 0.74;
const CAREFUL_RATIO_KNOWN: f64 = 0.67;
const OF_UNRESTRAINED: f64 = 1.05;
const CAREFUL_RATIO_MAX: f64 = 1.4;
const KNOWN_BDP: f64 = 0.85;

/// In how many runs, in %, it may lose more than slow start with HyStart++ by this much, in BDP.
const MORE_LOST_BDP: f64 = 0.05;
const MORE_LOST_PERCENT: f64 = 2.0;

/// Lower ends of the ranges of saved_cwnd that are shown, in BDP.
const SAVED_BDP: [f64; 6] = [0.25, 0.4, 0.55, 0.7, 0.85, 0.95];

/// Start of a connection, its name, and the place of its cells.
const STARTS: [(&str, &str, Mode); 4] = [
    ("slow start, HyStart++", "hystart", Mode::SlowStart),
    ("slow start", "default", Mode::SlowStart),
    ("Careful Resume", "default", Mode::CarefulResume),
    ("Careful Resume, unrestrained", "hystart", Mode::CarefulResume),
];
const HYSTART: usize = 0;
const SLOW: usize = 1;
const CAREFUL: usize = 2;
const UNRESTRAINED: usize = 3;

/// One path, one controller: a cell for each of [`STARTS`] that was run.
struct Drawn<'a> {
    cells: [Option<&'a Cell<'a>>; STARTS.len()],
    of: &'a Cell<'a>,
}

/// A run beside the same with slow start and HyStart++.
#[derive(Clone, Copy)]
struct Judged<'a> {
    drawn: &'a Drawn<'a>,
    ratio: f64,
    /// To Careful Resume that is unrestrained, where that was run.
    ratio_to_unrestrained: Option<f64>,
    lost_bdp: f64,
    more_lost_bdp: f64,
}

pub fn findings(chapter: &Chapter, limits: &Limits) -> anyhow::Result<Findings> {
    let all = drawn(chapter);
    let mut html = String::new();
    let mut rows = Vec::new();
    for cc in distinct(all.iter().map(Drawn::controller)) {
        let of_cc: Vec<&Drawn> = all.iter().filter(|d| d.controller() == cc).collect();
        let cc = controller_name(cc);
        let caption = format!(
            "{cc}: packets lost in all, in BDP, by what was saved; means over paths, with 95 % intervals."
        );
        html += &figure(&caption, &lines(&chart(&of_cc, "packets lost, BDP", lost, None))?);
        let level = Some((1.0, "slow start, HyStart++".into()));
        let caption = format!(
            "{cc}: time over that of slow start with HyStart++ on the same path, by what was saved; \
             geometric means over paths, with 95 % intervals."
        );
        let chart = chart(&of_cc, "time / slow start's, HyStart++", ratio, level);
        html += &figure(&caption, &lines(&chart)?);
        rows.extend((0..STARTS.len()).filter_map(|start| row(&of_cc, start)));
        rows.push(bound_row(&of_cc));
    }
    let heads = [
        "controller, start",
        "runs",
        "lost, BDP",
        "buffer of a BDP: lost, BDP",
        "runs that lose",
        "time, ratio",
        "0.85 BDP saved or more",
        "slowest",
        "loses more by 0.05 BDP",
    ];
    html += &page::table(&heads, &rows);
    html += &note(
        "Times are geometric means of ratios to slow start with HyStart++ on the same path; intervals \
         are of paths drawn again. Rules judge each range of saved_cwnd by itself. Unrestrained: grows after its \
         jump as if it had not jumped. The bound is the time of an ideal sender on the path at \
         its best, which jumps to half of what was saved and fills the path a round trip later.",
    );
    Ok(Findings { html, verdicts: verdicts(&all, limits), ..Findings::default() })
}

fn drawn<'a>(chapter: &'a Chapter) -> Vec<Drawn<'a>> {
    let place = |c: &Cell| (c.parameter("draw"), c.parameter("flow.cc"));
    let of = |group: Vec<&'a Cell<'a>>| {
        let cells = STARTS.map(|(_, case, mode)| {
            let is = |c: &&&Cell| c.parameter("case") == case && c.mode() == Some(mode);
            group.iter().find(is).copied()
        });
        Some(Drawn { of: cells[0]?, cells })
    };
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in chapter.cells.iter().filter(|c| is_worth_a_jump(c)) {
        // A draw's cells follow each other.
        match groups.iter_mut().rev().take(2).find(|group| place(group[0]) == place(cell)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups.into_iter().filter_map(of).collect()
}

/// Returns whether what was saved may be used at all (RFC 9959, 3.2).
fn is_worth_a_jump(cell: &Cell) -> bool {
    let windows = CarefulResumeConfig::default().min_initial_windows as f64;
    saved_bdp(cell) * cell.named.scenario.path.bdp_bytes() >= windows * INITIAL_WINDOW_BYTES
}

fn saved_bdp(cell: &Cell) -> f64 {
    cell.named.scenario.flows[0].saved.cwnd_bdp
}

impl Drawn<'_> {
    fn controller(&self) -> Controller {
        self.of.named.scenario.flows[0].cc
    }

    fn label(&self) -> String {
        format!("draw {}, {}", self.of.parameter("draw"), controller_name(self.controller()))
    }

    fn lost_bdp(&self, run: &Outcome) -> f64 {
        let packets = self.of.named.scenario.path.bdp_bytes() / PACKET_BYTES as f64;
        run.flows[0].dropped_packets as f64 / packets
    }

    /// Returns the runs of a start that exist in each of those they are compared with.
    fn runs(&self, start: usize) -> Vec<Judged<'_>> {
        let of = |start: usize| self.cells[start].map_or(&[][..], |cell| &cell.runs);
        let same = |start, seed| of(start).iter().find(|run: &&&Outcome| run.seed == seed);
        let judged = |run: &&Outcome| {
            let hystart = same(HYSTART, run.seed)?;
            let ratio_to = |other: &&Outcome| run.flows[0].ttlb_ms / other.flows[0].ttlb_ms;
            Some(Judged {
                drawn: self,
                ratio: ratio_to(hystart),
                ratio_to_unrestrained: same(UNRESTRAINED, run.seed).map(ratio_to),
                lost_bdp: self.lost_bdp(run),
                more_lost_bdp: self.lost_bdp(run) - self.lost_bdp(hystart),
            })
        };
        of(start).iter().filter_map(judged).collect()
    }
}

/// Returns a mean over paths, each of which counts once, by the mean of its seeds; none of
/// nothing.
fn mean_over(runs: &[Judged], figure: impl Fn(&Judged) -> f64) -> Option<Interval> {
    let of_path = |seeds: &[Judged]| seeds.iter().map(&figure).sum::<f64>() / seeds.len() as f64;
    let paths = runs.chunk_by(|a, b| std::ptr::eq(a.drawn, b.drawn)).map(of_path);
    let paths: Vec<f64> = paths.collect();
    (!paths.is_empty()).then(|| Interval::mean(&paths))
}

/// Returns the mean of packets lost, in BDP.
fn lost(runs: &[Judged]) -> Option<Interval> {
    mean_over(runs, |run| run.lost_bdp)
}

/// Returns the ratio to the time of slow start with HyStart++.
fn ratio(runs: &[Judged]) -> Option<Interval> {
    mean_over(runs, |run| run.ratio.ln()).map(|mean| mean.map(f64::exp))
}

/// Returns the ratio to the time of unrestrained Careful Resume.
fn ratio_to_unrestrained(runs: &[Judged]) -> Option<Interval> {
    let logarithm = |run: &Judged| run.ratio_to_unrestrained.map_or(f64::NAN, f64::ln);
    mean_over(runs, logarithm).map(|mean| mean.map(f64::exp))
}

fn runs_of<'a>(all: &[&'a Drawn<'a>], start: usize) -> Vec<Judged<'a>> {
    all.iter().flat_map(|drawn| drawn.runs(start)).collect()
}

fn only<'a>(runs: Vec<Judged<'a>>, is: impl Fn(&Drawn) -> bool) -> Vec<Judged<'a>> {
    runs.into_iter().filter(|run| is(run.drawn)).collect()
}

fn has_buffer_of_a_bdp(drawn: &Drawn) -> bool {
    drawn.of.named.scenario.path.buffer_bdp >= 1.0
}

fn is_known(drawn: &Drawn) -> bool {
    saved_bdp(drawn.of) >= KNOWN_BDP
}

/// Returns the share of some runs, in %.
fn percent(runs: &[Judged], is: impl Fn(&Judged) -> bool) -> Interval {
    let percent = mean_over(runs, |run| if is(run) { 100.0 } else { 0.0 });
    percent.unwrap_or(Interval::exact(f64::NAN))
}

fn loses_more(run: &Judged) -> bool {
    run.more_lost_bdp > MORE_LOST_BDP
}

fn row(all: &[&Drawn], start: usize) -> Option<Vec<String>> {
    let runs = runs_of(all, start);
    let said =
        |mean: Option<Interval>| mean.map_or("–".to_owned(), |mean| page::interval(mean, 3));
    let slowest = runs.iter().map(|run| run.ratio).reduce(f64::max)?;
    let buffered = only(runs_of(all, start), has_buffer_of_a_bdp);
    let known = only(runs_of(all, start), is_known);
    let (cc, name) = (controller_name(all[0].controller()), STARTS[start].0);
    Some(vec![
        format!("{cc}, {name}"),
        runs.len().to_string(),
        said(lost(&runs)),
        said(lost(&buffered)),
        format!("{} %", page::interval(percent(&buffered, |run| run.lost_bdp > 0.0), 1)),
        said(ratio(&runs)),
        said(ratio(&known)),
        format!("{slowest:.2}"),
        format!("{} %", page::interval(percent(&runs, loses_more), 1)),
    ])
}

/// Returns the ratio of Careful Resume's time to its bound.
fn bound_row(all: &[&Drawn]) -> Vec<String> {
    let ratio = |drawn: &&Drawn| {
        let bound_ms = drawn.cells[CAREFUL]?.bound_ms();
        Some((bound_ms / drawn.of.ttlb_ms()).ln())
    };
    let said = |all: &[&Drawn]| {
        let ratios: Vec<f64> = all.iter().filter_map(ratio).collect();
        mean(&ratios).map_or("–".to_owned(), |mean| format!("{:.3}", mean.value.exp()))
    };
    let known: Vec<&Drawn> = all.iter().copied().filter(|drawn| is_known(drawn)).collect();
    let none = || "–".to_owned();
    let name = format!("{}, fluid bound of Careful Resume", controller_name(all[0].controller()));
    let lost = [none(), none(), none(), none()];
    let times = [said(all), said(&known), none(), none()];
    [name].into_iter().chain(lost).chain(times).collect()
}

fn chart(
    all: &[&Drawn],
    y_title: &str,
    figure: impl Fn(&[Judged]) -> Option<Interval>,
    level: Option<(f64, String)>,
) -> Lines {
    let ranges = ranges();
    let point = |start: usize, (from, to): (f64, f64)| {
        let runs = only(runs_of(all, start), |drawn| (from..to).contains(&saved_bdp(drawn.of)));
        figure(&runs).and_then(page::point)
    };
    let series = (1..STARTS.len()).map(|start| Series {
        name: STARTS[start].0.into(),
        points: ranges.iter().map(|range| point(start, *range)).collect(),
    });
    Lines {
        x_title: "saved_cwnd from, BDP".into(),
        columns: SAVED_BDP.map(|from| from.to_string()).into(),
        y_title: y_title.into(),
        series: series.filter(|series| series.points.iter().any(Option::is_some)).collect(),
        level,
    }
}

/// Returns the ranges of saved_cwnd, in BDP.
fn ranges() -> Vec<(f64, f64)> {
    let ends = SAVED_BDP.iter().skip(1).copied().chain([f64::INFINITY]);
    SAVED_BDP.into_iter().zip(ends).collect()
}

/// Judges each controller by itself.
struct Judge<'a> {
    name: &'static str,
    by_controller: Vec<(&'static str, Vec<&'a Drawn<'a>>)>,
}

impl<'a> Judge<'a> {
    fn new(name: &'static str, all: &'a [Drawn<'a>]) -> Self {
        let of = |cc: Controller| {
            (controller_name(cc), all.iter().filter(|d| d.controller() == cc).collect())
        };
        let by_controller = distinct(all.iter().map(Drawn::controller)).into_iter().map(of);
        Self { name, by_controller: by_controller.collect() }
    }

    fn each(&self, figure: impl Fn(&[&'a Drawn<'a>]) -> Interval) -> Vec<Figure> {
        let of = |(cc, all): &(&str, Vec<_>)| Figure::new(*cc, figure(all));
        self.by_controller.iter().map(of).collect()
    }

    /// Returns a mean, where a connection starts so.
    fn mean(&self, start: usize, mean: impl Fn(&[Judged<'a>]) -> Option<Interval>) -> Vec<Figure> {
        let none = Interval::exact(f64::NAN);
        self.each(|all| mean(&runs_of(all, start)).unwrap_or(none))
    }

    /// Returns the same of each range of saved_cwnd that begins where `wanted`: no average runs over
    /// what a jump starts from.
    fn by_saved(
        &self,
        start: usize,
        wanted: impl Fn(f64) -> bool,
        mean: impl Fn(&[Judged<'a>]) -> Option<Interval>,
    ) -> Vec<Figure> {
        let wanted = ranges().into_iter().filter(|(from, _)| wanted(*from));
        let of_range = |(from, to): (f64, f64)| {
            let in_range = |drawn: &Drawn| (from..to).contains(&saved_bdp(drawn.of));
            let figures = self.mean(start, |runs| {
                let of: Vec<&Judged> = runs.iter().filter(|run| in_range(run.drawn)).collect();
                mean(&of.into_iter().copied().collect::<Vec<_>>())
            });
            let name = |figure: Figure| Figure {
                who: format!("{}, {from} BDP saved or more", figure.who),
                ..figure
            };
            figures.into_iter().map(name).collect::<Vec<_>>()
        };
        wanted.flat_map(of_range).collect()
    }

    /// Returns a figure of each run.
    fn runs(&self, start: usize, figure: impl Fn(&Judged) -> Option<f64>) -> Vec<Figure> {
        let all = self.by_controller.iter().flat_map(|(_, all)| runs_of(all, start));
        all.filter_map(|run| Some(Figure::exact(run.drawn.label(), figure(&run)?))).collect()
    }

    fn at_most(&self, what: &str, limit: f64, unit: &str, figures: Vec<Figure>) -> Verdict {
        Verdict::at_most(&format!("{}: {what}", self.name), limit, (3, unit), figures)
    }
}

fn verdicts(all: &[Drawn], limits: &Limits) -> Vec<Verdict> {
    let judge = Judge::new(limits.name, all);
    let rule = format!("{}: 300 paths or more are judged", limits.name);
    let paths = judge.each(|all| Interval::exact(all.len() as f64));
    let mut verdicts = vec![Verdict::at_least(&rule, PATHS_MIN as f64, (0, " paths"), paths)];
    verdicts.extend(slow_start_verdicts(&judge));
    verdicts.extend(loss_verdicts(&judge, limits));
    verdicts.extend(time_verdicts(&judge));
    if all.iter().any(|drawn| drawn.cells[UNRESTRAINED].is_some()) {
        verdicts.push(judge.at_most(
            "Careful Resume takes at most 1.05 of what it takes unrestrained",
            OF_UNRESTRAINED,
            "",
            judge.by_saved(CAREFUL, |_| true, ratio_to_unrestrained),
        ));
    }
    verdicts
}

fn slow_start_verdicts(judge: &Judge) -> [Verdict; 3] {
    let buffered = |run: &Judged| has_buffer_of_a_bdp(run.drawn).then_some(run.lost_bdp);
    [
        judge.at_most(
            "slow start loses at most 0.25 BDP, in the mean",
            SLOW_LOST_BDP,
            " BDP",
            judge.mean(SLOW, lost),
        ),
        judge
            .at_most(
                "slow start loses nothing where the buffer holds a BDP",
                0.0,
                " BDP",
                judge.runs(SLOW, buffered),
            )
            .as_aim(),
        judge
            .at_most(
                "slow start takes at most 1.03 of the time with HyStart++",
                SLOW_RATIO,
                "",
                judge.mean(SLOW, ratio),
            )
            .as_aim(),
    ]
}

fn loss_verdicts(judge: &Judge, limits: &Limits) -> [Verdict; 2] {
    let most = limits.careful_lost_bdp;
    [
        judge.at_most(
            &format!("Careful Resume loses at most {most} BDP, in the mean"),
            most,
            " BDP",
            judge.by_saved(CAREFUL, |_| true, lost),
        ),
        judge
            .at_most(
                "Careful Resume loses over 0.05 BDP more than HyStart++ in at most 2 runs of 100",
                MORE_LOST_PERCENT,
                " %",
                judge.each(|all| percent(&runs_of(all, CAREFUL), loses_more)),
            )
            .as_aim(),
    ]
}

fn time_verdicts(judge: &Judge) -> [Verdict; 3] {
    [
        judge.at_most(
            "Careful Resume takes nowhere over 1.4",
            CAREFUL_RATIO_MAX,
            "",
            judge.runs(CAREFUL, |run| Some(run.ratio)),
        ),
        judge
            .at_most(
                "Careful Resume takes at most 0.74 of the time",
                CAREFUL_RATIO,
                "",
                judge.by_saved(CAREFUL, |from| from < KNOWN_BDP, ratio),
            )
            .as_aim(),
        judge
            .at_most(
                "Careful Resume takes at most 0.67 where 0.85 BDP are saved",
                CAREFUL_RATIO_KNOWN,
                "",
                judge.by_saved(CAREFUL, |from| from >= KNOWN_BDP, ratio),
            )
            .as_aim(),
    ]
}
