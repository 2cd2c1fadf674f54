//! Careful Resume for an application on tokio-quiche: takes saved parameters from the store to the
//! connection, and what the connection observes to the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use log::warn;
use path_store::claim_lifecycle::Action;
use path_store::claim_lifecycle::ClaimLifecycle;
use path_store::claim_lifecycle::ResumeOutcome;
use path_store::Backend;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::block_in_place;
use tokio::time::timeout_at;
use tokio_quiche::http3::driver::RequestSender;
use tokio_quiche::http3::driver::ServerH3Command;
use tokio_quiche::metrics::Metrics;
use tokio_quiche::quic::HandshakeInfo;
use tokio_quiche::quic::QuicCommand;
use tokio_quiche::quic::QuicheConnection;
use tokio_quiche::quiche::careful_resume::CarefulResumeEvent;
use tokio_quiche::quiche::careful_resume::Phase;
use tokio_quiche::quiche::clock;
use tokio_quiche::quiche::path_state::PathState;
use tokio_quiche::quiche::path_state::PrefixLengths;
use tokio_quiche::quiche::path_state::RemoteEndpoint;
use tokio_quiche::quiche::path_state::StoreError;
use tokio_quiche::ApplicationOverQuic;
use tokio_quiche::QuicResult;
use tokio_quiche::ServerH3Driver;

pub type Store = Arc<dyn Backend>;

/// Report to [`PathKeeper`] of what happened to its connection.
#[derive(Clone, Copy)]
pub enum Report {
    /// The handshake is complete, which validates the client's address.
    Established { rtt: Duration },

    /// A response is larger than the initial window.
    LargeResponse,

    /// Careful Resume changed its phase; and what is observed now.
    Event(CarefulResumeEvent, Option<PathState>),

    /// No jump came in time, or it is long ago: others may have the claim.
    ClaimTimeout,

    /// The client closed the connection: its last observation, and its lost packets.
    Closed { observed: Option<PathState>, lost: usize },
}

/// HTTP/3 driver of tokio-quiche that also reports what Careful Resume does.
pub struct Resuming {
    driver: ServerH3Driver,
    reports: UnboundedSender<Report>,
    is_closed: bool,
}

impl Resuming {
    pub fn new(driver: ServerH3Driver, reports: UnboundedSender<Report>) -> Self {
        Self { driver, reports, is_closed: false }
    }

    fn report(&self, report: Report) {
        // There is no receiver while the process ends.
        let _ = self.reports.send(report);
    }

    /// Reports the end, once. tokio-quiche calls `on_conn_close()` seconds after the client has
    /// closed the connection, and the client may be back by then.
    fn close(&mut self, quic: &QuicheConnection) {
        if !std::mem::replace(&mut self.is_closed, true) {
            let (observed, lost) = (quic.path_state(), quic.stats().lost);
            self.report(Report::Closed { observed, lost });
        }
    }
}

impl ApplicationOverQuic for Resuming {
    fn on_conn_established(
        &mut self,
        quic: &mut QuicheConnection,
        handshake: &HandshakeInfo,
    ) -> QuicResult<()> {
        let rtt = quic.path_stats().find(|path| path.active).map(|path| path.rtt);
        self.report(Report::Established { rtt: rtt.unwrap_or_default() });
        self.driver.on_conn_established(quic, handshake)
    }

    fn should_act(&self) -> bool {
        self.driver.should_act()
    }

    async fn wait_for_data(&mut self, quic: &mut QuicheConnection) -> QuicResult<()> {
        self.driver.wait_for_data(quic).await
    }

    fn process_reads(&mut self, quic: &mut QuicheConnection) -> QuicResult<()> {
        self.driver.process_reads(quic)
    }

    fn process_writes(&mut self, quic: &mut QuicheConnection) -> QuicResult<()> {
        while let Some(event) = quic.careful_resume_event_next() {
            self.report(Report::Event(event, quic.path_state()));
        }
        if quic.is_draining() {
            self.close(quic);
        }
        self.driver.process_writes(quic)
    }

    fn on_conn_close<M: Metrics>(
        &mut self,
        quic: &mut QuicheConnection,
        metrics: &M,
        result: &QuicResult<()>,
    ) {
        self.close(quic);
        self.driver.on_conn_close(quic, metrics, result);
    }
}

