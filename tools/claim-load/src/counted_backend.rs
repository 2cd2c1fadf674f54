//! Backend that counts the claims which its store fails: the service answers them like refusals.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use path_store::Backend;
use path_store::Outcome;
use path_store::Request;
use path_store::ServiceMetrics;
use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;

pub struct CountedBackend {
    pub inner: Box<dyn Backend>,
    pub failed_claims: Arc<AtomicU64>,
}

impl CountedBackend {
    fn count<T>(&self, claims: usize, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            self.failed_claims.fetch_add(claims as u64, Relaxed);
        }
        result
    }
}

impl Backend for CountedBackend {
    fn blocks(&self) -> bool {
        self.inner.blocks()
    }

    fn perform(&self, requests: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        let is_claim =
            |request: &&Request| matches!(request, Request::Claim(..) | Request::ClaimOwn(..));
        self.count(requests.iter().filter(is_claim).count(), self.inner.perform(requests))
    }

    fn sweep(&self) -> Result<usize, StoreError> {
        self.inner.sweep()
    }

    fn add_to_totals(&self, since: &ServiceMetrics) -> Result<(), StoreError> {
        self.inner.add_to_totals(since)
    }
}

// A store that does not block is called without `perform`.
impl PathStateStore for CountedBackend {
    fn get(&self, endpoint: &RemoteEndpoint) -> Result<Option<PathState>, StoreError> {
        self.inner.get(endpoint)
    }

    fn claim(&self, endpoint: &RemoteEndpoint, rtt: Duration) -> Result<Option<Claim>, StoreError> {
        self.count(1, self.inner.claim(endpoint, rtt))
    }

    fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> Result<(), StoreError> {
        self.inner.record(endpoint, observed)
    }

    fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> Result<(), StoreError> {
        self.inner.release(endpoint, token)
    }

    fn forget(
        &self,
        endpoint: &RemoteEndpoint,
        token: ClaimToken,
        used: SystemTime,
    ) -> Result<(), StoreError> {
        self.inner.forget(endpoint, token, used)
    }

    fn flush(&self) -> Result<usize, StoreError> {
        self.inner.flush()
    }
}
