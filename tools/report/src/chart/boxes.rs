//! Box plot: a row for each group of values, with a dot for each.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;

use super::axis;
use super::axis::Linear;
use super::drawing::font;
use super::drawing::line;
use super::drawing::svg;
use super::drawing::text;
use super::drawing::Area;
use super::drawing::Drawn;
use super::drawing::WIDTH;
use super::palette::TEXT;
use super::style::SERIES;
use crate::stats::quantile;

const ROW: i32 = 46;
const TOP: i32 = 14;
const LEFT_MIN: i32 = 120;
/// Of a letter, about.
const LETTER: i32 = 8;
const RIGHT: i32 = 24;

/// A chart of boxes from top to bottom.
#[derive(Clone, Debug, Default)]
pub struct Boxes {
    pub title: String,
    pub unit: Option<axis::Unit>,
    pub groups: Vec<BoxGroup>,
}

/// One box: from the first to the third quartile, with a line at the median; the whiskers end at
/// the least and the greatest value.
#[derive(Clone, Debug, Default)]
pub struct BoxGroup {
    pub label: String,
    /// At least one, in any order.
    pub values: Vec<f64>,
    /// A value to compare with: a bound.
    pub mark: Option<f64>,
    /// Which style of lines it has.
    pub style: usize,
}

/// Draws the boxes, from 0 on.
///
/// # Errors
///
/// The drawing fails.
pub fn boxes(chart: &Boxes) -> anyhow::Result<String> {
    let bottom = TOP + ROW * chart.groups.len() as i32;
    let values = chart.groups.iter().flat_map(|group| group.values.iter().chain(&group.mark));
    let end = values.copied().fold(f64::MIN_POSITIVE, f64::max);
    let longest = chart.groups.iter().map(|g| g.label.chars().count()).max().unwrap_or(0) as i32;
    let from_px = LEFT_MIN.max(24 + LETTER * longest).min(WIDTH / 2);
    let x = Linear { end: end * 1.04, from_px, to_px: WIDTH - RIGHT };
    let unit = chart.unit.unwrap_or(axis::Unit { name: "", size: 1.0 });
    svg(bottom + 52, |area| {
        axis::horizontal(area, x, unit, &chart.title, (TOP, bottom))?;
        for (group, y) in chart.groups.iter().zip((TOP + ROW / 2..).step_by(ROW as usize)) {
            row(area, x, group, y)?;
        }
        Ok(())
    })
}

fn row(area: &Area, x: Linear, group: &BoxGroup, y: i32) -> Drawn {
    let label = font(16, HPos::Right, VPos::Center);
    text(area, (x.from_px - 10, y), &label, &group.label)?;
    let colour = SERIES[group.style % SERIES.len()].colour;
    let mut values = group.values.clone();
    values.sort_by(f64::total_cmp);
    let at = |share| quantile(&values, share).map_or(x.from_px, |value| x.px(value));
    let (first, third) = (at(0.25), at(0.75));
    line(area, (at(0.0), y), (at(1.0), y), colour.stroke_width(1))?;
    area.draw(&Rectangle::new([(first, y - 12), (third, y + 12)], colour.mix(0.25).filled()))?;
    area.draw(&Rectangle::new([(first, y - 12), (third, y + 12)], colour.stroke_width(1)))?;
    line(area, (at(0.5), y - 14), (at(0.5), y + 14), colour.stroke_width(3))?;
    for (index, &value) in values.iter().enumerate() {
        // Spread, so that equal values do not hide each other.
        let dot = (x.px(value), y + (index as i32 * 7) % 15 - 7);
        area.draw(&Circle::new(dot, 3, colour.filled()))?;
    }
    match group.mark {
        Some(mark) => line(area, (x.px(mark), y - 18), (x.px(mark), y + 18), TEXT.stroke_width(2)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_have_a_dot_per_value_and_their_labels() {
        let group = |label: &str, values: &[f64]| BoxGroup {
            label: label.into(),
            values: values.to_vec(),
            ..BoxGroup::default()
        };
        let chart = Boxes {
            title: "lost packets".into(),
            groups: vec![group("a", &[3.0, 1.0, 2.0]), group("b", &[7.0])],
            ..Boxes::default()
        };
        let svg = boxes(&chart).expect("drawn");
        assert_eq!(svg.matches("<circle").count(), 4);
        for part in ["lost packets", ">\na\n<", ">\nb\n<"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }
}
