//! Palette of charts.
//!
//! Colours are those of Okabe and Ito, which the colour-blind can distinguish;
//! colour is never the only difference. A page's style sheet may give [`TEXT`],
//! [`GRID`] and [`AXIS`] other colours, by their values, for dark screens.

use plotters::style::RGBColor;

pub const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub const AXIS: RGBColor = RGBColor(0x77, 0x77, 0x77);

pub const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub const ORANGE: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);

/// Shades of the phases of Careful Resume.
pub const PHASES: [(&str, RGBColor); 5] = [
    ("reconnaissance", RGBColor(0xe8, 0xe8, 0xe8)),
    ("unvalidated", RGBColor(0xff, 0xe3, 0xa8)),
    ("validating", RGBColor(0xcf, 0xe8, 0xf8)),
    ("safe_retreat", RGBColor(0xf6, 0xc4, 0xc0)),
    ("normal", RGBColor(0xff, 0xff, 0xff)),
];
