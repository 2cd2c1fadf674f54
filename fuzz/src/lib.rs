//! Fuzzed code: folders of edge-server, and modules of it and of path-store.

#[path = "../../apps/edge-server/src/config/mod.rs"]
pub mod config;
#[path = "../../apps/edge-server/src/content/mod.rs"]
pub mod content;
#[path = "../../apps/edge-server/src/h3/mod.rs"]
pub mod h3;
#[path = "../../apps/edge-server/src/http/mod.rs"]
pub mod http;
#[path = "../../apps/edge-server/src/quic/mod.rs"]
pub mod quic;
#[path = "../../apps/path-store/src/redis/record.rs"]
pub mod redis_record;
#[path = "../../apps/edge-server/src/resume/mod.rs"]
pub mod resume;

pub mod admission;
mod ends;

pub use ends::Ends;
pub use ends::Listener;
