//! Reply to a forwarded request: of the origin, or of the cache in its place.

use crate::content::cache::answer::CacheAnswer;
use crate::content::origin::error::OriginError;
use crate::http::response::Response;

pub type OriginResult = Result<ForwardReply, OriginError>;

/// Response to a request that is for an origin.
#[derive(Debug)]
pub enum ForwardReply {
    Passed(Response),
    Cached(CacheAnswer),
}
