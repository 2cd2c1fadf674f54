//! Drawing of a chart: an SVG, and the elements that all charts have.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::Pos;
use plotters::style::text_anchor::VPos;

use super::palette::TEXT;

/// Width of every chart, in pixels.
pub const WIDTH: i32 = 980;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws an SVG of [`WIDTH`] and `height` pixels.
///
/// # Errors
///
/// Those of `draw`.
pub fn svg(height: i32, draw: impl FnOnce(&Area) -> Drawn) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let size = (WIDTH as u32, height as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// Returns the style of text of `size` pixels with this anchor.
pub fn font(size: i32, h: HPos, v: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&TEXT).pos(Pos::new(h, v))
}

/// # Errors
///
/// None with an SVG in memory; the same goes for the other elements.
pub fn text(area: &Area, at: (i32, i32), style: &TextStyle, words: &str) -> Drawn {
    area.draw(&Text::new(words.to_string(), at, style.clone()))
}

/// Draws the title of a vertical axis.
///
/// # Errors
///
/// None with an SVG in memory.
pub fn upright(area: &Area, at: (i32, i32), words: &str) -> Drawn {
    let style = font(16, HPos::Center, VPos::Top).transform(FontTransform::Rotate270);
    text(area, at, &style, words)
}

/// # Errors
///
/// None with an SVG in memory.
pub fn line(area: &Area, from: (i32, i32), to: (i32, i32), style: ShapeStyle) -> Drawn {
    area.draw(&PathElement::new([from, to], style))
}

/// # Errors
///
/// None with an SVG in memory.
pub fn dashed(area: &Area, from: (i32, i32), to: (i32, i32), style: ShapeStyle) -> Drawn {
    area.draw(&DashedPathElement::new(vec![from, to], 4, 4, style))
}

/// Dashes every line of a colour: plotters would cut a curve into one element a
/// dash.
pub fn dash(svg: &str, colour: RGBColor) -> String {
    let RGBColor(r, g, b) = colour;
    let stroke = format!("stroke=\"#{r:02X}{g:02X}{b:02X}\"");
    svg.replace(&stroke, &format!("{stroke} stroke-dasharray=\"7 4\""))
}
