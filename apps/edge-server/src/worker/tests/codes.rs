//! Codes of errors, as they are on the wire.

use quiche::h3;
use quiche::WireErrorCode;

pub const CONNECTION_REFUSED: u64 = WireErrorCode::ConnectionRefused as u64;
pub const H3_EXCESSIVE_LOAD: u64 = h3::WireErrorCode::ExcessiveLoad as u64;
pub const H3_INTERNAL_ERROR: u64 = h3::WireErrorCode::InternalError as u64;
pub const H3_MESSAGE_ERROR: u64 = h3::WireErrorCode::MessageError as u64;
pub const H3_NO_ERROR: u64 = h3::WireErrorCode::NoError as u64;
pub const H3_REQUEST_REJECTED: u64 = h3::WireErrorCode::RequestRejected as u64;
