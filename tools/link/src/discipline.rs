//! Queue discipline: the decision about each packet that gets to the head of the buffer.

use crate::codel::CoDel;
use crate::config::Queue;
use crate::decision::Decision;
use crate::decision::Head;
use crate::schedule::ns;

/// State of a queue's discipline.
#[derive(Clone, Debug)]
pub(crate) enum Discipline {
    DropTail,
    CoDel(CoDel),
    Step { mark_above_ns: u64 },
}

impl Discipline {
    pub fn new(queue: Queue) -> Self {
        match queue {
            Queue::DropTail => Self::DropTail,
            Queue::CoDel => Self::CoDel(CoDel::default()),
            Queue::Step { mark_above } => Self::Step { mark_above_ns: ns(mark_above) },
        }
    }

    pub fn decide(&mut self, head: Head) -> Decision {
        match self {
            Self::DropTail => Decision::Send,
            Self::CoDel(codel) => codel.decide(head),
            Self::Step { mark_above_ns } if head.capable && head.waited_ns > *mark_above_ns => {
                Decision::Mark
            }
            Self::Step { .. } => Decision::Send,
        }
    }
}
