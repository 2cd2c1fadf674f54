//! Drawing of the gain: the ratio of each quantile and size class, with its confidence interval.

use ab_test::ClassGain;
use ab_test::Gain;
use ab_test::QuantileGain;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;
use report::chart::axis;
use report::chart::axis::Linear;
use report::chart::axis::Unit;
use report::chart::drawing::dashed;
use report::chart::drawing::font;
use report::chart::drawing::line;
use report::chart::drawing::svg;
use report::chart::drawing::text;
use report::chart::drawing::Area;
use report::chart::drawing::Drawn;
use report::chart::drawing::WIDTH;
use report::chart::palette::AXIS;
use report::chart::style::SERIES;

use crate::failure::Failure;

const ROW: i32 = 30;
const TOP: i32 = 16;
const LEFT: i32 = 170;
const RIGHT: i32 = 170;
const BELOW: i32 = 56;

const TITLE: &str = "time to the last byte, Careful Resume divided by control";
const NO_UNIT: Unit = Unit { name: "1 is no gain", size: 1.0 };

/// Draws one row for each quantile. The SVG has a white background of its own.
pub fn draw(gain: &Gain) -> Result<String, Failure> {
    let rows: Vec<(&ClassGain, &QuantileGain)> = gain
        .classes
        .iter()
        .flat_map(|class| class.quantiles.iter().map(move |quantile| (class, quantile)))
        .collect();
    if rows.is_empty() {
        return Err("the sample is too small for a drawing; log for longer".into());
    }
    let end = rows.iter().map(|(_, row)| row.ratio.high).fold(1.1, f64::max) * 1.05;
    let x = Linear { end, from_px: LEFT, to_px: WIDTH - RIGHT };
    let bottom = TOP + ROW * rows.len() as i32;

    let drawn = svg(bottom + BELOW, |area| {
        area.fill(&WHITE)?;
        axis::horizontal(area, x, NO_UNIT, TITLE, (TOP, bottom))?;
        dashed(area, (x.px(1.0), TOP), (x.px(1.0), bottom), AXIS.stroke_width(2))?;
        for ((class, row), i) in rows.iter().zip(0..) {
            interval(area, x, TOP + ROW * i + ROW / 2, class, row)?;
        }
        Ok(())
    });
    Ok(drawn.map_err(|e| e.to_string())?)
}

fn interval(area: &Area, x: Linear, y: i32, class: &ClassGain, row: &QuantileGain) -> Drawn {
    let name = format!("{}, p{}", class.size, row.percent.percent());
    text(area, (LEFT - 10, y), &font(16, HPos::Right, VPos::Center), &name)?;
    let style = SERIES[0];
    let (low, high) = (x.px(row.ratio.low), x.px(row.ratio.high));
    line(area, (low, y), (high, y), style.colour.stroke_width(2))?;
    for end in [low, high] {
        line(area, (end, y - 5), (end, y + 5), style.colour.stroke_width(2))?;
    }
    style.shape.draw(area, (x.px(row.ratio.value), y), style.colour)?;
    let words = format!("{:+.0} ms", row.difference_ms.value);
    text(area, (WIDTH - RIGHT + 12, y), &font(16, HPos::Left, VPos::Center), &words)
}
