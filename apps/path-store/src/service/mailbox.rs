//! Mailbox of one handle: the answers that it has asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;

use crate::backend::Outcome;
use crate::backend::Request;

/// Called on the store's thread when answers wait; it must not block. A mio
/// `Waker`, for example.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What came of a [`StoreHandle::get()`](crate::StoreHandle::get) or
/// [`StoreHandle::claim()`](crate::StoreHandle::claim). None is a miss: there is
/// nothing, or the store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a get.
    Read {
        /// The request's.
        tag: u64,
        /// The saved parameters.
        state: Option<PathState>,
    },

    /// Of a claim.
    Claimed {
        /// The request's.
        tag: u64,
        /// The endpoint that it is of.
        endpoint: RemoteEndpoint,
        /// The claim. It counts from a moment after it was asked for. Release or
        /// forget it, whether it is of use or not.
        claim: Option<Claim>,
    },
}

/// Where one handle's answers go.
pub struct Mailbox {
    wake: Wake,
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    answers: VecDeque<Answer>,

    /// Answers that were asked for and not read yet.
    expected: usize,

    /// The handle is gone.
    closed: bool,
}

/// What an answer is made of, once the outcome is known.
pub struct Reply {
    pub tag: u64,
    pub mailbox: Arc<Mailbox>,
}

impl Mailbox {
    /// Returns one that is empty.
    pub fn new(wake: Wake) -> Self {
        Mailbox { wake, content: Mutex::default() }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps room for an answer. False if there is none.
    pub fn expect_one(&self, answers_max: usize) -> bool {
        let mut content = self.content();
        let has_room = content.expected < answers_max;
        content.expected += usize::from(has_room);

        has_room
    }

    /// Gives up the room for an answer that will not come.
    pub fn expect_one_less(&self) {
        self.content().expected -= 1;
    }

    /// Returns the next answer, if one is there.
    pub fn take(&self) -> Option<Answer> {
        let mut content = self.content();
        let answer = content.answers.pop_front()?;
        content.expected -= 1;

        Some(answer)
    }

    /// Refuses answers from now on. Returns those that nobody has read.
    pub fn close(&self) -> VecDeque<Answer> {
        let mut content = self.content();
        content.closed = true;
        std::mem::take(&mut content.answers)
    }

    /// Tells the handle's event loop that answers wait.
    pub fn wake(&self) {
        (self.wake)();
    }

    /// Gives the answer back if nobody will read it.
    pub fn deliver(&self, answer: Answer) -> Option<Answer> {
        let mut content = self.content();
        if content.closed {
            return Some(answer);
        }
        content.answers.push_back(answer);

        None
    }
}

impl Reply {
    /// Returns the answer to `request`; without an outcome, a miss.
    pub fn answer(&self, request: &Request, outcome: Option<&Outcome>) -> Answer {
        match (request, outcome) {
            (Request::Claim(endpoint, _), outcome) => Answer::Claimed {
                tag: self.tag,
                endpoint: endpoint.clone(),
                claim: match outcome {
                    Some(Outcome::Claimed(claim)) => *claim,
                    _ => None,
                },
            },
            (_, Some(Outcome::Read(state))) => Answer::Read { tag: self.tag, state: *state },
            _ => Answer::Read { tag: self.tag, state: None },
        }
    }
}

/// Returns what gives back a claim that nobody will use.
pub fn release_of(answer: Answer) -> Option<Request> {
    match answer {
        Answer::Claimed { endpoint, claim: Some(claim), .. } => {
            Some(Request::Release(endpoint, claim.token))
        }
        _ => None,
    }
}
