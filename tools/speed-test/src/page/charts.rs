//! Figures of a path, as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;
use report::bound::bdp_bytes;
use report::chart::axis;
use report::chart::axis::Linear;
use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::drawing::dash;
use report::chart::drawing::dashed;
use report::chart::drawing::font;
use report::chart::drawing::line;
use report::chart::drawing::svg;
use report::chart::drawing::text;
use report::chart::drawing::Area;
use report::chart::drawing::Drawn;
use report::chart::drawing::WIDTH;
use report::chart::palette::AXIS;
use report::chart::palette::BLUE;
use report::chart::palette::GREY;
use report::chart::palette::ORANGE;
use report::chart::palette::PHASES;
use report::chart::Bar;
use report::chart::Bars;
use report::record::Mode;

use crate::summary::Group;
use crate::summary::Row;
use report::timeline::Timeline;

const LEFT: i32 = 70;
const RIGHT: i32 = 55;

/// One curve of a timeline. Widths and dashes let one be seen on another.
pub struct Curve {
    pub name: &'static str,
    pub colour: RGBColor,
    pub width_px: u32,
    pub dashed: bool,
}

/// The curves of a timeline, drawn in this order.
pub const CURVES: [Curve; 3] = [
    Curve {
        name: "congestion window",
        colour: RGBColor(0x56, 0xb4, 0xe9),
        width_px: 5,
        dashed: false,
    },
    Curve {
        name: "bytes in flight",
        colour: RGBColor(0xb8, 0x4a, 0x00),
        width_px: 2,
        dashed: false,
    },
    Curve {
        name: "acknowledged bytes",
        colour: RGBColor(0x00, 0x70, 0x50),
        width_px: 2,
        dashed: true,
    },
];

/// Common scale of a path's timelines.
pub struct Scale {
    pub end_ms: f64,
    pub bytes: u64,
    pub bdp_bytes: Option<f64>,
}

/// Returns the bandwidth-delay product of a group's path, when known.
pub fn bdp_of(group: &Group) -> Option<f64> {
    Some(bdp_bytes(group.rate_mbps?, group.rtt_ms?))
}

/// Returns the colour of a mode.
fn mode_colour(row: &Row) -> RGBColor {
    match row.mode {
        _ if row.is_other_server() => GREY,
        Mode::Visit if row.visit == Some(1) => ORANGE,
        Mode::CarefulResume | Mode::EarlyData | Mode::Later | Mode::Visit => BLUE,
        Mode::SlowStart | Mode::First => ORANGE,
    }
}

/// Draws times to last byte by mode: a dot per run, a bar up to the median, and the
/// fluid bounds.
pub fn times(group: &Group) -> anyhow::Result<String> {
    let rows: Vec<&Row> = group.rows.iter().filter(|r| r.visit.is_none()).collect();
    times_of(group, &rows)
}

/// Draws the same of visits from an empty store, beside Careful Resume with a store that
/// knows the path; None without visits.
pub fn visits(group: &Group) -> anyhow::Result<Option<String>> {
    let mut rows: Vec<&Row> = group.rows.iter().filter(|r| r.visit.is_some()).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    rows.extend(group.rows.iter().filter(|r| r.mode == Mode::CarefulResume));
    times_of(group, &rows).map(Some)
}

fn times_of(group: &Group, rows: &[&Row]) -> anyhow::Result<String> {
    let marks = group.bounds.map_or(Vec::new(), |b| {
        let marks = [
            (b.floor_ms, "rate known at once"),
            (b.early_ms, "early jump"),
            (b.careful_resume_ms, "Careful Resume"),
            (b.slow_start_ms, "slow start"),
        ];
        marks.map(|(ms, name)| (ms, format!("bound, {name}: {ms:.0} ms"))).to_vec()
    });
    let slowest_ms = rows.iter().flat_map(|r| r.runs.last()).map(|d| d.ttlb_ms);
    let end_ms = slowest_ms.chain(group.bounds.map(|b| b.slow_start_ms)).fold(1.0, f64::max);
    bars(&Bars {
        title: "time to last byte, from the client's first packet",
        unit: Unit::of_time(end_ms),
        bars: rows.iter().map(|row| time_bar(row)).collect(),
        marks,
    })
}

