//! Answer of the cache to one request: a response that is kept, and a reader of its body.

use std::sync::Arc;

use crate::content::cache::entry::CachedResponse;
use crate::content::cache::status::CacheStatus;
use crate::http::shared_body::SharedBodyReader;

/// A response that is kept, for one request.
#[derive(Debug)]
pub struct CacheAnswer {
    pub response: Arc<CachedResponse>,
    pub reader: SharedBodyReader,
    pub status: CacheStatus,
}

impl CacheAnswer {
    /// Returns the answer with a response, if its body can still be read.
    pub fn new(response: Arc<CachedResponse>, status: CacheStatus) -> Option<Self> {
        let reader = response.body.reader()?;
        Some(Self { response, reader, status })
    }
}
