//! Rest of a body whose response has broken off.

use std::future::Future;
use std::pin::Pin;

use crate::content::cache::fetch_source::Fetched;

/// Response with the rest of a body, if the origin sends it.
pub type FetchedRest<'a> = Pin<Box<dyn Future<Output = Option<Box<Fetched>>> + Send + 'a>>;

/// Source of what is missing of a body.
pub trait BodyRest: Send + Sync {
    /// Fetches what is missing after so many bytes, if something is.
    fn fetch(&self, filled: u64) -> FetchedRest<'_>;

    /// Notes that what the origin sends is not what it was asked for.
    fn give_up(&self);
}
