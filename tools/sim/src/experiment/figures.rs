//! Figures of several runs: boxes, distributions, fairness.

use report::chart::axis::Unit;
use report::chart::boxes;
use report::chart::curves;
use report::chart::style::SERIES;
use report::chart::BoxGroup;
use report::chart::Boxes;
use report::chart::Curves;
use report::chart::NumberCurve;
use report::page::figure;
use report::stats::median;

use super::groups::FlowGroup;
use super::groups::Groups;

const PLAIN: Unit = Unit { name: "", size: 1.0 };

/// Returns every figure, with its heading.
///
/// # Errors
///
/// A figure cannot be drawn.
pub fn html(groups: &Groups) -> anyhow::Result<String> {
    let mut html = titled(
        "Flow completion times",
        "From the client's first packet to the last byte. A dot is one download, the box holds the \
         middle half, the thick line is the median, and the long thin line the median of the fluid \
         bounds: what an ideal sender of the same kind would take alone on the path, or where there is no \
         bound, one that knows the rate.",
        &times(groups)?,
    );
    html += &titled(
        "Distribution of completion times",
        &distribution_words(groups),
        &distributions(groups)?,
    );
    html += &titled(
        "Lost packets",
        "Packets that the server declared lost; the table below has bytes as well.",
        &losses(groups)?,
    );
    if !groups.fairness.is_empty() {
        html += &titled(
            "Fairness",
            "Jain's index of the flows' goodputs, each over its own lifetime, a dot for each run: 1 \
             if all flows had the same. Flows that are not there at the same time make it lower.",
            &fairness(groups)?,
        );
    }
    Ok(html)
}

fn titled(title: &str, words: &str, svg: &str) -> String {
    format!("<h2>{title}</h2>\n{}", figure(words, svg))
}

fn unit_of_times(groups: &Groups) -> Unit {
    let times = groups.all.iter().flat_map(|group| group.figures(|flow| flow.ttlb_ms));
    Unit::of_time(times.fold(0.0, f64::max))
}

fn times(groups: &Groups) -> anyhow::Result<String> {
    boxes(&Boxes {
        title: "time to the last byte".into(),
        unit: Some(unit_of_times(groups)),
        groups: groups.all.iter().enumerate().map(|(i, g)| times_of(i, g)).collect(),
    })
}

fn times_of(index: usize, group: &FlowGroup) -> BoxGroup {
    let bounds = group.flows.iter().filter_map(|(_, flow)| flow.bound_ms.or(flow.floor_ms));
    BoxGroup {
        label: group.label(),
        values: group.figures(|flow| flow.ttlb_ms),
        mark: median(bounds),
        style: index,
    }
}

fn losses(groups: &Groups) -> anyhow::Result<String> {
    let row = |(index, group): (usize, &FlowGroup)| BoxGroup {
        label: group.label(),
        values: group.figures(|flow| flow.lost_packets as f64),
        mark: None,
        style: index,
    };
    boxes(&Boxes {
        title: "lost packets of a download".into(),
        unit: Some(PLAIN),
        groups: groups.all.iter().enumerate().map(row).collect(),
    })
}

fn fairness(groups: &Groups) -> anyhow::Result<String> {
    let row = |(index, (name, values)): (usize, &(String, Vec<f64>))| BoxGroup {
        label: if name.is_empty() { "all flows".into() } else { name.clone() },
        values: values.clone(),
        mark: None,
        style: index,
    };
    boxes(&Boxes {
        title: "Jain's index".into(),
        unit: Some(PLAIN),
        groups: groups.fairness.iter().enumerate().map(row).collect(),
    })
}

fn distribution_words(groups: &Groups) -> String {
    let (all, shown) = (groups.all.len(), groups.all.len().min(SERIES.len()));
    let words = "The share of downloads that take at most this long.";
    match shown < all {
        true => format!("{words} Of the first {shown} of {all} kinds of downloads."),
        false => words.into(),
    }
}

/// Draws as many distributions as there are styles to tell them apart.
fn distributions(groups: &Groups) -> anyhow::Result<String> {
    let shown = &groups.all[..groups.all.len().min(SERIES.len())];
    let all = shown.iter().map(|group| {
        let mut times_ms = group.figures(|flow| flow.ttlb_ms);
        times_ms.sort_by(f64::total_cmp);
        let count = times_ms.len() as f64;
        let rises = (1..).zip(&times_ms).map(|(n, ms)| (*ms, f64::from(n) / count));
        let points = [(0.0, 0.0)].into_iter().chain(rises).collect();
        NumberCurve { name: group.label(), points }
    });
    let curves_drawn: Vec<NumberCurve> = all.collect();
    let x_end = curves_drawn.iter().flat_map(|c| c.points.last()).map(|p| p.0).fold(1.0, f64::max);
    curves(&Curves {
        x_title: "time to the last byte".into(),
        x_unit: unit_of_times(groups),
        x_end: x_end * 1.02,
        y_title: "share of downloads".into(),
        curves: curves_drawn,
        stretches: vec![],
    })
}
