//! Heat map with its values.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::VPos;

use super::drawing::font;
use super::drawing::svg;
use super::drawing::text;
use super::drawing::upright;
use super::drawing::WIDTH;

/// Height of a cell, and of one with an interval.
const CELL: i32 = 34;
const CELL_TALL: i32 = 46;
const LEFT: i32 = 96;
const TOP: i32 = 6;

/// From low to high; equally far apart for everybody, and in grey as well.
const SHADES: [RGBColor; 5] = [
    RGBColor(0xfd, 0xf1, 0xb8),
    RGBColor(0xd2, 0xc0, 0x6b),
    RGBColor(0x8f, 0x8f, 0x78),
    RGBColor(0x4b, 0x5b, 0x78),
    RGBColor(0x00, 0x22, 0x4e),
];

/// Colours of text on light and on dark cells. A style sheet leaves both alone.
const ON_LIGHT: RGBColor = RGBColor(0x10, 0x10, 0x10);
const ON_DARK: RGBColor = RGBColor(0xfe, 0xfe, 0xfe);

/// Values by row and column.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    pub x_title: String,
    pub columns: Vec<String>,
    pub y_title: String,
    pub rows: Vec<String>,
    /// By row, then by column.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The ends of the interval of each; none at all if empty.
    pub intervals: Vec<Vec<Option<(f64, f64)>>>,
    /// Decimals of the values.
    pub digits: usize,
}

/// Draws every value on its shade, from the least value to the greatest.
///
/// # Errors
///
/// The drawing fails.
pub fn heat(chart: &Heat) -> anyhow::Result<String> {
    let all = || chart.cells.iter().flatten().flatten().copied();
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
    let height = if chart.intervals.is_empty() { CELL } else { CELL_TALL };
    let bottom = TOP + height * chart.rows.len() as i32;
    let column = |i: usize| {
        LEFT + (i as f64 * f64::from(WIDTH - LEFT - 8) / chart.columns.len().max(1) as f64) as i32
    };

    svg(bottom + 52, |area| {
        for (r, label) in chart.rows.iter().enumerate() {
            let y = TOP + height * r as i32;
            let middle = y + height / 2;
            text(area, (LEFT - 8, middle), &font(16, HPos::Right, VPos::Center), label)?;
            let cells = chart.cells.get(r).map_or(&[][..], Vec::as_slice);
            for (c, value) in cells.iter().enumerate() {
                let Some(value) = *value else { continue };
                let (fill, ink) = shade((value - least) / (most - least).max(f64::MIN_POSITIVE));
                let (from, to) = (column(c), column(c + 1));
                let cell = [(from + 1, y + 1), (to - 1, y + height - 1)];
                area.draw(&Rectangle::new(cell, fill.filled()))?;
                let style = font(16, HPos::Center, VPos::Center).color(&ink);
                let number = |value: f64| format!("{value:.*}", chart.digits);
                let centre = (from + to) / 2;
                let interval = chart.intervals.get(r).and_then(|row| *row.get(c)?);
                let Some((low, high)) = interval else {
                    text(area, (centre, middle), &style, &number(value))?;
                    continue;
                };
                text(area, (centre, middle - 8), &style, &number(value))?;
                let style = font(12, HPos::Center, VPos::Center).color(&ink);
                let words = format!("{}–{}", number(low), number(high));
                text(area, (centre, middle + 11), &style, &words)?;
            }
        }
        let style = font(16, HPos::Center, VPos::Top);
        for (c, label) in chart.columns.iter().enumerate() {
            text(area, ((column(c) + column(c + 1)) / 2, bottom + 6), &style, label)?;
        }
        text(area, ((LEFT + WIDTH) / 2, bottom + 27), &style, &chart.x_title)?;
        upright(area, (8, (TOP + bottom) / 2), &chart.y_title)
    })
}

/// Returns the colours of the cell and the text of a value from 0 to 1.
fn shade(part: f64) -> (RGBColor, RGBColor) {
    let place = part.clamp(0.0, 1.0) * (SHADES.len() - 1) as f64;
    let below = (place as usize).min(SHADES.len() - 2);
    let (low, high, part) = (SHADES[below], SHADES[below + 1], place - below as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + part * (f64::from(b) - f64::from(a))).round() as u8;
    let fill = RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2));
    (fill, if place < 2.0 { ON_LIGHT } else { ON_DARK })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_cells_show_values_or_stay_empty() {
        let chart = Heat {
            x_title: "rate (Mbit/s)".into(),
            columns: vec!["1".into(), "10".into()],
            y_title: "RTT (ms)".into(),
            rows: vec!["5".into(), "800".into()],
            cells: vec![vec![Some(1.0), None], vec![Some(1.25), Some(2.5)]],
            digits: 2,
            intervals: vec![vec![None, None], vec![Some((1.2, 1.3)), None]],
        };
        let svg = heat(&chart).expect("drawn");
        assert_eq!(svg.matches("<rect").count(), 3);
        for part in ["1.20–1.30", "1.00", "1.25", "2.50", "rate (Mbit/s)", "RTT (ms)", "800"] {
            assert!(svg.contains(part), "{part}");
        }
    }

    #[test]
    fn shades_have_a_readable_text_colour() {
        assert_eq!(shade(0.0), (SHADES[0], ON_LIGHT));
        assert_eq!(shade(1.0), (SHADES[4], ON_DARK));
    }
}
