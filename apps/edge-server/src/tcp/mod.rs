//! TCP side: HTTP/1.1 and HTTP/2 over TLS at the addresses of the UDP sockets, for clients that do
//! not know yet that the server has HTTP/3, and a redirect from plain HTTP.
//!
//! It runs on threads of its own, of a lower priority, so that no handshake or slow client delays a QUIC
//! event loop.

mod activity;
mod connection;
mod exchange;
mod fair_reader;
mod interim_writer;
mod leaving;
mod limiter;
mod linger;
pub mod listeners;
mod peer;
mod redirect;
mod request_set;
mod response_body;
mod send_buffer;
mod service;
pub mod settings;
mod stage;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use log::warn;
use quiche::clock;
use quiche::path_state::PrefixLengths;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio::time::sleep_until;

use crate::admission::file_limits::FileLimiter;
use crate::admission::thread_priority;
use crate::tcp::limiter::Limiter;
use crate::tcp::listeners::Acceptor;
use crate::tcp::peer::OpenConnections;
use crate::tcp::peer::Peer;
use crate::tcp::peer::TcpServices;
use crate::tcp::settings::TcpConfig;
use crate::tcp::stage::StageControl;
use crate::tcp::stage::TcpStage;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::admin::socket::TcpConnectionInfo;
use crate::telemetry::metrics::TcpMetrics;
use crate::telemetry::process_log::notice;
use crate::telemetry::shutdown_log::ClosingReason;
use crate::telemetry::shutdown_log::ShutdownLog;

/// Pause after a failure to accept, such as no free file descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long tasks may take to end once connections are closed.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// A socket that listens, and what for.
pub struct ListenerSocket {
    pub socket: OwnedFd,
    pub purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Https,

    /// Redirect to HTTPS on this port, and challenges of ACME.
    Redirect {
        https_port: u16,
    },
}

/// What the TCP side shares with the rest of the server.
pub struct TcpResources {
    pub prefix_lengths: PrefixLengths,
    pub metrics: TcpMetrics,
    pub access_log: Option<AccessLog>,
    pub shutdown_log: ShutdownLog,
}

/// The TCP side, before and after it serves.
pub struct TcpServer {
    runtime: Runtime,
    handle: TcpHandle,
    acceptors: Vec<(Acceptor, Purpose)>,

    /// Closed when every connection has ended.
    connections: (mpsc::Sender<()>, mpsc::Receiver<()>),
}

/// Control of the TCP side.
#[derive(Clone)]
pub struct TcpHandle {
    stage: Arc<StageControl>,
    config: Arc<watch::Sender<Arc<TcpConfig>>>,
    services: Arc<TcpServices>,
}

impl TcpServer {
    /// Returns the TCP side of these sockets, with so many threads. Clients may finish what they have
    /// requested for the time of `drain`.
    ///
    /// # Errors
    ///
    /// The process can have no more threads or descriptors.
    pub fn new(
        sockets: Vec<ListenerSocket>,
        threads: u16,
        config: TcpConfig,
        drain: Duration,
        shared: TcpResources,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(usize::from(threads))
            .thread_name("tcp")
            .on_thread_start(|| thread_priority::lower(thread_priority::BELOW_EVENT_LOOPS))
            .enable_all()
            .build()?;
        let own = sockets.iter().map(|listener| listener.socket.try_clone());
        let (stage, stages) = StageControl::new(own.collect::<io::Result<_>>()?, drain);
        let (config, configs) = watch::channel(Arc::new(config));
        let services = TcpServices {
            config: configs,
            stage: stages,
            limiter: Limiter::new(shared.prefix_lengths, clock::now()),
            files: FileLimiter::default(),
            metrics: shared.metrics,
            access_log: shared.access_log,
            shutdown_log: shared.shutdown_log,
            open: OpenConnections::default(),
            connections_ever: AtomicU64::new(0),
        };
        let services = Arc::new(services);
        let acceptors = {
            let _context = runtime.enter();
            let watch = |listener: ListenerSocket| {
                Acceptor::watch(listener.socket).map(|acceptor| (acceptor, listener.purpose))
            };
            sockets.into_iter().map(watch).collect::<io::Result<_>>()?
        };
        let (stage, config) = (Arc::new(stage), Arc::new(config));
        Ok(Self {
            runtime,
            handle: TcpHandle { stage, config, services },
            acceptors,
            connections: mpsc::channel(1),
        })
    }

    /// Returns its control.
    pub fn handle(&self) -> TcpHandle {
        self.handle.clone()
    }

    /// Begins to accept connections. Calls `set_ready` when the process may end as far as the clients here
    /// are concerned, and when it may not any more.
    pub fn start(&mut self, set_ready: impl FnMut(bool) + Send + 'static) {
        self.runtime.spawn(watch_readiness(Arc::clone(&self.handle.services), set_ready));
        for (acceptor, purpose) in std::mem::take(&mut self.acceptors) {
            announce(&acceptor, purpose);
            let services = Arc::clone(&self.handle.services);
            let connections = self.connections.0.downgrade();
            self.runtime.spawn(accept(acceptor, purpose, services, connections));
        }
    }

    /// Waits until every connection has ended, or their time is over.
    pub fn wait(self) {
        let Self { runtime, handle, connections: (sender, mut open), .. } = self;
        drop(sender);
        let mut stage = handle.services.stage.clone();
        runtime.block_on(async {
            loop {
                let until = match *stage.borrow_and_update() {
                    TcpStage::HandedOver { until } | TcpStage::Draining { until, .. } => until,
                    // Without event loops there is nothing to serve for.
                    TcpStage::Serving | TcpStage::Closing => break,
                };
                tokio::select! {
                    _ = open.recv() => break,
                    () = sleep_until(until.into()) => {
                        handle.services.shutdown_log.on_closing(ClosingReason::DrainTimeout);
                        break;
                    }
                    _ = stage.changed() => (),
                }
            }
        });
        handle.stage.close();
        runtime.shutdown_timeout(SHUTDOWN);
    }
}

