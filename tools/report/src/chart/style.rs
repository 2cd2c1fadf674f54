//! Styles of the lines of a chart.

use plotters::prelude::*;

use super::drawing::Area;
use super::drawing::Drawn;
use super::palette::BLUE;
use super::palette::GREY;
use super::palette::ORANGE;

/// Style that distinguishes one of several lines.
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

/// Mark of a value on a line.
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
