//! Tokens that one connection sends for its client's next one (RFC 9000, 8.1.3).

use std::time::Instant;

use quiche::clock;
use quiche::ActivePath;

use crate::admission::Admission;
use crate::connection::Connection;
use crate::connection::PollContext;
use crate::resume::carried_state::Activity;
use crate::resume::own_state;
use crate::resume::store::StoreClient;
use crate::telemetry::metrics::WorkerMetrics;

quiche::stand_ins!();

impl Connection {
    /// Sends the client a token for its next connection.
    pub fn send_token(
        &mut self,
        admission: &Admission,
        store: &StoreClient,
        metrics: &WorkerMetrics,
        now: Instant,
    ) {
        let Some(client) = self.client() else { return };
        let own = self.carried_state.issue(now);
        let payload =
            own_state::to_payload(own, &store.scope(&self.endpoint), self.carried_state.issuer());
        let token = admission.token_for_next(client, &payload, clock::wall_now());
        let Some(token) = token else { return };
        if self.quic.send_new_token(token).is_ok() {
            metrics.client_states.on_sent(own);
        }
    }

    /// Replaces the client's token, if what it tells has changed.
    pub(super) fn renew_token(&mut self, context: &PollContext<'_>, now: Instant) {
        if !self.lifecycle.is_active() || self.resume_summary.is_none() {
            return;
        }
        let activity = match &self.http {
            Some(http) if http.unsent_bytes() > 0 => Activity::Writing,
            Some(http) if !http.is_idle() => Activity::Waiting,
            _ => Activity::Idle,
        };
        let rtt = self.quic.active_path().map(|path| path.rtt).unwrap_or_default();
        if !self.carried_state.takes_look(activity, rtt, now) {
            return;
        }
        let wall_now = clock::wall_now();
        self.carried_state.on_observation(self.observed(), wall_now);
        if self.carried_state.is_news(wall_now, now) {
            self.send_token(context.admission, context.store, context.metrics, now);
        }
    }
}
