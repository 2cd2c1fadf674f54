//! Recovery from jumps that the path does not carry: P4.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::note;
use report::stats::mean;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::outcome::FlowOutcome;

const SAVED: &str = "flow.saved.cwnd_bdp";
const BUFFER: &str = "path.buffer_bdp";
const LOSS: &str = "path.loss";

/// Greatest ratio of mean times.
const RATIO_MAX: f64 = 1.25;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let ratios = page::range(pairs.iter().map(ratio), 2);
    let mut html = page::paragraph(&format!(
        "In the mean, Careful Resume takes {ratios} of slow start's time. The window grows again when \
         safe retreat ends: the time from its start is told in RTTs."
    ));
    for buffer in distinct(pairs.iter().map(|p| p.careful.parameter(BUFFER))) {
        let of_buffer: Vec<&Pair> =
            pairs.iter().filter(|p| p.careful.parameter(BUFFER) == buffer).collect();
        html += &page::heading(&format!("Buffer of {buffer} BDP"));
        html += &lines(&chart(&of_buffer))?;
    }
    let heads = [
        "buffer (BDP), loss, saved_cwnd (BDP)",
        "published",
        "slow start, mean",
        "bound",
        "Careful Resume, mean",
        "bound",
        "ratio",
        "retreats",
        "RTTs until growth",
    ];
    html += &page::table(&heads, &pairs.iter().map(row).collect::<Vec<_>>());
    html += &note("Times are means of all runs, with their 95 % confidence interval in the plots.");

    let rule = "recovery: the mean time is at most 1.25 times that of slow start";
    let figures = pairs.iter().map(|p| Figure::new(p.careful.label(), ratio(p))).collect();
    let verdict = Verdict::at_most(rule, RATIO_MAX, (2, ""), figures);
    let published = Published::new(
        "P4, for the flow itself: mean time / slow start's, jumps of 0.5 to 8 BDP",
        "not unduly harmed",
        ratios,
        page::range(pairs.iter().map(Pair::bound_ratio), 2),
    );
    Ok(Findings { html, published: vec![published], verdicts: vec![verdict] })
}

fn mean_ms(cell: &Cell) -> f64 {
    mean(&cell.judged(|f| f.ttlb_ms)).map_or(f64::NAN, |m| m.value)
}

fn ratio(pair: &Pair) -> f64 {
    mean_ms(pair.careful) / mean_ms(pair.slow)
}

/// Returns how long a download was in safe retreat, in ms, if it was.
fn retreat_ms(flow: &FlowOutcome) -> Option<f64> {
    let start = flow.phases.iter().position(|p| p.1 == "safe_retreat")?;
    let end_ms = flow.phases.get(start + 1).map_or(flow.ttlb_ms, |p| p.0);
    Some(end_ms - flow.phases[start].0)
}

fn row(pair: &Pair) -> Vec<String> {
    let cell = pair.careful;
    let retreats: Vec<f64> = cell.judged(retreat_ms).into_iter().flatten().collect();
    let growth = mean(&retreats).map(|m| m.value / pair.rtt_ms());
    vec![
        format!("{}, {}, {}", cell.parameter(BUFFER), cell.parameter(LOSS), cell.parameter(SAVED)),
        "–".into(),
        page::time(mean_ms(pair.slow)),
        page::time(pair.slow.bound_ms()),
        page::time(mean_ms(cell)),
        page::time(cell.bound_ms()),
        format!("{:.2}", ratio(pair)),
        format!("{} of {}", retreats.len(), cell.runs.len()),
        growth.map_or("–".into(), |rtts| format!("{rtts:.1}")),
    ]
}

fn chart(pairs: &[&Pair]) -> Lines {
    let sizes = distinct(pairs.iter().map(|p| p.careful.parameter(SAVED)));
    let series =
        distinct(pairs.iter().map(|p| p.careful.parameter(LOSS))).into_iter().map(|loss| {
            let point = |saved: &String| {
                let is = |p: &&&Pair| {
                    p.careful.parameter(LOSS) == loss && p.careful.parameter(SAVED) == *saved
                };
                pairs.iter().find(is).and_then(|p| {
                    let careful = mean(&p.careful.judged(|f| f.ttlb_ms))?;
                    let slow_ms = mean_ms(p.slow);
                    Some((careful.value / slow_ms, careful.error / slow_ms))
                })
            };
            let percent = loss.parse::<f64>().unwrap_or(f64::NAN) * 100.0;
            Series {
                points: sizes.iter().map(point).collect(),
                name: format!("random loss of {percent:.1} %"),
            }
        });
    Lines {
        x_title: "saved_cwnd (BDP of the path as it is)".into(),
        series: series.collect(),
        columns: sizes,
        y_title: "time / slow start's".into(),
        level: Some((1.0, "as slow start".into())),
    }
}
