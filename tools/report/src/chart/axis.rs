//! Axes: units, tick distances, and pixels of values.

use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;

use super::drawing::font;
use super::drawing::line;
use super::drawing::text;
use super::drawing::upright;
use super::drawing::Area;
use super::drawing::Drawn;
use super::palette::AXIS;
use super::palette::GRID;

/// Unit of an axis's labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    pub name: &'static str,
    pub size: f64,
}

impl Unit {
    /// Chooses milliseconds or seconds for an axis up to `end_ms`.
    pub fn of_time(end_ms: f64) -> Self {
        match end_ms > 2000.0 {
            true => Unit { name: "s", size: 1000.0 },
            false => Unit { name: "ms", size: 1.0 },
        }
    }
}

/// Returns a tick distance of 1, 2 or 5 times a power of ten that gives at most
/// `ticks_max` ticks up to `end`.
pub fn step(end: f64, ticks_max: f64) -> f64 {
    let least = (end / ticks_max).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= least).unwrap_or(least)
}

/// Returns the tick's label, with as many decimals as its step needs.
pub fn label(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

/// Ticks from 0 to `end`.
pub fn ticks(end: f64, step: f64) -> Vec<f64> {
    let count = (end / step + 1e-9).floor() as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

/// A linear axis from values, from 0 on, to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    pub end: f64,
    pub from_px: i32,
    pub to_px: i32,
}

impl Linear {
    pub fn px(&self, value: f64) -> i32 {
        let part = value / self.end.max(f64::MIN_POSITIVE);
        self.from_px + (part * f64::from(self.to_px - self.from_px)).round() as i32
    }
}

/// Draws a horizontal axis at `bottom`: ticks, labels and title, and its grid
/// up to `top`.
///
/// # Errors
///
/// None with an SVG in memory.
pub fn horizontal(
    area: &Area,
    x: Linear,
    unit: Unit,
    title: &str,
    (top, bottom): (i32, i32),
) -> Drawn {
    let distance = step(x.end / unit.size, 12.0);
    let style = font(16, HPos::Center, VPos::Top);
    for tick in ticks(x.end / unit.size, distance) {
        let at = x.px(tick * unit.size);
        line(area, (at, top), (at, bottom), GRID.into())?;
        text(area, (at, bottom + 6), &style, &label(tick, distance))?;
    }
    line(area, (x.from_px, bottom), (x.to_px, bottom), AXIS.into())?;
    let middle = (x.from_px + x.to_px) / 2;
    let words = if unit.name.is_empty() { title } else { &format!("{title} ({})", unit.name) };
    text(area, (middle, bottom + 27), &style, words)
}

/// Draws a vertical axis left of `from` with its grid up to `to`, both in
/// pixels; the title stands at the left edge of the drawing.
///
/// # Errors
///
/// None with an SVG in memory.
pub fn vertical(area: &Area, y: Linear, title: &str, (from, to): (i32, i32)) -> Drawn {
    let distance = step(y.end, 7.0);
    let style = font(16, HPos::Right, VPos::Center);
    for tick in ticks(y.end, distance) {
        let at = y.px(tick);
        line(area, (from, at), (to, at), GRID.into())?;
        text(area, (from - 8, at), &style, &label(tick, distance))?;
    }
    line(area, (from, y.to_px), (from, y.from_px), AXIS.into())?;
    upright(area, (8, (y.from_px + y.to_px) / 2), title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (end, expected) in
            [(620.0, 100.0), (6.3, 1.0), (6100.0, 1000.0), (0.9, 0.1), (17.0, 2.0)]
        {
            let s = step(end, 10.0);
            assert!((s - expected).abs() < 1e-9, "{end}: {s}");
            assert!(ticks(end, s).len() <= 11);
        }
        assert_eq!(ticks(0.3, 0.1).len(), 4);
    }

    #[test]
    fn labels_have_no_more_digits_than_their_step() {
        assert_eq!(label(300.0, 100.0), "300");
        assert_eq!(label(0.5, 0.5), "0.5");
        assert_eq!(label(0.25, 0.05), "0.25");
    }

    #[test]
    fn axis_of_long_times_is_in_seconds() {
        assert_eq!(Unit::of_time(6100.0).name, "s");
        assert_eq!(Unit::of_time(900.0).name, "ms");
    }

    #[test]
    fn values_lie_between_the_ends_of_their_axis() {
        let y = Linear { end: 10.0, from_px: 300, to_px: 100 };
        assert_eq!([0.0, 5.0, 10.0].map(|v| y.px(v)), [300, 200, 100]);
        assert_eq!(Linear { end: 0.0, ..y }.px(0.0), 300);
    }
}
