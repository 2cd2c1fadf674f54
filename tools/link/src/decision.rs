//! Decision of a queue discipline about a packet, and what it depends on.

/// A packet at the head of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// When it gets there.
    pub now_ns: u64,
    /// How long it has waited by then.
    pub waited_ns: u64,
    /// Whether it found at most one packet of the size of the MTU waiting.
    pub short_queue: bool,
    /// Whether it can be marked.
    pub capable: bool,
}

/// What happens to a packet at the head of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Send,
    /// Sends it with CE.
    Mark,
    Drop,
}
