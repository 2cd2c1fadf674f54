//! Names of controllers and of slow-start exits, as people write them.

use super::data::Cell;
use crate::scenario::Controller;

/// As people write it.
pub fn controller_name(cc: Controller) -> &'static str {
    match cc {
        Controller::Cubic => "CUBIC",
        Controller::Reno => "Reno",
    }
}

/// The key of what may end slow start before loss does.
pub const EXIT: &str = "flow.slow_start_exit";

/// What ends slow start, as people write it.
pub fn exit_name(cell: &Cell) -> &'static str {
    match cell.said(EXIT).as_str() {
        "queue" => "a standing queue",
        "rapid" => "Rapid Start, a standing queue",
        "hystart" => "HyStart++",
        "search" => "SEARCH 4.0",
        "search-3" => "SEARCH 3.x",
        _ => "loss alone",
    }
}
