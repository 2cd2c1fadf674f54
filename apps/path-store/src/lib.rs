//! Stores of saved parameters, and their service to an event loop.
//!
//! quiche's [`PathStateStore`](quiche::path_state::PathStateStore) is the interface of a
//! store, with its rules; this crate has the backends. For a server:
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! # fn wake_event_loop() {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Before the event loop runs; the error is one human-readable line.
//! let capacity = path_store::CAPACITY_DEFAULT;
//! let role = path_store::Role::Server;
//! let backend = path_store::open("/var/lib/edge/paths.db", role, capacity)?;
//! let service = path_store::StoreService::start(backend, Default::default())?;
//!
//! // One handle per event loop. The callback runs on the store's thread.
//! let store = service.handle(Arc::new(|| wake_event_loop()));
//!
//! // In the event loop; nothing here blocks.
//! let endpoint = quiche::path_state::RemoteEndpoint::new(
//!     "192.0.2.1",
//!     "198.51.100.7".parse()?,
//!     Default::default(),
//! );
//! store.get(1, &endpoint);
//! let rtt = Duration::from_millis(50);
//! store.claim(2, &endpoint, rtt);
//! while let Some(answer) = store.poll() {
//!     match answer {
//!         path_store::Answer::Read { tag, state } => println!("{tag}: {state:?}"),
//!         path_store::Answer::Claimed { claim: Some(claim), endpoint, .. } => {
//!             store.release(&endpoint, claim.token);
//!         }
//!         path_store::Answer::Claimed { .. } => (),
//!     }
//! }
//!
//! // At shutdown: performs what is queued, for at most two seconds.
//! service.close(Duration::from_secs(2));
//! # Ok(())
//! # }
//! ```
//!
//! - [`open()`]`(location: &str, role: Role, capacity: usize) -> Result<Box<dyn Backend>, OpenError>`
//! - [`StoreService::start()`]`(backend, ServiceOptions) -> io::Result<StoreService>`
//! - [`StoreService::handle()`]`(&self, wake: Arc<dyn Fn() + Send + Sync>) -> StoreHandle`
//! - [`StoreService::flush()`], [`StoreService::close()`]`(limit: Duration) -> bool` wait;
//!   [`StoreService::metrics()`] and [`StoreService::backend_counters()`] do not
//! - [`StoreHandle`]: `get(&self, tag: u64, &RemoteEndpoint) -> bool`,
//!   `claim(&self, tag: u64, &RemoteEndpoint, rtt: Duration) -> bool`,
//!   `record(&self, &RemoteEndpoint, &PathState) -> bool`,
//!   `release(&self, &RemoteEndpoint, ClaimToken) -> bool`,
//!   `forget(&self, &RemoteEndpoint, ClaimToken, used: SystemTime) -> bool`; false means that
//!   the request was dropped. `poll(&self) -> Option<Answer>`
//! - Each get and each claim has one answer; other requests have none. The service performs
//!   requests of all handles in order: a record before a release is saved before it.
//! - [`claim_lifecycle::ClaimLifecycle`] decides what a connection asks of a store, and when.
//! - [`OwnPath`] decides which saved parameters a connection may use: its client's own, or those
//!   of the client's subnet.
//! - The caller releases a claim whose answer comes too late. The service releases the claims
//!   in the unread answers of a dropped handle.

mod backend;
mod backend_counters;
mod boot_clock;
pub mod claim_lifecycle;
mod hash_keys;
pub mod key_file;
mod location;
mod opening;
mod own_path;
mod redis;
mod service;
mod service_metrics;
pub mod small_file;
mod sqlite;

pub use self::backend::Admin;
pub use self::backend::Backend;
pub use self::backend::Entry;
pub use self::backend::Outcome;
pub use self::backend::RecordStatus;
pub use self::backend::Request;
pub use self::backend::Size;
pub use self::backend::SWEEP_MAX;
pub use self::backend_counters::BackendCounters;
pub use self::boot_clock::BootClock;
pub use self::boot_clock::BootId;
pub use self::boot_clock::SystemBootClock;
pub use self::hash_keys::HashKeys;
pub use self::hash_keys::WatchedHashKeys;
pub use self::location::check;
pub use self::location::open;
pub use self::opening::OpenError;
pub use self::opening::Role;
pub use self::opening::CAPACITY_DEFAULT;
pub use self::own_path::OwnPath;
pub use self::own_path::OwnState;
pub use self::own_path::StateKept;
pub use self::redis::RedisOptions;
pub use self::redis::RedisStore;
pub use self::redis::RedisUrl;
pub use self::service::Answer;
pub use self::service::ServiceOptions;
pub use self::service::StoreHandle;
pub use self::service::StoreMonitor;
pub use self::service::StoreService;
pub use self::service::Wake;
pub use self::service_metrics::ServiceMetrics;
pub use self::sqlite::SqliteOptions;
pub use self::sqlite::SqliteStore;
