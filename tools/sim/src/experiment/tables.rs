//! Tables of one's own experiment: figures of each group, and modes compared by seed.

use std::fmt::Write;

use report::page::escape;
use report::page::note;
use report::page::table;
use report::stats::mean;
use report::stats::median;
use report::stats::number;
use report::stats::quantile;

use super::groups::FlowGroup;
use super::groups::Groups;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::scenario::Mode;

/// Returns both tables.
pub fn html(groups: &Groups) -> String {
    let heads = [
        "flows",
        "downloads",
        "jumped",
        "time",
        "quartiles",
        "floor",
        "bound",
        "lost packets",
        "lost kB",
    ];
    let rows: String = groups.all.iter().map(row).collect();
    let words = "Times to the last byte in ms, of which the median, and the first and third \
                 quartile; floor and bound are medians as well: of a sender that knows the rate \
                 from the first byte, and of an ideal one of the same kind. Losses are means a \
                 download, with 95 % intervals.";
    let mut html = format!("<h2>Figures</h2>\n{}{}", note(words), table(&heads, &rows));
    let compared: String = groups.pairs().map(|(careful, slow)| compare(careful, slow)).collect();
    if !compared.is_empty() {
        let words =
            "Careful Resume over slow start, of the same seeds: the ratio of the means, and \
                     in parentheses the 95 % interval of 2000 bootstrap replicates of pairs. An \
                     interval that holds 1 shows no difference.";
        let heads = ["flows", "pairs", "time", "lost packets", "lost bytes"];
        html += &format!("<h2>Modes compared</h2>\n{}{}", note(words), table(&heads, &compared));
    }
    html
}

fn row(group: &FlowGroup) -> String {
    let mut times = group.figures(|flow| flow.ttlb_ms);
    times.sort_by(f64::total_cmp);
    let mut row = format!("<tr><th>{}</th><td>{}</td>", escape(&group.label()), times.len());
    let jumped = group.flows.iter().filter(|(_, flow)| flow.jump_cwnd_bytes.is_some()).count();
    let resumes = group.flows.iter().any(|(_, flow)| flow.mode == Mode::CarefulResume);
    let jumped = if resumes { jumped.to_string() } else { String::new() };
    let _ = write!(row, "<td>{jumped}</td>");
    let quantile = |share| number(quantile(&times, share), 0);
    let _ = write!(row, "<td>{}</td>", quantile(0.5));
    let _ = write!(row, "<td>{} to {}</td>", quantile(0.25), quantile(0.75));
    for bound in [|flow: &FlowOutcome| flow.floor_ms, |flow: &FlowOutcome| flow.bound_ms] {
        let middle = median(group.flows.iter().filter_map(|(_, flow)| bound(flow)));
        let _ = write!(row, "<td>{}</td>", number(middle, 0));
    }
    for values in [
        group.figures(|flow| flow.lost_packets as f64),
        group.figures(|flow| flow.lost_bytes as f64 / 1e3),
    ] {
        let cell = mean(&values).map(|mean| format!("{:.1} ± {:.1}", mean.value, mean.error));
        let _ = write!(row, "<td>{}</td>", cell.unwrap_or_default());
    }
    row + "</tr>\n"
}

/// Compares a group with Careful Resume with the same of slow start.
fn compare(careful: &FlowGroup, slow: &FlowGroup) -> String {
    let mut row = format!("<tr><th>{}</th>", escape(&careful.compared_label()));
    for (index, figure) in FIGURES.iter().enumerate() {
        let (first, second) = (careful.by_seed(figure), slow.by_seed(figure));
        let pairs: Vec<(f64, f64)> =
            first.iter().filter_map(|(seed, value)| Some((*value, *second.get(seed)?))).collect();
        if index == 0 {
            let _ = write!(row, "<td>{}</td>", pairs.len());
        }
        let found = Interval::ratio_of_means(&pairs);
        let is_nothing = pairs.iter().all(|pair| *pair == (0.0, 0.0));
        let cell = match found.low.is_finite() && found.high.is_finite() {
            _ if is_nothing => "none lost".into(),
            true => format!("{:.3} ({:.3} to {:.3})", found.value, found.low, found.high),
            false => String::new(),
        };
        let _ = write!(row, "<td>{cell}</td>");
    }
    row + "</tr>\n"
}

type FlowFigure = fn(&FlowOutcome) -> f64;

const FIGURES: [FlowFigure; 3] =
    [|flow| flow.ttlb_ms, |flow| flow.lost_packets as f64, |flow| flow.lost_bytes as f64];
