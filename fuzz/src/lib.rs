//! What is fuzzed: modules of edge-server and of path-store, which are programs, and
//! whose other modules are not needed.

#[path = "../../apps/edge-server/src/certificate.rs"]
pub mod certificate;
#[path = "../../apps/edge-server/src/config.rs"]
pub mod config;
#[path = "../../apps/edge-server/src/config_file.rs"]
pub mod config_file;
#[path = "../../apps/edge-server/src/connection_ids.rs"]
pub mod connection_ids;
#[path = "../../apps/edge-server/src/http/mod.rs"]
pub mod http;
#[path = "../../apps/edge-server/src/limits.rs"]
pub mod limits;
#[path = "../../apps/edge-server/src/names.rs"]
pub mod names;
#[path = "../../apps/edge-server/src/qlog_sample.rs"]
pub mod qlog_sample;
#[path = "../../apps/edge-server/src/randomness.rs"]
pub mod randomness;
#[path = "../../apps/path-store/src/redis/record.rs"]
pub mod redis_record;
#[path = "../../apps/edge-server/src/secrets.rs"]
pub mod secrets;
#[path = "../../apps/edge-server/src/settings.rs"]
pub mod settings;
#[path = "../../apps/edge-server/src/site/mod.rs"]
pub mod site;
#[path = "../../apps/edge-server/src/stateless_reset.rs"]
pub mod stateless_reset;
#[path = "../../apps/edge-server/src/steering.rs"]
pub mod steering;
#[path = "../../apps/edge-server/src/subnets.rs"]
pub mod subnets;
#[path = "../../apps/edge-server/src/tickets.rs"]
pub mod tickets;
#[path = "../../apps/edge-server/src/tokens.rs"]
pub mod tokens;
#[path = "../../apps/edge-server/src/transport.rs"]
pub mod transport;

mod ends;

pub use ends::Ends;
pub use ends::Listener;