impl TcpHandle {
    /// Replaces the configuration: the certificates for new connections, all else for further
    /// requests.
    pub fn reload(&self, config: TcpConfig) {
        self.config.send_replace(Arc::new(config));
    }

    /// Returns descriptors of the sockets that listen, for a successor.
    pub fn sockets(&self) -> &[OwnedFd] {
        self.stage.sockets()
    }

    /// Leaves new clients to another process.
    pub fn hand_over(&self) {
        self.stage.hand_over();
    }

    /// Accepts connections again, after a handover, unless this process is to end.
    pub fn serve_again(&self) {
        self.stage.serve_again();
    }

    /// Accepts no more connections, and finishes requests under way.
    pub fn drain(&self) {
        self.stage.drain();
    }

    /// Closes every connection.
    pub fn close(&self) {
        self.services.shutdown_log.on_closing(ClosingReason::Commanded);
        self.stage.close();
    }

    /// Returns how many connections there are, and the state of up to `max` of them.
    pub fn connections(&self, max: usize) -> (usize, Vec<TcpConnectionInfo>) {
        self.services.open.list(max, clock::now())
    }
}

/// Tells whether the process may end: the server leaves its clients, and they have ended, or have had their
/// time.
async fn watch_readiness(services: Arc<TcpServices>, mut set_ready: impl FnMut(bool)) {
    let mut stage = services.stage.clone();
    loop {
        let now = *stage.borrow_and_update();
        match now {
            TcpStage::Serving => set_ready(false),
            TcpStage::Closing => return set_ready(true),
            TcpStage::HandedOver { until } | TcpStage::Draining { until, .. } => tokio::select! {
                () = services.open.wait_empty() => set_ready(true),
                () = sleep_until(until.into()) => set_ready(true),
                _ = stage.changed() => continue,
            },
        }
        if stage.changed().await.is_err() {
            return;
        }
    }
}

fn announce(acceptor: &Acceptor, purpose: Purpose) {
    let Ok(address) = acceptor.local_addr() else { return };
    match purpose {
        Purpose::Https => notice!("listening over TCP on {address}, for HTTP/2 and HTTP/1.1"),
        Purpose::Redirect { https_port } => {
            notice!("redirecting plain HTTP on {address} to HTTPS at port {https_port}");
        }
    }
}

/// Accepts connections of a socket while the server serves.
async fn accept(
    mut acceptor: Acceptor,
    purpose: Purpose,
    services: Arc<TcpServices>,
    connections: mpsc::WeakSender<()>,
) {
    let mut stage = services.stage.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            changed = stage.changed() => {
                if changed.is_err() || !is_served_again(&mut stage).await {
                    return;
                }
                None
            }
            accepted = acceptor.accept() => Some(accepted),
        };
        match accepted {
            Some(Ok((stream, address))) => {
                begin(stream, address, purpose, &services, &connections);
                continue;
            }
            // A client that has gone is no reason to wait; no free descriptors are.
            Some(Err(e)) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Some(Err(e)) => {
                debug!("cannot accept a TCP connection: {e}");
                sleep(RETRY_DELAY).await;
            }
            None => (),
        }
        acceptor = match acceptor.watch_anew() {
            Ok(acceptor) => acceptor,
            Err(e) => return warn!("cannot accept TCP connections again: {e}; restart the server"),
        };
    }
}

/// Waits while another process accepts. Returns whether this one is to accept again.
async fn is_served_again(stage: &mut watch::Receiver<TcpStage>) -> bool {
    let is_decided = |now: &TcpStage| !matches!(now, TcpStage::HandedOver { .. });
    stage.wait_for(is_decided).await.is_ok_and(|now| *now == TcpStage::Serving)
}

/// Begins a connection that was accepted, unless there are too many.
fn begin(
    stream: TcpStream,
    address: SocketAddr,
    purpose: Purpose,
    services: &Arc<TcpServices>,
    connections: &mpsc::WeakSender<()>,
) {
    let limits = &services.config.borrow().limits;
    let acquired = services.limiter.try_acquire(address.ip(), limits, clock::now());
    let permit = match acquired {
        Ok(permit) => permit,
        Err(limit) => {
            debug!("{address}: a TCP connection too many: {}", limit.name());
            return services.metrics.count_refusal(limit);
        }
    };
    if permit.replaces {
        services.metrics.count_replaced();
    }
    let Ok(local) = stream.local_addr() else { return };
    // None once the server has ended.
    let Some(open) = connections.upgrade() else { return };
    let services = Arc::clone(services);
    tokio::spawn(async move {
        // The server waits until it is dropped.
        let _open = open;
        match purpose {
            Purpose::Https => {
                let _counted = services.metrics.count_connection();
                let peer = Peer::new(&services, address, local, permit);
                tokio::select! {
                    () = peer.activity.evicted() => debug!("{}: makes room for another client", peer.name),
                    () = connection::serve(stream, Arc::clone(&peer)) => (),
                }
            }
            Purpose::Redirect { https_port } => {
                tokio::select! {
                    () = permit.activity.evicted() => (),
                    () = redirect::serve(stream, address, &services, https_port) => (),
                }
            }
        }
    });
}
