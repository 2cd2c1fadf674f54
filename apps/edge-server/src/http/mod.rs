//! HTTP semantics (RFC 9110) without a wire: requests, responses, bodies, and the fields that
//! select among representations.

pub mod body;
pub mod body_stream;
pub mod conditional;
pub mod content_coding;
pub mod date;
pub mod exchange;
pub mod field;
pub mod open_file;
pub mod origin_report;
pub mod range;
pub mod request;
pub mod request_summary;
pub mod response;
pub mod response_rate;
pub mod shared_body;
pub mod sliced_body;
pub mod trusted_proxies;
