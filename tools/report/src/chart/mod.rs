//! Charts as SVG.

pub mod axis;
mod bars;
pub mod drawing;
mod heat;
mod lines;
pub mod palette;
pub mod style;

pub use bars::bars;
pub use bars::Bar;
pub use bars::Bars;
pub use heat::heat;
pub use heat::Heat;
pub use lines::lines;
pub use lines::Lines;
pub use lines::Series;
