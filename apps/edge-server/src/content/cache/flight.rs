//! Flights: requests at origins of which each fetches a response for all who wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use tokio::sync::oneshot;

use crate::content::cache::entry::CachedResponse;
use crate::content::cache::invalidation_log::InvalidationLog;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::status::CacheStatus;
use crate::content::origin::error::OriginError;

/// Flights under way, by key.
#[derive(Debug, Default)]
pub struct FlightBoard(Mutex<HashMap<Arc<str>, Arc<Flight>>>);

/// A request at an origin.
#[derive(Debug)]
pub struct Flight {
    waiting: Mutex<Vec<oneshot::Sender<FlightResult>>>,

    /// When it began.
    mark: InvalidationMark,
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
    /// Takes part in the flight for a key, which may have to begin: after a purge nobody joins one from before.
    pub fn join(self: &Arc<Self>, key: &Arc<str>, invalidations: &InvalidationLog) -> FlightSeat {
        let mut flights = self.flights();
        let is_current = |flight: &&Arc<Flight>| invalidations.is_surely_current(flight.mark, key);
        if let Some(flight) = flights.get(key).filter(is_current) {
            let (sender, receiver) = oneshot::channel();
            flight.waiting().push(sender);
            return FlightSeat::Follower(receiver);
        }
        let (waiting, mark) = (Mutex::default(), invalidations.mark(key));
        let flight = Arc::new(Flight { waiting, mark });
        flights.insert(Arc::clone(key), Arc::clone(&flight));
        FlightSeat::Leader(FlightLead { board: Arc::clone(self), key: Arc::clone(key), flight })
    }

    /// Returns whether there is a flight for a key.
    pub fn has(&self, key: &str) -> bool {
        self.flights().contains_key(key)
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
    /// Returns when the flight began.
    pub fn mark(&self) -> InvalidationMark {
        self.flight.mark
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

    use crate::content::cache::purge::PurgeTarget;

    #[test]
    fn followers_get_the_result_of_their_leader() {
        let (board, log) = (Arc::new(FlightBoard::default()), InvalidationLog::default());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let lead = |key| match board.join(key, &log) {
            FlightSeat::Leader(lead) => lead,
            FlightSeat::Follower(_) => panic!("there is a flight"),
        };
        let follow = |key| match board.join(key, &log) {
            FlightSeat::Leader(_) => panic!("there is no flight"),
            FlightSeat::Follower(receiver) => receiver,
        };
        let (first, other) = (lead(&a), lead(&b));
        let mut followers = [follow(&a), follow(&a)];
        log.add(&PurgeTarget::Url("a".to_owned()));
        let after = lead(&a);
        let mut late = follow(&a);
        first.land(&FlightResult::Failed(OriginError::Busy));
        for follower in &mut followers {
            let result = follower.try_recv().unwrap();
            assert!(matches!(result, FlightResult::Failed(OriginError::Busy)));
        }
        assert!(board.has("a") && late.try_recv().is_err(), "the later flight goes on");
        after.land(&FlightResult::Unshared);
        assert!(matches!(late.try_recv(), Ok(FlightResult::Unshared)) && !board.has("a"));
        let mut follower = follow(&b);
        drop(other);
        assert!(matches!(follower.try_recv(), Ok(FlightResult::Unshared)));
        assert!(!board.has("b"));
    }
}
