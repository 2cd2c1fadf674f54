//! Admission, as far as `content/` and `h3/` use it.

#[path = "../../apps/edge-server/src/admission/budgets.rs"]
pub mod budgets;
#[path = "../../apps/edge-server/src/admission/connection_limits.rs"]
pub mod connection_limits;
#[path = "../../apps/edge-server/src/admission/file_limits.rs"]
pub mod file_limits;
#[path = "../../apps/edge-server/src/admission/notices.rs"]
pub mod notices;
#[path = "../../apps/edge-server/src/admission/ranking.rs"]
pub mod ranking;
#[path = "../../apps/edge-server/src/admission/surplus_handshakes.rs"]
pub mod surplus_handshakes;
#[path = "../../apps/edge-server/src/admission/thread_priority.rs"]
pub mod thread_priority;
#[path = "../../apps/edge-server/src/admission/token_bucket.rs"]
pub mod token_bucket;
