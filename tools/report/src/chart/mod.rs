//! Charts as SVG.

pub mod axis;
mod bars;
mod boxes;
mod curves;
pub mod drawing;
mod heat;
mod lines;
pub mod palette;
pub mod style;

pub use bars::bars;
pub use bars::Bar;
pub use bars::Bars;
pub use boxes::boxes;
pub use boxes::BoxGroup;
pub use boxes::Boxes;
pub use curves::curves;
pub use curves::Curves;
pub use curves::NumberCurve;
pub use curves::Stretch;
pub use heat::heat;
pub use heat::Heat;
pub use lines::lines;
pub use lines::Lines;
pub use lines::Point;
pub use lines::Series;
