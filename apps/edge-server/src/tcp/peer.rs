//! Peer of one TCP connection, and what serves it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Instant;

use ab_test::ClientUnit;
use boring::ssl::SslRef;
use quiche::clock;
use tokio::sync::watch;
use tokio::sync::Notify;

use crate::admission::file_limits::FileAccount;
use crate::admission::file_limits::FileLimiter;
use crate::quic::client_certificate;
use crate::tcp::activity::ConnectionActivity;
use crate::tcp::interim_writer::InterimSlot;
use crate::tcp::limiter::Limiter;
use crate::tcp::limiter::Permit;
use crate::tcp::send_buffer::SendBuffer;
use crate::tcp::settings::TcpConfig;
use crate::tcp::stage::TcpStage;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::admin::socket::TcpConnectionInfo;
use crate::telemetry::metrics::TcpMetrics;
use crate::telemetry::shutdown_log::ShutdownLog;

/// What all TCP connections share.
pub struct TcpServices {
    /// The configuration in use.
    pub config: watch::Receiver<Arc<TcpConfig>>,

    pub stage: watch::Receiver<TcpStage>,
    pub limiter: Limiter,
    pub files: FileLimiter,
    pub metrics: TcpMetrics,
    pub access_log: Option<AccessLog>,
    pub shutdown_log: ShutdownLog,
    pub open: OpenConnections,
    pub connections_ever: AtomicU64,
}

/// Open connections by their numbers.
#[derive(Default)]
pub struct OpenConnections {
    peers: Mutex<BTreeMap<u64, Weak<Peer>>>,

    /// Notified when none is left.
    empty: Notify,
}

/// Peer of one connection.
pub struct Peer {
    pub services: Arc<TcpServices>,
    pub address: SocketAddr,

    /// The server's address of the connection.
    pub local: SocketAddr,

    /// Name of the connection in logs.
    pub name: String,
    number: u64,
    started: Instant,

    pub activity: Arc<ConnectionActivity>,
    pub files: FileAccount,
    pub send_buffer: Arc<SendBuffer>,
    pub interim: Arc<InterimSlot>,

    /// Texts of its requests under way, for the access log.
    pub summary_bytes: AtomicUsize,

    /// Name of its certificate, if it has one, for the access log.
    client_certificate: OnceLock<String>,

    /// Notified by a request that ends the connection.
    pub closing: Notify,
    _permit: Permit,
}

impl Peer {
    /// Returns the client of a connection that was accepted.
    pub fn new(
        services: &Arc<TcpServices>,
        address: SocketAddr,
        local: SocketAddr,
        permit: Permit,
    ) -> Arc<Self> {
        services.shutdown_log.on_connection();
        let number = services.connections_ever.fetch_add(1, Ordering::Relaxed);
        let files = services.files.account(permit.subnet, ClientUnit::of(address.ip()));
        let peer = Arc::new(Self {
            services: Arc::clone(services),
            address,
            local,
            name: format!("tcp-{number}"),
            number,
            started: clock::now(),
            activity: Arc::clone(&permit.activity),
            files,
            send_buffer: Arc::default(),
            interim: Arc::default(),
            summary_bytes: AtomicUsize::new(0),
            client_certificate: OnceLock::new(),
            closing: Notify::new(),
            _permit: permit,
        });
        services.open.insert(number, &peer);
        peer
    }

    /// Returns the state of the connection.
    fn info(&self, now: Instant) -> TcpConnectionInfo {
        let Self { name, address, activity, .. } = self;
        TcpConnectionInfo {
            connection: name.clone(),
            client: address.to_string(),
            age_s: now.saturating_duration_since(self.started).as_secs_f64(),
            requests: activity.under_way(),
            idle_s: activity
                .idle_since()
                .map(|since| now.saturating_duration_since(since).as_secs_f64()),
            moved_bytes: activity.moved_bytes(),
        }
    }

    /// Notes the certificate that the client has presented, if it is to be logged.
    pub fn identify(&self, ssl: &SslRef) {
        if self.services.access_log.is_none() {
            return;
        }
        if let Some(certificate) = ssl.peer_certificate() {
            let _ = self.client_certificate.set(client_certificate::name_of(&certificate));
        }
    }

    /// Returns the name of the client's certificate.
    pub fn client_certificate(&self) -> Option<&str> {
        self.client_certificate.get().map(String::as_str)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let TcpServices { stage, shutdown_log, open, .. } = &*self.services;
        open.remove(self.number);
        let stage = *stage.borrow();
        let is_draining = matches!(stage, TcpStage::HandedOver { .. } | TcpStage::Draining { .. });
        shutdown_log.on_connection_end(is_draining);
        shutdown_log.on_closed((stage == TcpStage::Closing).into());
    }
}

impl OpenConnections {
    /// Returns how many connections there are, and the state of up to `max` of them, the oldest first.
    pub fn list(&self, max: usize, now: Instant) -> (usize, Vec<TcpConnectionInfo>) {
        let peers = self.peers();
        let listed: Vec<_> = peers.values().take(max).filter_map(Weak::upgrade).collect();
        let count = peers.len();
        // The last to hold a peer removes it.
        drop(peers);
        (count, listed.iter().map(|peer| peer.info(now)).collect())
    }

    fn insert(&self, number: u64, peer: &Arc<Peer>) {
        self.peers().insert(number, Arc::downgrade(peer));
    }

    fn remove(&self, number: u64) {
        let mut peers = self.peers();
        peers.remove(&number);
        if peers.is_empty() {
            self.empty.notify_one();
        }
    }

    /// Waits until there is none.
    pub async fn wait_empty(&self) {
        while !self.peers().is_empty() {
            self.empty.notified().await;
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
