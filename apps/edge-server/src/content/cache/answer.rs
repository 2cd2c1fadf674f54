//! Answer of the cache to one request: a response that is kept, and a reader of its body.

use std::sync::Arc;

use crate::content::cache::entry::CachedResponse;
use crate::content::cache::status::CacheStatus;
use crate::http::body::BodySource;

/// A response that is kept, for one request.
#[derive(Debug)]
pub struct CacheAnswer {
    pub response: Arc<CachedResponse>,
    pub body: BodySource,
    pub status: CacheStatus,
}

impl CacheAnswer {
    /// Returns the answer with a response, if its body can still be read, and is not in slices.
    pub fn new(response: Arc<CachedResponse>, status: CacheStatus) -> Option<Self> {
        let reader = response.body.reader().filter(|_| response.slices.is_none())?;
        Some(Self { response, body: BodySource::Shared(reader), status })
    }
}
