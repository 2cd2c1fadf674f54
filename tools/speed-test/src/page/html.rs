//! HTML around the figures.

use std::fmt::Write;

use plotters::style::RGBColor;
use report::page::bad;
use report::page::escape;
use report::page::good;
use report::page::note;
use report::record::Source;
use report::stats::number;

use super::charts::Curve;
use super::charts::CURVES;
use super::heading::Heading;
use crate::summary::Group;
use crate::summary::Row;
use report::chart::palette::PHASES;

/// The figures of one path.
pub struct Section {
    pub times: String,
    pub visits: Option<String>,
    /// Title and figure of each timeline.
    pub timelines: Vec<(String, String)>,
}

/// Puts the page together.
pub fn page(heading: &Heading, groups: &[Group], sections: &[Section]) -> String {
    let mut out = format!("<p class=\"date\">{}</p>\n", escape(&heading.date));
    for about in &heading.about {
        let _ = writeln!(out, "<p>{}</p>", escape(about));
    }
    out += &verdict(heading, groups);
    out += &table(groups);
    for (group, section) in groups.iter().zip(sections) {
        out += &figures(group, section);
    }
    report::page::page("Careful Resume speed-test", &out)
}

fn verdict(heading: &Heading, groups: &[Group]) -> String {
    let out = bad("Checks failed", &heading.failures) + &bad("Not checked", &heading.notes);
    if !out.is_empty() {
        return out;
    }
    // Without a known path there was nothing to check against.
    if groups.iter().all(|g| g.bounds.is_none()) {
        return String::new();
    }
    good(
        "Every check passed: no time below its bound, saved windows of 0.85 to 1.05 BDP, the \
         expected phases, no loss caused by a jump.",
    )
}

fn table(groups: &[Group]) -> String {
    let mut rows = String::new();
    for group in groups {
        let _ = writeln!(
            rows,
            "<tr class=\"path\"><th colspan=\"10\">{}{}</th></tr>",
            escape(group.path),
            buffer(group)
        );
        for row in &group.rows {
            rows += &table_row(row);
        }
    }
    let heads = [
        "path, mode",
        "runs",
        "TTLB, ms",
        "TTLB, RTTs",
        "bound, ms",
        "RTTs saved",
        "ratio",
        "saved_cwnd, BDP",
        "lost packets",
        "phases seen",
    ];
    let explained = note(
        "TTLB is the time to the last byte, median of the runs, from the client's first packet, \
         including the handshake. The bound is the shortest time that a fluid model allows. RTTs \
         saved and ratio compare with slow start, or else with the first connection, on the same \
         server. saved_cwnd is the window from the store, median of the runs; BDP is the path's \
         rate times its RTT. Lost packets are those that the server declared lost, median of the \
         runs.",
    );
    let table = report::page::table(&heads, &rows);
    format!("<h2>Results</h2>\n<div class=\"phases\">{table}</div>{explained}")
}

fn buffer(group: &Group) -> String {
    group.buffer_bytes.map_or(String::new(), |bytes| {
        format!(" <span class=\"note\">buffer {:.2} MB</span>", bytes as f64 / 1e6)
    })
}

fn table_row(row: &Row) -> String {
    let cells = [
        row.runs.len().to_string(),
        format!("{:.0}", row.ttlb_ms),
        number(row.ttlb_rtts, 1),
        number(row.bound_ms, 0),
        number(row.saved_rtts, 1),
        number(row.ratio, 2),
        number(row.saved_cwnd_bdp, 2),
        number(row.lost_packets, 0),
    ];
    let cells: String = cells.iter().map(|c| format!("<td>{c}</td>")).collect();
    let phases = row.phases.iter().map(|(names, count)| {
        format!("{} ({count} of {})", escape(&names.replace(", ", " → ")), row.runs.len())
    });
    let phases = phases.collect::<Vec<_>>().join("<br>");
    format!("<tr><th>{}</th>{cells}<td class=\"left\">{phases}</td></tr>\n", escape(&row.label))
}

fn figures(group: &Group, section: &Section) -> String {
    let mut out = format!("<h2>{}</h2>\n{}\n", escape(group.path), section.times);
    if let Some(visits) = &section.visits {
        out += &format!("<h3>Visits from an empty store</h3>\n{visits}\n");
        out += &note(
            "The same object three times, starting with an empty store: later visits benefit from the \
             first.",
        );
    }
    if section.timelines.is_empty() {
        return out;
    }
    let simulated = group.rows.iter().flat_map(|r| &r.runs).all(|d| d.source == Source::Sim);
    let from = if simulated { "the simulated server's" } else { "the server's own" };
    out += &note(&format!("Inside the median runs, from {from} qlog. Both have the same scale."));
    // The shades of phases are made for white paper.
    out += "<div class=\"light\">\n";
    out += &legend();
    for (title, svg) in &section.timelines {
        let _ = writeln!(out, "<h3>{}</h3>\n{svg}", escape(title));
    }
    out + "</div>\n"
}

fn legend() -> String {
    let curve = |c: &Curve| {
        let RGBColor(r, g, b) = c.colour;
        let line = if c.dashed { "dashed" } else { "solid" };
        format!(
            "<span><i class=\"line\" style=\"border-top:{}px {line} rgb({r},{g},{b})\"></i>{}</span>\n",
            c.width_px, c.name
        )
    };
    let shade = |p: &(&str, RGBColor)| {
        let RGBColor(r, g, b) = p.1;
        let name = p.0.replace('_', " ");
        format!(
            "<span><i class=\"shade\" style=\"background:rgb({r},{g},{b})\"></i>{name}</span>\n"
        )
    };
    let curves: String = CURVES.iter().map(curve).collect();
    let shades: String = PHASES.iter().map(shade).collect();
    format!("<p class=\"legend\">{curves}<b>phases:</b> {shades}</p>\n")
}
