//! Admission, as far as `content/` and `h3/` use it.

#[path = "../../apps/edge-server/src/admission/file_limits.rs"]
pub mod file_limits;
