//! Names of controllers and of slow-start exits, in the usual spelling.

use super::data::Cell;
use crate::scenario::Controller;

/// Returns the usual spelling.
pub fn controller_name(cc: Controller) -> &'static str {
    match cc {
        Controller::Cubic => "CUBIC",
        Controller::Reno => "Reno",
        Controller::Bbr2 => "BBR2",
    }
}

/// The key of what may end slow start before loss does.
pub const EXIT: &str = "flow.slow_start_exit";

/// Returns what ends slow start, in the usual spelling.
pub fn exit_name(cell: &Cell) -> &'static str {
    match cell.parameter(EXIT).as_str() {
        "queue" => "a standing queue",
        "rapid" => "Rapid Start, a standing queue",
        "hystart" => "HyStart++",
        "search" => "SEARCH 4.0",
        "search-3" => "SEARCH 3.x",
        _ => "loss alone",
    }
}
