//! Peer of one TCP connection, and what serves it.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::OnceLock;

use ab_test::ClientUnit;
use boring::ssl::SslRef;
use tokio::sync::watch;
use tokio::sync::Notify;

use crate::admission::file_limits::FileAccount;
use crate::admission::file_limits::FileLimiter;
use crate::quic::client_certificate;
use crate::tcp::activity::ConnectionActivity;
use crate::tcp::limiter::Limiter;
use crate::tcp::limiter::Permit;
use crate::tcp::send_buffer::SendBuffer;
use crate::tcp::settings::TcpConfig;
use crate::tcp::stage::TcpStage;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::metrics::TcpMetrics;

/// What all TCP connections share.
pub struct TcpServices {
    /// The configuration in use.
    pub config: watch::Receiver<Arc<TcpConfig>>,

    pub stage: watch::Receiver<TcpStage>,
    pub limiter: Limiter,
    pub files: FileLimiter,
    pub metrics: TcpMetrics,
    pub access_log: Option<AccessLog>,
    pub connections_ever: AtomicU64,
}

/// Peer of one connection.
pub struct Peer {
    pub services: Arc<TcpServices>,
    pub address: SocketAddr,

    /// The server's address of the connection.
    pub local: SocketAddr,

    /// Name of the connection in logs.
    pub name: String,

    pub activity: Arc<ConnectionActivity>,
    pub files: FileAccount,
    pub send_buffer: Arc<SendBuffer>,

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
    ) -> Self {
        let number = services.connections_ever.fetch_add(1, Ordering::Relaxed);
        let files = services.files.account(permit.subnet, ClientUnit::of(address.ip()));
        Self {
            services: Arc::clone(services),
            address,
            local,
            name: format!("tcp-{number}"),
            activity: Arc::clone(&permit.activity),
            files,
            send_buffer: Arc::default(),
            summary_bytes: AtomicUsize::new(0),
            client_certificate: OnceLock::new(),
            closing: Notify::new(),
            _permit: permit,
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
