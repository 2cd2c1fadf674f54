//! Stage of the TCP side: serving, or about to end.

use std::time::Instant;

/// Stage of the TCP side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpStage {
    Serving,

    /// Another process accepts. Clients finish what they have requested by then.
    HandedOver {
        until: Instant,
    },

    /// This process is to end. Clients finish what they have requested by then. Nobody accepts, unless
    /// another process does.
    Draining {
        until: Instant,
        is_handed_over: bool,
    },

    /// Connections are closed, finished or not.
    Closing,
}
