//! Requests for room: where a limit is reached, and no connection of a worker can make room for a new
//! client, one of another worker may. The client's packet is dropped meanwhile, and it sends it again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use ab_test::ClientUnit;

use crate::admission::connection_limits::Limit;

/// How long a client may send its packet again before it is refused: two or three times, while the
/// connection that makes room is being closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a worker that had no room for a client is not asked again.
const EMPTY: Duration = Duration::from_secs(1);

/// Clients that wait, and requests that a worker has not handled. Further clients are refused at once.
const CLIENTS_MAX: usize = 1024;
const REQUESTS_MAX: usize = 64;

/// Part of one worker.
pub struct RoomRequests {
    own: Arc<RequestQueue>,
    others: Vec<Arc<RequestQueue>>,

    /// Clients for which others were asked, and when they were first.
    clients: HashMap<ClientUnit, Instant>,
}

/// Client that needs room where a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomRequest {
    pub client: IpAddr,
    pub limit: Limit,
}

struct RequestQueue {
    requests: Mutex<Vec<RoomRequest>>,

    /// Until when the worker is not asked.
    empty_until: Mutex<Option<Instant>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl RoomRequests {
    /// Returns the parts of the workers that these wake, in their order.
    pub fn for_workers<W: Fn() + Send + Sync + 'static>(
        wakes: impl IntoIterator<Item = W>,
    ) -> Vec<Self> {
        let queue = |wake| RequestQueue {
            requests: Mutex::default(),
            empty_until: Mutex::default(),
            wake: Box::new(wake),
        };
        let queues: Vec<_> = wakes.into_iter().map(|wake| Arc::new(queue(wake))).collect();
        let part = |own: &Arc<RequestQueue>| Self {
            own: Arc::clone(own),
            others: queues.iter().filter(|other| !Arc::ptr_eq(own, other)).cloned().collect(),
            clients: HashMap::new(),
        };
        queues.iter().map(part).collect()
    }

    /// Returns whether another worker may have room.
    pub fn may_be_given(&self, now: Instant) -> bool {
        self.others.iter().any(|other| other.may_have_room(now))
    }

    /// Notes that this worker had no room for a client.
    pub fn on_empty(&self, now: Instant) {
        *lock(&self.own.empty_until) = Some(now + EMPTY);
    }

    /// Asks the other workers for room. Returns whether the client may hope for it.
    pub fn ask(&mut self, request: RoomRequest, now: Instant) -> bool {
        let client = ClientUnit::of(request.client);
        if self.clients.len() >= CLIENTS_MAX {
            self.clients.retain(|_, asked_at| now < *asked_at + 2 * PATIENCE);
        }
        if !self.may_be_given(now) || self.clients.len() >= CLIENTS_MAX {
            return false;
        }
        let asked_at = self.clients.entry(client).or_insert(now);
        // It has come again much later.
        if now >= *asked_at + 2 * PATIENCE {
            *asked_at = now;
        }
        let may_hope = now < *asked_at + PATIENCE;
        if may_hope {
            let asked = self.others.iter().filter(|other| other.may_have_room(now));
            asked.for_each(|other| other.push(request));
        }
        may_hope
    }

    /// Takes the requests of other workers.
    pub fn take(&self) -> Vec<RoomRequest> {
        std::mem::take(&mut *lock(&self.own.requests))
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.own.requests).is_empty()
    }
}

impl RequestQueue {
    fn push(&self, request: RoomRequest) {
        let mut requests = lock(&self.requests);
        if requests.len() < REQUESTS_MAX && !requests.contains(&request) {
            requests.push(request);
            drop(requests);
            (self.wake)();
        }
    }

    fn may_have_room(&self, now: Instant) -> bool {
        lock(&self.empty_until).is_none_or(|until| until <= now)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u32) -> RoomRequest {
        RoomRequest { client: std::net::Ipv4Addr::from_bits(number).into(), limit: Limit::Subnet }
    }

    #[test]
    fn other_workers_are_asked_until_the_client_is_refused() {
        let start = quiche::clock::now();
        let mut workers = RoomRequests::for_workers([|| (), || (), || ()]);
        for (seconds, expected) in
            [(0, true), (1, true), (4, true), (5, false), (9, false), (10, true)]
        {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(workers[0].ask(request(1), now), expected, "{seconds} s");
            let asked = [1, 2].map(|other: usize| workers[other].take());
            let wanted = if expected { vec![request(1)] } else { Vec::new() };
            assert_eq!(asked, [wanted.clone(), wanted], "{seconds} s");
            assert!(workers[0].is_empty());
        }
        let later = start + Duration::from_secs(20);
        workers[1].on_empty(later);
        assert!(workers[0].ask(request(2), later));
        assert_eq!([1, 2].map(|other: usize| workers[other].take().len()), [0, 1]);
        workers[2].on_empty(later);
        assert!(!workers[0].ask(request(3), later));
        assert!(workers[0].ask(request(3), later + EMPTY));
        let mut alone = RoomRequests::for_workers([|| ()]);
        assert!(!alone[0].ask(request(1), start));
    }

    #[test]
    fn clients_and_requests_are_bounded() {
        let start = quiche::clock::now();
        let mut workers = RoomRequests::for_workers([|| (), || ()]);
        let asked = |worker: &mut RoomRequests, now| {
            (0..3000).filter(|number| worker.ask(request(*number), now)).count()
        };
        assert_eq!(asked(&mut workers[0], start), CLIENTS_MAX);
        assert_eq!(workers[1].take().len(), REQUESTS_MAX);
        assert_eq!(asked(&mut workers[0], start + 2 * PATIENCE), CLIENTS_MAX);
    }
}
