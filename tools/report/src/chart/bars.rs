//! Bar chart: horizontal bars with the runs behind them and the bounds before them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;

use super::axis;
use super::axis::Linear;
use super::axis::Unit;
use super::drawing::dashed;
use super::drawing::font;
use super::drawing::line;
use super::drawing::svg;
use super::drawing::text;
use super::drawing::Area;
use super::drawing::Drawn;
use super::drawing::WIDTH;
use super::palette::AXIS;
use super::palette::TEXT;

/// Of a bar with a dot a run, and of one without.
const ROW: i32 = 46;
const ROW_PLAIN: i32 = 30;
const MARK: i32 = 17;
const LEFT_MIN: i32 = 210;
/// Of a letter, about.
const LETTER: i32 = 8;
const RIGHT: i32 = 55;

/// A chart of bars from top to bottom.
#[derive(Clone, Debug)]
pub struct Bars {
    pub title: &'static str,
    pub unit: Unit,
    pub bars: Vec<Bar>,
    /// Values marked across all bars, from the least on, with their names.
    pub marks: Vec<(f64, String)>,
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    /// A dot each, in ascending order.
    pub runs: Vec<f64>,
    /// The ends of the value's interval.
    pub interval: Option<(f64, f64)>,
    pub colour: RGBColor,
    /// A value marked on this bar alone.
    pub bound: Option<f64>,
    /// Written at the end of the bar.
    pub words: String,
}

impl Bar {
    /// Returns the greatest value that is drawn of it.
    fn end(&self) -> f64 {
        let run = self.runs.last().copied().unwrap_or(self.value);
        run.max(self.interval.map_or(run, |(_, high)| high))
    }
}

/// Draws bars up to their values, with their intervals, a dot a run, and the marks.
///
/// # Errors
///
/// The drawing fails.
pub fn bars(chart: &Bars) -> anyhow::Result<String> {
    let marks = chart.marks.len() as i32;
    let top = 14 + MARK * marks;
    let plain = chart.bars.iter().all(|b| b.runs.is_empty());
    let height = if plain { ROW_PLAIN } else { ROW };
    let bottom = top + height * chart.bars.len() as i32;

    let highest = chart.bars.iter().map(Bar::end);
    let end = highest.chain(chart.marks.iter().map(|m| m.0)).fold(1.0, f64::max);
    // The words are written to the right of their bar.
    let longest = chart.bars.iter().map(|b| b.label.chars().count()).max().unwrap_or(0) as i32;
    let from_px = LEFT_MIN.max(24 + LETTER * longest);
    let x = Linear { end: end * 1.3, from_px, to_px: WIDTH - RIGHT };

    svg(bottom + 52, |area| {
        axis::horizontal(area, x, chart.unit, chart.title, (top, bottom))?;
        // From left to right downwards, so that no line crosses a label.
        for ((value, name), y) in chart.marks.iter().zip((12..).step_by(MARK as usize)) {
            let at = x.px(*value);
            dashed(area, (at, y), (at, bottom), AXIS.into())?;
            text(area, (at + 5, y), &font(15, HPos::Left, VPos::Center), name)?;
        }
        for (bar, y) in chart.bars.iter().zip((top + height / 2..).step_by(height as usize)) {
            row(area, x, bar, y)?;
        }
        Ok(())
    })
}

fn row(area: &Area, x: Linear, bar: &Bar, y: i32) -> Drawn {
    let end = x.px(bar.value);
    let body = [(x.px(0.0), y - 12), (end, y + 12)];
    area.draw(&Rectangle::new(body, bar.colour.mix(0.25).filled()))?;
    line(area, (end, y - 14), (end, y + 14), bar.colour.stroke_width(3))?;
    if let Some((low, high)) = bar.interval {
        let (low, high) = (x.px(low.max(0.0)), x.px(high));
        line(area, (low, y), (high, y), TEXT.stroke_width(2))?;
        for at in [low, high] {
            line(area, (at, y - 5), (at, y + 5), TEXT.stroke_width(2))?;
        }
    }
    if let Some(bound) = bar.bound {
        let at = x.px(bound);
        line(area, (at, y - 14), (at, y + 14), TEXT.stroke_width(2))?;
    }
    for (i, &run) in bar.runs.iter().enumerate() {
        // Spread, so that equal runs do not hide each other.
        let at = (x.px(run), y + (i as i32 * 7) % 15 - 7);
        area.draw(&Circle::new(at, 4, bar.colour.filled()))?;
        area.draw(&Circle::new(at, 4, WHITE.stroke_width(1)))?;
    }

    text(area, (x.from_px - 10, y), &font(16, HPos::Right, VPos::Center), &bar.label)?;
    text(area, (x.px(bar.end()) + 14, y), &font(16, HPos::Left, VPos::Center), &bar.words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::palette::BLUE;

    #[test]
    fn bars_have_a_dot_per_run_and_a_name_per_mark() {
        let bar = Bar {
            label: "resumed".into(),
            value: 280.0,
            runs: vec![270.0, 280.0, 300.0],
            interval: Some((275.0, 285.0)),
            colour: BLUE,
            bound: None,
            words: "median 280 ms".into(),
        };
        let chart = Bars {
            title: "time",
            unit: Unit::of_time(300.0),
            bars: vec![bar],
            marks: vec![(200.0, "bound: 200 ms".into())],
        };
        let svg = bars(&chart).expect("drawn");
        assert_eq!(svg.matches("<circle").count(), 6, "a dot and its rim");
        for part in ["resumed", "median 280 ms", "bound: 200 ms", "time (ms)"] {
            assert!(svg.contains(part), "{part}");
        }
    }
}
