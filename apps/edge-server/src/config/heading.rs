//! Headings of `--help`, and of the options page.

pub const PROCESS: &str = "Process";
pub const CONTENT: &str = "Content";
pub const TLS: &str = "Certificates and TLS";
pub const STORE: &str = "Store of path state";
pub const CONGESTION: &str = "Congestion control and packets";
pub const RESUME: &str = "Careful Resume";
pub const SECURITY: &str = "Secrets and early data";
pub const LIMITS: &str = "Limits on clients";
pub const TELEMETRY: &str = "Metrics and logs";
pub const ACME: &str = "Certificates by ACME";
