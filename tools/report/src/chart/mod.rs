//! Charts as SVG, and what they are drawn with.
//!
//! Colours are those of Okabe and Ito, which the colour-blind can tell apart;
//! nothing is told by colour alone. A page's style sheet may give [`TEXT`],
//! [`GRID`] and [`AXIS`] other colours, by their values, for dark screens.

pub mod axis;
mod bars;
mod heat;
mod lines;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::Pos;
use plotters::style::text_anchor::VPos;

pub use bars::bars;
pub use bars::Bar;
pub use bars::Bars;
pub use heat::heat;
pub use heat::Heat;
pub use lines::lines;
pub use lines::Lines;
pub use lines::Series;
pub use plotters::style::RGBColor;

/// Width of every chart, in pixels.
pub const WIDTH: i32 = 980;

pub const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub const AXIS: RGBColor = RGBColor(0x77, 0x77, 0x77);

pub const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub const ORANGE: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);

/// How one of several lines is drawn, so that it can be told from the others.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub colour: RGBColor,
    pub shape: Shape,
    pub dashed: bool,
}

/// The styles of a chart's lines, in their order.
pub const SERIES: [Style; 5] = [
    Style { colour: ORANGE, shape: Shape::Circle, dashed: false },
    Style { colour: BLUE, shape: Shape::Square, dashed: false },
    Style { colour: RGBColor(0x00, 0x9e, 0x73), shape: Shape::Triangle, dashed: true },
    Style { colour: RGBColor(0xcc, 0x79, 0xa7), shape: Shape::Cross, dashed: false },
    Style { colour: GREY, shape: Shape::Circle, dashed: true },
];

/// What marks a value on a line.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Circle,
    Square,
    Triangle,
    Cross,
}

impl Shape {
    /// # Errors
    ///
    /// None with an SVG in memory.
    pub fn draw(self, area: &Area, (x, y): (i32, i32), colour: RGBColor) -> Drawn {
        let fill = colour.filled();
        match self {
            Shape::Circle => area.draw(&Circle::new((x, y), 5, fill)),
            Shape::Square => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], fill)),
            Shape::Triangle => area.draw(&TriangleMarker::new((x, y), 7, fill)),
            Shape::Cross => area.draw(&Cross::new((x, y), 5, colour.stroke_width(3))),
        }
    }
}

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// An SVG of [`WIDTH`] and `height` pixels.
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

/// Text of `size` pixels, anchored as told.
pub fn font(size: i32, h: HPos, v: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&TEXT).pos(Pos::new(h, v))
}

/// # Errors
///
/// None with an SVG in memory; the same goes for the other elements.
pub fn text(area: &Area, at: (i32, i32), style: &TextStyle, words: &str) -> Drawn {
    area.draw(&Text::new(words.to_string(), at, style.clone()))
}

/// The title of a vertical axis.
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
