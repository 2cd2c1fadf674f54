//! Line chart over the values of a sweep, one column per value.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;

use super::axis;
use super::axis::Linear;
use super::drawing::dashed;
use super::drawing::font;
use super::drawing::line;
use super::drawing::svg;
use super::drawing::text;
use super::drawing::Area;
use super::drawing::Drawn;
use super::drawing::WIDTH;
use super::palette::AXIS;
use super::palette::GRID;
use super::style::Style;
use super::style::SERIES;

const PLOT: i32 = 300;
const LEGEND: i32 = 24;
const LEFT: i32 = 78;
const RIGHT: i32 = 24;
/// Of a letter, about.
const LETTER: i32 = 8;

/// A chart of lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    pub x_title: String,
    /// One column each.
    pub columns: Vec<String>,
    pub y_title: String,
    /// At most as many as [`SERIES`] has styles.
    pub series: Vec<Series>,
    /// A value to compare with, and its name.
    pub level: Option<(f64, String)>,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    /// One per column.
    pub points: Vec<Option<Point>>,
}

/// A value and the ends of its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Point {
    /// Creates a value that has no interval.
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }
}

/// Draws the lines, from 0 on, under their legend.
///
/// # Errors
///
/// The drawing fails.
pub fn lines(chart: &Lines) -> anyhow::Result<String> {
    let legend = legend_rows(chart);
    let top = LEGEND * (legend.len() as i32) + 16;
    let bottom = top + PLOT;

    let highest =
        chart.series.iter().flat_map(|s| s.points.iter().flatten()).map(|p| p.high.max(p.value));
    let end = highest.chain(chart.level.as_ref().map(|l| l.0)).fold(f64::MIN_POSITIVE, f64::max);
    let y = Linear { end: end * 1.06, from_px: bottom, to_px: top };

    svg(bottom + 52, |area| {
        for (row, series) in legend.iter().enumerate() {
            for &(i, at) in series {
                let middle = 12 + LEGEND * row as i32;
                sample(area, (at, middle), i)?;
                let style = font(15, HPos::Left, VPos::Center);
                text(area, (at + 42, middle), &style, &chart.series[i].name)?;
            }
        }
        axis::vertical(area, y, &chart.y_title, (LEFT, WIDTH - RIGHT))?;
        columns(area, chart, (top, bottom))?;
        if let Some((value, name)) = &chart.level {
            let at = y.px(*value);
            dashed(area, (LEFT, at), (WIDTH - RIGHT, at), AXIS.stroke_width(2))?;
            text(area, (WIDTH - RIGHT, at - 4), &font(15, HPos::Right, VPos::Bottom), name)?;
        }
        for i in 0..chart.series.len() {
            curve(area, chart, y, i)?;
        }
        Ok(())
    })
}

/// Returns which series are in which row of the legend, and where.
fn legend_rows(chart: &Lines) -> Vec<Vec<(usize, i32)>> {
    let mut rows: Vec<Vec<(usize, i32)>> = vec![Vec::new()];
    let mut at = LEFT;
    for (i, series) in chart.series.iter().enumerate() {
        let width = 70 + LETTER * series.name.chars().count() as i32;
        if at + width > WIDTH && at > LEFT {
            rows.push(Vec::new());
            at = LEFT;
        }
        if let Some(row) = rows.last_mut() {
            row.push((i, at));
        }
        at += width;
    }
    rows
}

fn column_px(chart: &Lines, column: usize) -> i32 {
    let width = f64::from(WIDTH - RIGHT - LEFT) / chart.columns.len().max(1) as f64;
    LEFT + ((column as f64 + 0.5) * width).round() as i32
}

