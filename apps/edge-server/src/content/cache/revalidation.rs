//! Revalidation of a response that is kept (RFC 9111, 4.3): the conditions of the request, and whether a
//! 304 is about it.

use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use hyper::header::IF_MATCH;
use hyper::header::IF_MODIFIED_SINCE;
use hyper::header::IF_NONE_MATCH;
use hyper::header::IF_RANGE;
use hyper::header::IF_UNMODIFIED_SINCE;
use hyper::header::RANGE;
use hyper::HeaderMap;

use crate::content::cache::entry::CachedResponse;
use crate::content::cache::freshness::value;
use crate::http::response::Field;

/// Fields of a client that are about what it has, or wants a part of.
const CLIENT_CONDITIONS: [HeaderName; 6] =
    [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE];

/// Removes a client's own conditions from a request whose response others get, too.
pub fn remove_conditions(headers: &mut HeaderMap) {
    for name in CLIENT_CONDITIONS {
        headers.remove(name);
    }
}

/// Returns whether a client has conditions of its own.
pub fn has_conditions(headers: &HeaderMap) -> bool {
    CLIENT_CONDITIONS.iter().any(|name| headers.contains_key(name))
}

/// Adds the validators of what is kept. Returns whether it has any.
pub fn add_validators(headers: &mut HeaderMap, kept: &CachedResponse) -> bool {
    let validators = [(IF_NONE_MATCH, kept.etag()), (IF_MODIFIED_SINCE, kept.last_modified())];
    let validators = validators.into_iter().filter_map(|(name, text)| {
        let value = HeaderValue::from_str(text?).ok()?;
        Some((name, value))
    });
    let before = headers.len();
    headers.extend(validators.collect::<Vec<_>>());
    headers.len() > before
}

/// Returns whether a 304 with these fields is about what is kept: its validators are the same.
pub fn is_about(fields: &[Field], kept: &CachedResponse) -> bool {
    let opaque = |etag: &str| etag.trim().trim_start_matches("W/").to_owned();
    match (value(fields, "etag"), value(fields, "last-modified")) {
        (Some(etag), _) => kept.etag().map(opaque) == Some(opaque(etag)),
        (None, Some(modified)) if kept.etag().is_none() => {
            kept.last_modified() == Some(modified.trim())
        }
        _ => true,
    }
}