fn time_bar(row: &Row) -> Bar {
    let rtts = row.ttlb_rtts.map_or(String::new(), |r| format!(", {r:.1} RTTs"));
    Bar {
        label: row.label.clone(),
        value: row.ttlb_ms,
        runs: row.runs.iter().map(|d| d.ttlb_ms).collect(),
        interval: None,
        colour: mode_colour(row),
        bound: None,
        words: format!("median {:.0} ms{rtts}", row.ttlb_ms),
    }
}

/// Draws window, flight and acknowledged bytes over time, the phases shaded.
pub fn timeline(timeline: &Timeline, scale: &Scale) -> anyhow::Result<String> {
    const HEIGHT: i32 = 330;
    const TOP: i32 = 30;
    const BOTTOM: i32 = HEIGHT - 52;
    let megabytes = (scale.bytes as f64).max(scale.bdp_bytes.unwrap_or(0.0)) / 1e6;
    let x = Linear { end: scale.end_ms * 1.02, from_px: LEFT, to_px: WIDTH - RIGHT };
    let y = Linear { end: megabytes * 1.05, from_px: BOTTOM, to_px: TOP };

    let drawn = svg(HEIGHT, |area| {
        shade_phases(area, x, timeline, TOP, BOTTOM)?;
        axis::horizontal(
            area,
            x,
            Unit::of_time(scale.end_ms),
            "time since the server saw the client's first packet",
            (TOP, BOTTOM),
        )?;
        axis::vertical(area, y, "MB", (x.from_px, x.to_px))?;
        if let Some(bdp) = scale.bdp_bytes {
            bdp_mark(area, x, y.px(bdp / 1e6))?;
        }
        curves(area, x, y, timeline)
    })?;
    Ok(CURVES.iter().filter(|c| c.dashed).fold(drawn, |svg, c| dash(&svg, c.colour)))
}

fn shade_phases(area: &Area, x: Linear, timeline: &Timeline, top: i32, bottom: i32) -> Drawn {
    let end_ms = timeline.end_ms();
    let entries = &timeline.phases;
    for (i, (from_ms, name, _)) in entries.iter().enumerate() {
        let to_ms = entries.get(i + 1).map_or(end_ms, |next| next.0);
        let (from, to) = (x.px(from_ms.min(end_ms)), x.px(to_ms.min(end_ms)));
        let shade = PHASES.iter().find(|p| p.0 == name).map_or(WHITE, |p| p.1);
        area.draw(&Rectangle::new([(from, top), (to, bottom)], shade.filled()))?;
        line(area, (from, top - 6), (from, bottom), AXIS.stroke_width(1))?;
        // Less than 5.5 pixels a letter; what has no room is in the legend.
        let room = (to - from) * 2 / 11;
        let words = if name.len() as i32 <= room { name.as_str() } else { "" };
        let style = font(13, HPos::Center, VPos::Bottom);
        text(area, ((from + to) / 2, top - 6), &style, words)?;
    }
    Ok(())
}

fn bdp_mark(area: &Area, x: Linear, y: i32) -> Drawn {
    dashed(area, (x.from_px, y), (x.to_px, y), AXIS.into())?;
    text(area, (x.to_px + 6, y), &font(15, HPos::Left, VPos::Center), "1 BDP")
}

/// Steps: a value holds until the next sample.
fn curves(area: &Area, x: Linear, y: Linear, timeline: &Timeline) -> Drawn {
    for (i, curve) in CURVES.iter().enumerate() {
        let mut points: Vec<(i32, i32)> = Vec::with_capacity(2 * timeline.samples.len());
        for sample in &timeline.samples {
            let bytes = [sample.congestion_window, sample.bytes_in_flight, sample.acked_bytes][i];
            let at = (x.px(sample.time_ms), y.px(bytes as f64 / 1e6));
            if let Some(&(_, before)) = points.last().filter(|p| p.1 != at.1) {
                points.push((at.0, before));
            }
            points.push(at);
        }
        area.draw(&PathElement::new(points, curve.colour.stroke_width(curve.width_px)))?;
    }
    Ok(())
}
