//! Careful Resume for an application on tokio-quiche: enables it, takes saved parameters from the
//! store to the connection, and what the connection observes to the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use boring::ssl::SelectCertError;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;
use log::warn;
use path_store::Backend;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::block_in_place;
use tokio_quiche::http3::driver::RequestSender;
use tokio_quiche::http3::driver::ServerH3Command;
use tokio_quiche::metrics::Metrics;
use tokio_quiche::quic::ConnectionHook;
use tokio_quiche::quic::HandshakeInfo;
use tokio_quiche::quic::QuicCommand;
use tokio_quiche::quic::QuicheConnection;
use tokio_quiche::quiche::careful_resume::CarefulResumeConfig;
use tokio_quiche::quiche::careful_resume::CarefulResumeEvent;
use tokio_quiche::quiche::careful_resume::Phase;
use tokio_quiche::quiche::clock;
use tokio_quiche::quiche::path_state::Claim;
use tokio_quiche::quiche::path_state::PathState;
use tokio_quiche::quiche::path_state::PrefixLengths;
use tokio_quiche::quiche::path_state::RemoteEndpoint;
use tokio_quiche::quiche::path_state::StoreError;
use tokio_quiche::settings::TlsCertificatePaths;
use tokio_quiche::ApplicationOverQuic;
use tokio_quiche::QuicResult;
use tokio_quiche::ServerH3Driver;

pub type Store = Arc<dyn Backend>;

/// Enables Careful Resume for each connection, in its handshake: tokio-quiche makes the
/// `quiche::Config` itself.
pub struct CarefulResumeHook;

impl ConnectionHook for CarefulResumeHook {
    fn create_custom_ssl_context_builder(
        &self,
        paths: TlsCertificatePaths<'_>,
    ) -> Option<SslContextBuilder> {
        let mut tls = SslContextBuilder::new(SslMethod::tls()).ok()?;
        tls.set_certificate_chain_file(paths.cert).ok()?;
        tls.set_private_key_file(paths.private_key, SslFiletype::PEM).ok()?;
        tls.set_select_certificate_callback(|mut hello| {
            let config = CarefulResumeConfig::default();
            QuicheConnection::set_careful_resume_in_handshake(hello.ssl_mut(), config)
                .map_err(|_| SelectCertError::ERROR)
        });
        Some(tls)
    }
}

/// What the store has to know of a connection.
pub enum Report {
    /// The handshake is complete, which validates the client's address.
    Established { rtt: Duration },

    /// A response is larger than the initial window.
    LargeResponse,

    /// Careful Resume changed its phase.
    Event(CarefulResumeEvent, Option<PathState>),

    /// The last that is known of the connection, and how many of its packets were lost.
    Closed { observed: Option<PathState>, lost: usize },
}

/// HTTP/3 driver that also reports what Careful Resume does.
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
        // Nobody listens at the end of the process.
        let _ = self.reports.send(report);
    }

    /// Reports the end, once: as soon as the client has closed the connection, which tokio-quiche
    /// keeps for some time after that.
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

/// Keeper of one connection's path state: claims it, records it, and deletes it after a retreat.
pub struct PathKeeper {
    store: Store,
    endpoint: RemoteEndpoint,
    quic: RequestSender<ServerH3Command, QuicCommand>,
    rtt: Option<Duration>,
    has_asked: bool,
    claim: Option<Claim>,
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
        Self { store, endpoint, quic, rtt: None, has_asked: false, claim: None }
    }

    /// Follows the connection until it is closed.
    pub async fn run(mut self, mut reports: UnboundedReceiver<Report>) {
        while let Some(report) = reports.recv().await {
            let is_last = matches!(report, Report::Closed { .. });
            // The store reads and writes a file.
            if let Err(error) = block_in_place(|| self.follow(report)) {
                warn!("store: {error}");
            }
            if is_last {
                break;
            }
        }
    }

    fn follow(&mut self, report: Report) -> Result<(), StoreError> {
        match report {
            Report::Established { rtt } => self.rtt = Some(rtt),
            Report::LargeResponse => self.resume()?,
            Report::Event(event, observed) => {
                println!("{:?}, {:?}", event.new, event.trigger);
                match event.new {
                    Phase::SafeRetreat => self.forget()?,
                    Phase::Normal => self.end(observed)?,
                    Phase::Reconnaissance | Phase::Unvalidated | Phase::Validating => (),
                }
            }
            Report::Closed { observed, lost } => {
                self.end(observed)?;
                println!("closed, {lost} packets lost, saved {observed:?}");
            }
        }
        Ok(())
    }

    /// Gives the connection the saved parameters of its path, if no other connection has them.
    fn resume(&mut self) -> Result<(), StoreError> {
        let Some(rtt) = self.rtt.filter(|_| !self.has_asked) else { return Ok(()) };
        self.has_asked = true;
        let asked = clock::now();
        self.claim = self.store.claim(&self.endpoint, rtt)?;
        if let Some(Claim { state, lease, .. }) = self.claim {
            let resume = move |quic: &mut QuicheConnection| {
                // Too late is as good as never: the connection starts slowly.
                let _ = quic.careful_resume_from(state, asked + lease / 2);
            };
            let _ = self.quic.send(QuicCommand::Custom(Box::new(resume)));
        }
        Ok(())
    }

    /// RFC 9959, 3.5: no later connection uses the parameters of a retreat.
    fn forget(&mut self) -> Result<(), StoreError> {
        match self.claim.take() {
            Some(Claim { token, state, .. }) => {
                self.store.forget(&self.endpoint, token, state.observed)
            }
            None => Ok(()),
        }
    }

    /// Saves what was observed, and gives the claim back.
    fn end(&mut self, observed: Option<PathState>) -> Result<(), StoreError> {
        let recorded = observed.map(|observed| self.store.record(&self.endpoint, &observed));
        // Even if nothing could be recorded: others wait for the claim.
        if let Some(Claim { token, .. }) = self.claim.take() {
            self.store.release(&self.endpoint, token)?;
        }
        recorded.transpose().map(drop)
    }
}
