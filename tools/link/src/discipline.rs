//! Queue discipline: the decision about each packet that gets to the head of the buffer.

use crate::codel::CoDel;
use crate::config::Queue;
use crate::decision::Decision;
use crate::decision::Head;
use crate::drop_reason::DropReason;
use crate::pie::Pie;
use crate::schedule::ns;

/// State of a queue's discipline.
#[derive(Clone, Debug)]
pub(crate) enum Discipline {
    DropTail,
    CoDel(CoDel),
    Step { mark_above_ns: u64 },
    Pie(Pie),
}

impl Discipline {
    pub fn new(queue: Queue, seed: u64) -> Self {
        match queue {
            Queue::DropTail => Self::DropTail,
            Queue::CoDel => Self::CoDel(CoDel::default()),
            Queue::Pie => Self::Pie(Pie::new(seed)),
            Queue::Step { mark_above } => Self::Step { mark_above_ns: ns(mark_above) },
        }
    }

    /// Decides about a packet; the link has sent what came before at `free_at_ns`.
    pub fn decide(&mut self, head: Head, free_at_ns: u64) -> Decision {
        match self {
            Self::DropTail => Decision::Send,
            Self::Pie(pie) => pie.decide(head, free_at_ns),
            Self::CoDel(codel) => codel.decide(head),
            Self::Step { mark_above_ns } if head.capable && head.waited_ns > *mark_above_ns => {
                Decision::Mark
            }
            Self::Step { .. } => Decision::Send,
        }
    }

    /// Returns why it drops a packet, and whether it does so before the packet takes up room.
    pub fn drop_reason(&self) -> (DropReason, bool) {
        match self {
            Self::Pie(_) => (DropReason::Pie, true),
            Self::DropTail | Self::CoDel(_) | Self::Step { .. } => (DropReason::CoDel, false),
        }
    }
}
