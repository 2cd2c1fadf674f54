//! Visits: consecutive downloads, from an empty store.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;
use report::page::note;
use report::stats::median;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;
use crate::scenario::Controller;

const COLD: &str = "flow.saved.cold";
const SIZE: &str = "flow.object_bdp";

/// The visit that is judged, and the largest ratio of its time to that from a warm
/// store, where the object is as large as the path's BDP.
const JUDGED_VISIT: usize = 3;
const JUDGED_BDP: f64 = 1.0;
const OVER_WARM_MAX: f64 = 1.05;

/// The same downloads from an empty store and from one that knows the path.
struct StorePair<'a> {
    cold: &'a Cell<'a>,
    warm: &'a Cell<'a>,
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let rows = rows(chapter);
    let mut html = String::new();
    for cc in distinct(rows.iter().map(StorePair::controller)) {
        let of_cc: Vec<&StorePair> = rows.iter().filter(|r| r.controller() == cc).collect();
        html += &page::heading(&format!("With {}", controller_name(cc)));
        let caption = format!(
            "{}: mean time of each visit from an empty store over that with all saved, objects of one \
             BDP; bars: 95 % intervals.",
            controller_name(cc)
        );
        html += &figure(&caption, &lines(&chart(&of_cc))?);
        html += &table(&of_cc);
    }
    html += &note(
        "Observed is what a visit has seen of the path, as a share of \
         its BDP; the next one jumps to half of it. A path's BDP counts IP packets, the observed \
         capacity the QUIC packets in them: 0.98 is all.",
    );
    let rule =
        "visits: the third download of one BDP takes at most 1.05 times as long as with all saved";
    let judged = rows.iter().filter(|r| r.object_bdp() == JUDGED_BDP);
    let figures = judged.map(|r| Figure::new(r.label(), r.over_warm(JUDGED_VISIT))).collect();
    let verdict = Verdict::at_most(rule, OVER_WARM_MAX, (3, ""), figures);
    Ok(Findings { html, verdicts: vec![verdict], ..Findings::default() })
}

fn rows<'a>(chapter: &'a Chapter) -> Vec<StorePair<'a>> {
    let of = |cold: &'static str| chapter.cells.iter().filter(move |c| c.parameter(COLD) == cold);
    let place = |c: &Cell| (c.parameter("case"), c.parameter(SIZE), c.parameter("flow.cc"));
    let row = |cold: &'a Cell<'a>| {
        let warm = of("false").find(|warm| place(warm) == place(cold))?;
        Some(StorePair { cold, warm })
    };
    of("true").filter_map(row).collect()
}

/// Returns the median over runs of a figure of a visit, the first of which is 1.
fn of_visit(cell: &Cell, visit: usize, figure: impl Fn(&FlowOutcome) -> f64) -> f64 {
    let flows = cell.runs.iter().filter_map(|run| run.flows.get(visit - 1));
    median(flows.map(figure)).unwrap_or(f64::NAN)
}

impl StorePair<'_> {
    fn controller(&self) -> Controller {
        self.cold.named.scenario.flows[0].cc
    }

    /// Returns the numbers of the visits.
    fn visits(&self) -> Vec<usize> {
        (1..=self.cold.named.scenario.flows[0].count as usize).collect()
    }

    fn object_bdp(&self) -> f64 {
        self.cold.named.scenario.flows[0].object_bdp.unwrap_or(f64::NAN)
    }

    fn label(&self) -> String {
        let (case, cc) = (self.cold.parameter("case"), controller_name(self.controller()));
        format!("{case}, {} BDP, {cc}", self.cold.parameter(SIZE))
    }

    fn ttlb_ms(&self, visit: usize) -> f64 {
        of_visit(self.cold, visit, |flow| flow.ttlb_ms)
    }

    fn warm_ms(&self) -> f64 {
        of_visit(self.warm, 1, |flow| flow.ttlb_ms)
    }

    fn over_warm(&self, visit: usize) -> Interval {
        let ms = |run: &Outcome, visit: usize| run.flows.get(visit - 1).map(|flow| flow.ttlb_ms);
        let pairs = self.cold.runs.iter().filter_map(|cold| {
            let warm = self.warm.runs.iter().find(|warm| warm.seed == cold.seed)?;
            Some((ms(cold, visit)?, ms(warm, 1)?))
        });
        Interval::ratio_of_means(&pairs.collect::<Vec<_>>())
    }

    /// Returns what the store may hold after a visit, as a share of the BDP.
    fn observed_bdp(&self, visit: usize) -> f64 {
        let bdp_bytes = self.cold.named.scenario.path.bdp_bytes();
        of_visit(self.cold, visit, |flow| {
            flow.observed_cwnd_bytes.map_or(f64::NAN, |bytes| bytes as f64 / bdp_bytes)
        })
    }

    fn cells(&self) -> Vec<String> {
        let mut cells =
            vec![format!("{}, {} BDP", self.cold.parameter("case"), self.cold.parameter(SIZE))];
        for visit in self.visits() {
            cells.push(page::time(self.ttlb_ms(visit)));
            cells.push(page::number(self.observed_bdp(visit), 2));
        }
        cells.push(page::time(self.warm_ms()));
        cells.push(page::interval(self.over_warm(JUDGED_VISIT), 3));
        cells
    }
}

fn table(rows: &[&StorePair]) -> String {
    let visits = rows.first().map(|row| row.visits()).unwrap_or_default();
    let mut heads = vec!["path, object".to_owned()];
    heads.extend(
        visits.into_iter().flat_map(|visit| [format!("visit {visit}"), "observed".to_owned()]),
    );
    heads.extend(["all saved", "third / all saved"].map(String::from));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    page::table(&heads, &rows.iter().map(|row| row.cells()).collect::<Vec<_>>())
}

fn chart(rows: &[&StorePair]) -> Lines {
    let judged = rows.iter().filter(|r| r.object_bdp() == JUDGED_BDP);
    let series = judged.clone().map(|row| Series {
        name: row.cold.parameter("case"),
        points: row.visits().into_iter().map(|visit| page::point(row.over_warm(visit))).collect(),
    });
    let visits = judged.clone().next().map(|row| row.visits()).unwrap_or_default();
    Lines {
        x_title: "visit".into(),
        columns: visits.iter().map(usize::to_string).collect(),
        series: series.collect(),
        y_title: "time / time with all saved".into(),
        level: Some((1.0, "all saved".into())),
    }
}
