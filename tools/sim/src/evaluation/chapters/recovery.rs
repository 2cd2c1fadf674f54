//! Recovery from jumps that the path does not carry: P4.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;
use report::page::note;
use report::stats::mean;

use super::gains::loss_row;
use super::gains::loss_table;
use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;

const SAVED: &str = "flow.saved.cwnd_bdp";
const BUFFER: &str = "path.buffer_bdp";
const LOSS: &str = "path.loss";

/// Greatest ratio of mean times.
const RATIO_MAX: f64 = 1.25;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let all: Vec<Interval> = pairs.iter().map(Pair::ratio).collect();
    let ratios = page::range_of(&all, 2);
    let mut html = page::paragraph(&format!(
        "In the mean, Careful Resume takes {ratios} of slow start's time. The window grows again when \
         safe retreat ends: the time from its start is told in RTTs."
    ));
    for buffer in distinct(pairs.iter().map(|p| p.careful.parameter(BUFFER))) {
        let of_buffer: Vec<&Pair> =
            pairs.iter().filter(|p| p.careful.parameter(BUFFER) == buffer).collect();
        let caption = format!(
            "Buffer of {buffer} BDP: mean time with Careful Resume over that with slow start, by how much \
             more is saved than the path holds, with 95 % intervals."
        );
        html += &figure(&caption, &lines(&chart(&of_buffer))?);
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
    let losses = pairs.iter().map(|p| loss_row(name(p), p));
    html += &loss_table(heads[0], &losses.collect::<Vec<_>>());
    html += &note("Times are means of all runs.");

    let rule = "recovery: the mean time is at most 1.25 times that of slow start";
    let figures = pairs.iter().map(|p| Figure::new(p.careful.label(), p.ratio())).collect();
    let verdict = Verdict::at_most(rule, RATIO_MAX, (2, ""), figures);
    let verdicts = vec![verdict, loses_the_jump(&pairs)];
    let published = Published::new(
        "P4, for the flow itself: mean time / slow start's, jumps of 0.5 to 8 BDP",
        "not unduly harmed",
        ratios,
        page::range(pairs.iter().map(Pair::bound_ratio), 2),
    )
    .judged(
        all.iter().all(|ratio| ratio.high <= RATIO_MAX),
        [
            "No interval reaches more than 1.25 times slow start's time, even if the jump is 8 times \
             what the path holds. The paper says it in words.",
            "Some intervals reach more than 1.25 times slow start's time. The paper says it in words.",
        ],
    );
    Ok(Findings { html, published: vec![published], verdicts })
}

/// Checks that what is lost more than with slow start, in all, is at most the jump.
fn loses_the_jump(pairs: &[Pair]) -> Verdict {
    let figure = |p: &Pair| {
        let jump = mean(&p.careful.judged(|f| f.jump_cwnd_bytes.map_or(f64::NAN, |b| b as f64)));
        let jump = jump.map_or(f64::NAN, |jump| jump.value);
        let more = Interval::difference(&p.by_seed(|f| f.dropped_bytes as f64));
        Figure::new(p.careful.label(), more.map(|bytes| bytes / jump))
    };
    let judged = pairs.iter().filter(|p| p.careful.parameter(LOSS) == "0");
    let rule =
        "recovery: in all, a refused jump loses at most its own size more than slow start loses";
    Verdict::at_most(rule, 1.0, (2, " of the jump"), judged.map(figure).collect())
}

/// Returns how long a download was in safe retreat, in ms, if it was.
fn retreat_ms(flow: &FlowOutcome) -> Option<f64> {
    let start = flow.phases.iter().position(|p| p.1 == "safe_retreat")?;
    let end_ms = flow.phases.get(start + 1).map_or(flow.ttlb_ms, |p| p.0);
    Some(end_ms - flow.phases[start].0)
}

fn name(pair: &Pair) -> String {
    let said = |key| pair.careful.parameter(key);
    format!("{}, {}, {}", said(BUFFER), said(LOSS), said(SAVED))
}

fn row(pair: &Pair) -> Vec<String> {
    let cell = pair.careful;
    let retreats: Vec<f64> = cell.judged(retreat_ms).into_iter().flatten().collect();
    let growth = mean(&retreats).map(|m| m.value / pair.rtt_ms());
    vec![
        name(pair),
        "–".into(),
        page::time(pair.slow.ttlb_ms()),
        page::time(pair.slow.bound_ms()),
        page::time(cell.ttlb_ms()),
        page::time(cell.bound_ms()),
        page::interval(pair.ratio(), 2),
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
                pairs.iter().find(is).and_then(|p| page::point(p.ratio()))
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