/// Draws the horizontal axis, without labels that have no room.
fn columns(area: &Area, chart: &Lines, (top, bottom): (i32, i32)) -> Drawn {
    let longest = chart.columns.iter().map(|c| c.chars().count()).max().unwrap_or(0) as i32;
    let count = chart.columns.len() as i32;
    let every = ((longest + 1) * LETTER * count / (WIDTH - RIGHT - LEFT) + 1) as usize;
    let style = font(16, HPos::Center, VPos::Top);
    for (i, label) in chart.columns.iter().enumerate().step_by(every) {
        let at = column_px(chart, i);
        line(area, (at, top), (at, bottom), GRID.into())?;
        text(area, (at, bottom + 6), &style, label)?;
    }
    line(area, (LEFT, bottom), (WIDTH - RIGHT, bottom), AXIS.into())?;
    text(area, ((LEFT + WIDTH - RIGHT) / 2, bottom + 27), &style, &chart.x_title)
}

fn curve(area: &Area, chart: &Lines, y: Linear, i: usize) -> Drawn {
    let style = SERIES[i % SERIES.len()];
    let few = chart.columns.len() <= 24;
    // Aside, so that errors of several lines do not hide each other.
    let errors = chart.series[i].points.iter().flatten().any(|p| p.high > p.low);
    let aside = if errors { 10 * i as i32 - 5 * (chart.series.len() as i32 - 1) } else { 0 };
    let mut before = None;
    for (column, point) in chart.series[i].points.iter().enumerate() {
        let Some(Point { value, low, high }) = *point else {
            before = None;
            continue;
        };
        let at = (column_px(chart, column) + aside, y.px(value));
        if let Some(before) = before.replace(at) {
            stroke(area, before, at, style)?;
        }
        if high > low {
            let (high, low) = (y.px(high), y.px(low.max(0.0)));
            line(area, (at.0, high), (at.0, low), style.colour.stroke_width(2))?;
            for end in [high, low] {
                line(area, (at.0 - 4, end), (at.0 + 4, end), style.colour.stroke_width(2))?;
            }
        }
    }
    for (column, point) in chart.series[i].points.iter().enumerate().filter(|_| few) {
        if let Some(Point { value, .. }) = point {
            style.shape.draw(
                area,
                (column_px(chart, column) + aside, y.px(*value)),
                style.colour,
            )?;
        }
    }
    Ok(())
}

fn stroke(area: &Area, from: (i32, i32), to: (i32, i32), style: Style) -> Drawn {
    match style.dashed {
        true => dashed(area, from, to, style.colour.stroke_width(2)),
        false => line(area, from, to, style.colour.stroke_width(2)),
    }
}

fn sample(area: &Area, at: (i32, i32), i: usize) -> Drawn {
    let style = SERIES[i % SERIES.len()];
    stroke(area, at, (at.0 + 34, at.1), style)?;
    style.shape.draw(area, (at.0 + 17, at.1), style.colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Lines {
        let point =
            |value: f64, error: f64| Some(Point { value, low: value - error, high: value + error });
        let series = |name: &str, points: &[Option<Point>]| Series {
            name: name.into(),
            points: points.to_vec(),
        };
        Lines {
            x_title: "object (BDP)".into(),
            columns: ["0.25", "1", "4"].map(String::from).to_vec(),
            y_title: "ratio".into(),
            series: vec![
                series("fibre", &[point(1.0, 0.1), point(0.5, 0.1), point(0.4, 0.1)]),
                series("GEO", &[point(0.9, 0.0), None, point(0.3, 0.0)]),
            ],
            level: Some((1.0, "no gain".into())),
        }
    }

    #[test]
    fn lines_name_series_and_mark_values() {
        let svg = lines(&chart()).expect("drawn");
        for part in ["object (BDP)", "ratio", "fibre", "GEO", "no gain", "0.25"] {
            assert!(svg.contains(part), "{part}");
        }
        // Three values and the legend's.
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn labels_without_room_are_omitted() {
        let mut chart = chart();
        chart.columns = (0..200).map(|i| format!("round {i}")).collect();
        let svg = lines(&chart).expect("drawn");
        assert!(svg.matches("round ").count() <= 15);
    }

    #[test]
    fn long_legend_takes_several_rows() {
        let mut chart = chart();
        for series in &mut chart.series {
            series.name = "a name that is long enough to fill more than half of a row of it".into();
        }
        assert_eq!(legend_rows(&chart).len(), 2);
    }
}
