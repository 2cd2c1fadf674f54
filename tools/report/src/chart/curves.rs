//! Chart of curves over a number or a time, with shaded stretches behind them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;

use super::axis;
use super::axis::Linear;
use super::axis::Unit;
use super::drawing::dash;
use super::drawing::font;
use super::drawing::line;
use super::drawing::svg;
use super::drawing::text;
use super::drawing::Area;
use super::drawing::Drawn;
use super::drawing::WIDTH;
use super::palette::AXIS;
use super::style::SERIES;

const PLOT: i32 = 240;
const LEGEND: i32 = 24;
const LEFT: i32 = 78;
const RIGHT: i32 = 24;
/// Of a letter, about.
const LETTER: i32 = 8;

/// A chart of curves, from 0 on in both directions.
#[derive(Clone, Debug)]
pub struct Curves {
    pub x_title: String,
    pub x_unit: Unit,
    pub x_end: f64,
    pub y_title: String,
    /// Curves beyond the styles of [`SERIES`] have the last one.
    pub curves: Vec<NumberCurve>,
    pub stretches: Vec<Stretch>,
}

/// One curve: a value holds until the next point.
#[derive(Clone, Debug, Default)]
pub struct NumberCurve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A stretch of the horizontal axis with a name.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub from: f64,
    pub to: f64,
    pub name: String,
    pub shade: RGBColor,
}

/// Draws the curves under their legend.
///
/// # Errors
///
/// The drawing fails.
pub fn curves(chart: &Curves) -> anyhow::Result<String> {
    let legend = legend_rows(&chart.curves);
    let names = if chart.stretches.is_empty() { 16 } else { 34 };
    let top = LEGEND * legend.len() as i32 + names;
    let bottom = top + PLOT;
    let values = chart.curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
    let y_end = values.fold(f64::MIN_POSITIVE, f64::max);
    let x = Linear { end: chart.x_end, from_px: LEFT, to_px: WIDTH - RIGHT };
    let y = Linear { end: y_end * 1.05, from_px: bottom, to_px: top };
    let drawn = svg(bottom + 52, |area| {
        shade(area, x, &chart.stretches, (top, bottom))?;
        axis::horizontal(area, x, chart.x_unit, &chart.x_title, (top, bottom))?;
        axis::vertical(area, y, &chart.y_title, (LEFT, WIDTH - RIGHT))?;
        for (row, entries) in legend.iter().enumerate() {
            for &(index, at) in entries {
                let middle = 12 + LEGEND * row as i32;
                line(area, (at, middle), (at + 34, middle), style(index).stroke_width(3))?;
                let words = font(15, HPos::Left, VPos::Center);
                text(area, (at + 42, middle), &words, &chart.curves[index].name)?;
            }
        }
        // The first one on top.
        for (index, curve) in chart.curves.iter().enumerate().rev() {
            steps(area, (x, y), curve, style(index))?;
        }
        Ok(())
    })?;
    let dashed = SERIES.iter().take(chart.curves.len()).filter(|style| style.dashed);
    Ok(dashed.fold(drawn, |svg, style| dash(&svg, style.colour)))
}

fn style(index: usize) -> RGBColor {
    SERIES[index.min(SERIES.len() - 1)].colour
}

fn legend_rows(curves: &[NumberCurve]) -> Vec<Vec<(usize, i32)>> {
    let mut rows: Vec<Vec<(usize, i32)>> = vec![Vec::new()];
    let mut at = LEFT;
    for (index, curve) in curves.iter().enumerate().filter(|(_, curve)| !curve.name.is_empty()) {
        let width = 70 + LETTER * curve.name.chars().count() as i32;
        if at + width > WIDTH && at > LEFT {
            rows.push(Vec::new());
            at = LEFT;
        }
        if let Some(row) = rows.last_mut() {
            row.push((index, at));
        }
        at += width;
    }
    rows
}

fn shade(area: &Area, x: Linear, stretches: &[Stretch], (top, bottom): (i32, i32)) -> Drawn {
    for stretch in stretches {
        let (from, to) = (x.px(stretch.from), x.px(stretch.to.min(x.end)));
        area.draw(&Rectangle::new([(from, top), (to, bottom)], stretch.shade.filled()))?;
        line(area, (from, top - 6), (from, bottom), AXIS.stroke_width(1))?;
        // Less than 5.5 pixels a letter; what has no room is in the legend.
        let room = (to - from) * 2 / 11;
        let words = if stretch.name.len() as i32 <= room { stretch.name.as_str() } else { "" };
        let style = font(13, HPos::Center, VPos::Bottom);
        text(area, ((from + to) / 2, top - 6), &style, words)?;
    }
    Ok(())
}

fn steps(area: &Area, (x, y): (Linear, Linear), curve: &NumberCurve, colour: RGBColor) -> Drawn {
    let mut points: Vec<(i32, i32)> = Vec::with_capacity(2 * curve.points.len());
    for &(at, value) in &curve.points {
        let point = (x.px(at.min(x.end)), y.px(value));
        if let Some(&(_, before)) = points.last().filter(|before| before.1 != point.1) {
            points.push((point.0, before));
        }
        points.push(point);
    }
    area.draw(&PathElement::new(points, colour.stroke_width(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_name_their_axes_stretches_and_series() {
        let curve = |name: &str| NumberCurve {
            name: name.into(),
            points: vec![(0.0, 0.0), (5.0, 1.0), (9.0, 0.5)],
        };
        let chart = Curves {
            x_title: "time".into(),
            x_unit: Unit { name: "ms", size: 1.0 },
            x_end: 10.0,
            y_title: "share".into(),
            curves: vec![curve("first"), curve("second"), curve("third"), curve("")],
            stretches: vec![Stretch {
                from: 2.0,
                to: 8.0,
                name: "validating".into(),
                shade: RGBColor(0xcf, 0xe8, 0xf8),
            }],
        };
        let svg = curves(&chart).expect("drawn");
        for part in ["time (ms)", "share", "first", "second", "third", "validating", "dasharray"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(svg.matches("<polyline").count() >= 4, "{svg}");
    }
}
