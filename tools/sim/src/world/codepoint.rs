//! ECN codepoints of the transport and of links.

use link::Ecn;
use quiche::ecn::Codepoint;

/// Returns a packet's codepoint on links.
pub fn on_links(codepoint: Codepoint) -> Ecn {
    match codepoint {
        Codepoint::NotEct => Ecn::NotEct,
        Codepoint::Ect1 => Ecn::Ect1,
        Codepoint::Ect0 => Ecn::Ect0,
        Codepoint::Ce => Ecn::Ce,
    }
}

/// Returns an arrived packet's codepoint for the transport.
pub fn in_transport(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::NotEct => Codepoint::NotEct,
        Ecn::Ect1 => Codepoint::Ect1,
        Ecn::Ect0 => Codepoint::Ect0,
        Ecn::Ce => Codepoint::Ce,
    }
}
