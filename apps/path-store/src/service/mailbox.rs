//! Mailbox of one handle: answers that its event loop has not read.

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

/// Callback that wakes an event loop when answers wait, for example with a mio `Waker`. Runs on
/// the store's thread and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Answer to a [`StoreHandle::get()`](crate::StoreHandle::get) or
/// [`StoreHandle::claim()`](crate::StoreHandle::claim). None is a miss: no record, or the store
/// failed.
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
        /// The request's endpoint.
        endpoint: RemoteEndpoint,
        /// The claim. Its lease began after the request. Release or forget it, whether it is of
        /// use or not.
        claim: Option<Claim>,
    },
}

/// Answers to one handle.
pub struct Mailbox {
    wake: Wake,
    state: Mutex<MailboxState>,
}

#[derive(Default)]
struct MailboxState {
    answers: VecDeque<Answer>,

    /// Answers that are requested and not read.
    reserved: usize,

    /// The handle was dropped.
    closed: bool,
}

/// Receiver of an answer.
pub struct ReplyTo {
    pub tag: u64,
    pub mailbox: Arc<Mailbox>,
}

impl Mailbox {
    /// Creates an empty mailbox.
    pub fn new(wake: Wake) -> Self {
        Mailbox { wake, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for an answer. Returns false if the mailbox is full.
    pub fn reserve(&self, answers_max: usize) -> bool {
        let mut state = self.lock();
        let has_room = state.reserved < answers_max;
        state.reserved += usize::from(has_room);

        has_room
    }

    /// Cancels the reservation for an answer that will not come.
    pub fn cancel_reservation(&self) {
        self.lock().reserved -= 1;
    }

    /// Takes the next answer, if there is one.
    pub fn take(&self) -> Option<Answer> {
        let mut state = self.lock();
        let answer = state.answers.pop_front()?;
        state.reserved -= 1;

        Some(answer)
    }

    /// Refuses answers from now on. Returns the unread ones.
    pub fn close(&self) -> VecDeque<Answer> {
        let mut state = self.lock();
        state.closed = true;
        std::mem::take(&mut state.answers)
    }

    /// Wakes the handle's event loop.
    pub fn wake(&self) {
        (self.wake)();
    }

    /// Adds an answer. Returns it if the handle was dropped.
    pub fn deliver(&self, answer: Answer) -> Option<Answer> {
        let mut state = self.lock();
        if state.closed {
            return Some(answer);
        }
        state.answers.push_back(answer);

        None
    }
}

impl ReplyTo {
    /// Returns the answer to `request`: a miss, if there is no outcome.
    pub fn answer(&self, request: &Request, outcome: Option<&Outcome>) -> Answer {
        match (request, outcome) {
            (Request::Claim(endpoint, _) | Request::ClaimOwn(endpoint, ..), outcome) => {
                Answer::Claimed {
                    tag: self.tag,
                    endpoint: endpoint.clone(),
                    claim: match outcome {
                        Some(Outcome::Claimed(claim)) => *claim,
                        _ => None,
                    },
                }
            }
            (_, Some(Outcome::Read(state))) => Answer::Read { tag: self.tag, state: *state },
            _ => Answer::Read { tag: self.tag, state: None },
        }
    }
}

/// Returns the request that releases the claim in an unread answer.
pub fn release_request(answer: Answer) -> Option<Request> {
    match answer {
        Answer::Claimed { endpoint, claim: Some(claim), .. } => {
            Some(Request::Release(endpoint, claim.token))
        }
        _ => None,
    }
}