/// Keeper of one connection's path state: asks of the store what [`ClaimLifecycle`] decides.
pub struct PathKeeper {
    store: Store,
    endpoint: RemoteEndpoint,
    quic: RequestSender<ServerH3Command, QuicCommand>,
    rtt: Duration,
    lifecycle: ClaimLifecycle,
}

impl PathKeeper {
    pub fn new(
        store: Store,
        local: SocketAddr,
        peer: SocketAddr,
        quic: RequestSender<ServerH3Command, QuicCommand>,
    ) -> Self {
        let sender = local.ip().to_string();
        let endpoint = RemoteEndpoint::new(&sender, peer.ip(), PrefixLengths::default());
        let lifecycle = ClaimLifecycle::new(clock::now());
        Self { store, endpoint, quic, rtt: Duration::ZERO, lifecycle }
    }

    /// Follows the connection until it is closed.
    pub async fn run(mut self, mut reports: UnboundedReceiver<Report>) {
        while let Some(report) = self.next(&mut reports).await {
            // The store reads and writes a file.
            if let Err(error) = block_in_place(|| self.follow(report)) {
                warn!("store: {error}");
            }
            if let Report::Closed { observed, lost } = report {
                println!("closed, {lost} packets lost, saved {observed:?}");
                break;
            }
        }
    }

    /// Returns the next report, or that the claim has to be released.
    async fn next(&self, reports: &mut UnboundedReceiver<Report>) -> Option<Report> {
        match self.lifecycle.claim_timeout() {
            Some(at) => {
                timeout_at(at.into(), reports.recv()).await.unwrap_or(Some(Report::ClaimTimeout))
            }
            None => reports.recv().await,
        }
    }

    fn follow(&mut self, report: Report) -> Result<(), StoreError> {
        let now = clock::now();
        let actions = match report {
            Report::Established { rtt } => {
                self.rtt = rtt;
                self.lifecycle.on_read(self.store.get(&self.endpoint)?);
                [None, None]
            }
            Report::LargeResponse => [self.lifecycle.on_data_queued(now), None],
            Report::ClaimTimeout => [self.lifecycle.on_claim_timeout(now), None],
            Report::Event(event, observed) => self.on_event(event, observed, now),
            Report::Closed { observed, .. } => self.lifecycle.on_close(observed, now),
        };
        // If nothing can be recorded, others still wait for the claim.
        let results = actions.map(|action| self.perform(action));
        results.into_iter().collect()
    }

    fn on_event(
        &mut self,
        event: CarefulResumeEvent,
        observed: Option<PathState>,
        now: Instant,
    ) -> [Option<Action>; 2] {
        println!("{:?}, {:?}", event.new, event.trigger);
        let outcome = match event.new {
            Phase::Reconnaissance | Phase::Validating => return [None, None],
            Phase::Unvalidated => {
                self.lifecycle.on_jump();
                return [None, None];
            }
            Phase::SafeRetreat => ResumeOutcome::Retreat,
            Phase::Normal => ResumeOutcome::Normal,
        };
        self.lifecycle.on_outcome(outcome, observed, now)
    }

    fn perform(&mut self, action: Option<Action>) -> Result<(), StoreError> {
        let endpoint = &self.endpoint;
        match action {
            None => Ok(()),
            Some(Action::Claim) => {
                let claim = self.store.claim(endpoint, self.rtt)?;
                let resume = self.lifecycle.on_claim(claim);
                self.perform(resume)
            }
            Some(Action::Resume { saved, jump_before }) => {
                self.resume(saved, jump_before);
                Ok(())
            }
            Some(Action::Record(observed)) => self.store.record(endpoint, &observed),
            Some(Action::Release(token)) => self.store.release(endpoint, token),
            Some(Action::Forget { token, used }) => self.store.forget(endpoint, token, used),
        }
    }

    /// Hands the saved parameters to the connection, which tokio-quiche owns.
    fn resume(&self, saved: PathState, jump_before: Instant) {
        let resume = move |quic: &mut QuicheConnection| {
            // If it is too late, the connection starts slowly, and the claim times out.
            let _ = quic.careful_resume_from(saved, jump_before);
        };
        let _ = self.quic.send(QuicCommand::Custom(Box::new(resume)));
    }
}
