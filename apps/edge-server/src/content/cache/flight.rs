//! Flights: requests at origins of which each fetches a response for all who wait for it.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use tokio::sync::oneshot;

use crate::content::cache::entry::CachedResponse;
use crate::content::cache::status::CacheStatus;
use crate::content::origin::error::OriginError;

/// Flights under way, by key.
#[derive(Debug, Default)]
pub struct FlightBoard(Mutex<HashMap<Arc<str>, Arc<Flight>>>);

/// A request at an origin.
#[derive(Debug, Default)]
pub struct Flight {
    waiting: Mutex<Vec<oneshot::Sender<FlightResult>>>,

    /// What it fetches may have changed since it began.
    is_outdated: AtomicBool,
}

/// What becomes of a flight.
#[derive(Clone, Debug)]
pub enum FlightResult {
    /// The response, whether it is fresh or, as the status says, stale.
    Landed(Arc<CachedResponse>, CacheStatus),
    Failed(OriginError),

    /// The response is for one request alone.
    Unshared,
}

/// Part of a request in a flight.
pub enum FlightSeat {
    Leader(FlightLead),
    Follower(oneshot::Receiver<FlightResult>),
}

/// Lead of a flight. It ends when this is dropped.
pub struct FlightLead {
    board: Arc<FlightBoard>,
    key: Arc<str>,
    flight: Arc<Flight>,
}

impl FlightBoard {
    /// Takes part in the flight for a key, which may have to begin.
    pub fn join(self: &Arc<Self>, key: &Arc<str>) -> FlightSeat {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(key) {
            let (sender, receiver) = oneshot::channel();
            flight.waiting().push(sender);
            return FlightSeat::Follower(receiver);
        }
        let flight = Arc::<Flight>::default();
        flights.insert(Arc::clone(key), Arc::clone(&flight));
        FlightSeat::Leader(FlightLead { board: Arc::clone(self), key: Arc::clone(key), flight })
    }

    /// Returns whether there is a flight for a key.
    pub fn has(&self, key: &str) -> bool {
        self.flights().contains_key(key)
    }

    /// Has nothing kept of flights for these keys.
    pub fn outdate(&self, is_meant: impl Fn(&str) -> bool) {
        for (key, flight) in self.flights().iter() {
            if is_meant(key) {
                flight.is_outdated.store(true, Ordering::Relaxed);
            }
        }
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Flight>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    fn waiting(&self) -> MutexGuard<'_, Vec<oneshot::Sender<FlightResult>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlightLead {
    /// Returns whether what it fetches may have changed since it began.
    pub fn is_outdated(&self) -> bool {
        self.flight.is_outdated.load(Ordering::Relaxed)
    }

    /// Ends the flight.
    pub fn land(self, result: &FlightResult) {
        self.end(result);
    }

    fn end(&self, result: &FlightResult) {
        let mut flights = self.board.flights();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        // Nobody joins any longer.
        let waiting = std::mem::take(&mut *self.flight.waiting());
        drop(flights);
        for sender in waiting {
            // Fails if the request has ended.
            let _ = sender.send(result.clone());
        }
    }
}

impl Drop for FlightLead {
    fn drop(&mut self) {
        self.end(&FlightResult::Unshared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_get_the_result_of_their_leader() {
        let board = Arc::new(FlightBoard::default());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let lead = |key| match board.join(key) {
            FlightSeat::Leader(lead) => lead,
            FlightSeat::Follower(_) => panic!("there is a flight"),
        };
        let follow = |key| match board.join(key) {
            FlightSeat::Leader(_) => panic!("there is no flight"),
            FlightSeat::Follower(receiver) => receiver,
        };
        let (first, other) = (lead(&a), lead(&b));
        let mut followers = [follow(&a), follow(&a)];
        board.outdate(|key| key == "a");
        assert_eq!((first.is_outdated(), other.is_outdated()), (true, false));
        first.land(&FlightResult::Failed(OriginError::Busy));
        for follower in &mut followers {
            let result = follower.try_recv().unwrap();
            assert!(matches!(result, FlightResult::Failed(OriginError::Busy)));
        }
        assert!(!board.has("a") && !lead(&a).is_outdated());
        let mut follower = follow(&b);
        drop(other);
        assert!(matches!(follower.try_recv(), Ok(FlightResult::Unshared)));
        assert!(!board.has("b"));
    }
}
