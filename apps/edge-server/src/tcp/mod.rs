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
use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use log::warn;
use quiche::clock;
use quiche::path_state::PrefixLengths;
use tokio::net::TcpListener;
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
use crate::tcp::peer::OpenConnections;
use crate::tcp::peer::Peer;
use crate::tcp::peer::TcpServices;
use crate::tcp::settings::TcpConfig;
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
    listeners: Vec<(TcpListener, Purpose)>,

    /// Closed when every connection has ended.
    connections: (mpsc::Sender<()>, mpsc::Receiver<()>),
}

/// Control of the TCP side.
#[derive(Clone)]
pub struct TcpHandle {
    stage: Arc<watch::Sender<TcpStage>>,
    config: Arc<watch::Sender<Arc<TcpConfig>>>,
    services: Arc<TcpServices>,

    /// How long clients may finish what they have requested.
    drain: Duration,
}

impl TcpServer {
    /// Returns the TCP side of these sockets, with so many threads. Clients may finish what they have
    /// requested for the time of `drain`.
    ///
    /// # Errors
    ///
    /// The process can start no more threads, or a descriptor is no TCP socket.
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
        let (stage, stages) = watch::channel(TcpStage::Serving);
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
        let watched = {
            let _context = runtime.enter();
            sockets
                .into_iter()
                .map(|ListenerSocket { socket, purpose }| {
                    let listener = StdListener::from(socket);
                    listener.set_nonblocking(true)?;
                    Ok((TcpListener::from_std(listener)?, purpose))
                })
                .collect::<io::Result<_>>()?
        };
        Ok(Self {
            runtime,
            handle: TcpHandle { stage: Arc::new(stage), config: Arc::new(config), services, drain },
            listeners: watched,
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
        for (listener, purpose) in std::mem::take(&mut self.listeners) {
            announce(&listener, purpose);
            let services = Arc::clone(&self.handle.services);
            let connections = self.connections.0.downgrade();
            self.runtime.spawn(accept(listener, purpose, services, connections));
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
        handle.enter_closing();
        runtime.shutdown_timeout(SHUTDOWN);
    }
}

impl TcpHandle {
    /// Replaces the configuration: the certificates for new connections, all else for further
    /// requests.
    pub fn reload(&self, config: TcpConfig) {
        self.config.send_replace(Arc::new(config));
    }

    /// Leaves new clients to another process.
    pub fn hand_over(&self) {
        let until = clock::now() + self.drain;
        self.change(|now| (*now == TcpStage::Serving).then_some(TcpStage::HandedOver { until }));
    }

    /// Accepts connections again, after a handover.
    pub fn serve_again(&self) {
        self.change(|now| matches!(now, TcpStage::HandedOver { .. }).then_some(TcpStage::Serving));
    }

    /// Accepts no more connections, and finishes requests under way.
    pub fn drain(&self) {
        let until = clock::now() + self.drain;
        self.change(|now| match now {
            TcpStage::Serving => Some(TcpStage::Draining { until, is_handed_over: false }),
            // No time is added.
            TcpStage::HandedOver { until } => {
                Some(TcpStage::Draining { until: *until, is_handed_over: true })
            }
            TcpStage::Draining { .. } | TcpStage::Closing => None,
        });
    }

    /// Closes every connection.
    pub fn close(&self) {
        self.services.shutdown_log.on_closing(ClosingReason::Commanded);
        self.enter_closing();
    }

    /// Returns how many connections there are, and the state of up to `max` of them.
    pub fn connections(&self, max: usize) -> (usize, Vec<TcpConnectionInfo>) {
        self.services.open.list(max, clock::now())
    }

    fn enter_closing(&self) {
        self.change(|now| (*now != TcpStage::Closing).then_some(TcpStage::Closing));
    }

    fn change(&self, next: impl FnOnce(&TcpStage) -> Option<TcpStage>) {
        self.stage.send_if_modified(|now| {
            let next = next(now);
            *now = next.unwrap_or(*now);
            next.is_some()
        });
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

fn announce(listener: &TcpListener, purpose: Purpose) {
    let Ok(address) = listener.local_addr() else { return };
    match purpose {
        Purpose::Https => notice!("listening over TCP on {address}, for HTTP/2 and HTTP/1.1"),
        Purpose::Redirect { https_port } => {
            notice!("redirecting plain HTTP on {address} to HTTPS at port {https_port}");
        }
    }
}

/// Accepts connections of a socket while the server serves.
async fn accept(
    mut listener: TcpListener,
    purpose: Purpose,
    services: Arc<TcpServices>,
    connections: mpsc::WeakSender<()>,
) {
    let mut stage = services.stage.clone();
    let mut was_handed_over = false;
    loop {
        let now = *stage.borrow_and_update();
        match now {
            TcpStage::Draining { is_handed_over: false, .. } => return listeners::stop(&listener),
            TcpStage::Draining { .. } | TcpStage::Closing => return,
            TcpStage::HandedOver { .. } => {
                was_handed_over = true;
                if stage.changed().await.is_err() {
                    return;
                }
                continue;
            }
            TcpStage::Serving if std::mem::take(&mut was_handed_over) => {
                listener = match listeners::listen_again(listener) {
                    Ok(listener) => listener,
                    Err(e) => {
                        return warn!("cannot listen over TCP again: {e}; restart the server")
                    }
                };
            }
            TcpStage::Serving => (),
        }
        let accepted = tokio::select! {
            _ = stage.changed() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => begin(stream, address, purpose, &services, &connections),
            Err(e) => {
                debug!("cannot accept a TCP connection: {e}");
                // A client that has gone is no reason to wait; no free descriptors are.
                if e.kind() != io::ErrorKind::ConnectionAborted {
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }
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
