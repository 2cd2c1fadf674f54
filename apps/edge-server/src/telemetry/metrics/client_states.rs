//! Counters of the path state that clients carry in their tokens.

use path_store::OwnState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::resume::own_state::Void;

/// What becomes of it, besides [`Void`].
const SENT: &str = "sent";
const RECEIVED: &str = "received";
const RETREATED: &str = "retreated";
const GRANTED: &str = "granted";
const NOT_GRANTED: &str = "not_granted";

/// The counters, shared by the workers.
#[derive(Clone)]
pub struct ClientStateMetrics(Family<EventLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
}

impl ClientStateMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self(Family::default());
        let help = "Path state in tokens: sent to clients, received, and what became of it";
        registry.register("edge_server_resume_client_states", help, metrics.0.clone());
        let events = [SENT, RECEIVED, RETREATED, GRANTED, NOT_GRANTED];
        for event in events.into_iter().chain(Void::ALL.map(Void::name)) {
            drop(metrics.0.get_or_create(&EventLabels { event }));
        }
        metrics
    }

    fn count(&self, event: &'static str) {
        self.0.get_or_create(&EventLabels { event }).inc();
    }

    /// Counts a token that tells `own`.
    pub fn on_sent(&self, own: OwnState) {
        if own.saved().is_some() {
            self.count(SENT);
        }
    }

    /// Counts what a client's token tells.
    pub fn on_received(&self, own: Result<OwnState, Void>) {
        match own {
            Ok(OwnState::Unknown) => (),
            Ok(OwnState::Saved(_)) => self.count(RECEIVED),
            Ok(OwnState::Retreated { .. }) => self.count(RETREATED),
            Err(void) => self.count(void.name()),
        }
    }

    /// Counts the store's reply to a claim for what a client brought.
    pub fn on_claim(&self, is_granted: bool) {
        self.count(if is_granted { GRANTED } else { NOT_GRANTED });
    }
}
