//! Look-up of a request in memory: a response that may be used (RFC 9111, 4), or what is to be fetched.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use std::time::SystemTime;

use crate::content::cache::answer::CacheAnswer;
use crate::content::cache::counts::CacheResult;
use crate::content::cache::directives::CacheDirectives;
use crate::content::cache::fetch::CacheFetch;
use crate::content::cache::fetch::FetchMode;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::status::CacheStatus;
use crate::content::cache::status::ForwardReason;
use crate::content::cache::store::ResponseCache;
use crate::content::cache::usability::usability;
use crate::content::cache::usability::Usability;
use crate::http::request::Method;
use crate::http::request::Request;

/// What becomes of a request.
pub enum CacheLookup {
    /// There is a response, which is to be fetched again if it says so.
    Hit(CacheAnswer, Option<CacheFetch>),
    Fetch(CacheFetch),

    /// The cache is not asked.
    Bypass(ForwardReason),

    /// There is none, also not on disk, and the client wants no other (RFC 9111, 5.2.1.7).
    OnlyIfCached,
}

/// Looks a request up.
pub fn look_up(
    cache: &Arc<ResponseCache>,
    settings: &Arc<CacheSettings>,
    key: Arc<str>,
    request: &Request<'_>,
    (now, wall_now): (Instant, SystemTime),
) -> CacheLookup {
    if let Some(reason) = bypass_reason(request, settings) {
        CacheResult::Bypass.count();
        return CacheLookup::Bypass(reason);
    }
    let (kept, has_others) = cache.get(&key, request);
    let reason = if has_others { ForwardReason::VaryMiss } else { ForwardReason::UriMiss };
    let directives = directives_of(request, settings);
    let (cache, settings, mode) = (Arc::clone(cache), Arc::clone(settings), FetchMode::Shared);
    let mut fetch = CacheFetch {
        cache,
        settings,
        key,
        mode,
        reason,
        kept: None,
        directives,
        is_background: false,
    };
    if let Some(kept) = kept {
        let usability = usability(&kept.freshness, &fetch.directives, wall_now);
        fetch.reason = match usability {
            Usability::Unwanted => ForwardReason::Request,
            _ => ForwardReason::Stale,
        };
        fetch.kept = Some(kept);
        if let Some(hit) = hit(usability, &fetch) {
            return hit;
        }
    }
    fetch.mode = mode_of(&fetch, request, now);
    let may_be_on_disk = fetch.kept.is_none() && fetch.cache.disk().is_some();
    if fetch.wants_kept() && !may_be_on_disk {
        CacheResult::Failed.count();
        return CacheLookup::OnlyIfCached;
    }
    CacheLookup::Fetch(fetch)
}

/// Returns who gets the response that is fetched for a request.
fn mode_of(fetch: &CacheFetch, request: &Request<'_>, now: Instant) -> FetchMode {
    let CacheFetch { cache, key, directives, .. } = fetch;
    match request.method {
        Method::Head => FetchMode::Head,
        // Others would wait for a response that they do not get.
        _ if directives.has("no-store") || cache.is_unshared(key, now) => FetchMode::Own,
        _ if request.raw_values("authorization").next().is_some() => FetchMode::Own,
        _ => FetchMode::Shared,
    }
}

/// Returns the answer with what is kept, if it may be used. One in slices takes a thread that can fetch them.
fn hit(usability: Usability, fetch: &CacheFetch) -> Option<CacheLookup> {
    let (result, detail) = match usability {
        Usability::Usable | Usability::MaxStale => (CacheResult::Hit, None),
        Usability::WhileRevalidate => (CacheResult::Stale, Some("stale-while-revalidate")),
        Usability::Stale | Usability::Unwanted => return None,
    };
    let status = CacheStatus { detail, ..CacheStatus::default() };
    let answer = CacheAnswer::new(fetch.kept.clone()?, status)?;
    result.count();
    let is_due = detail.is_some() && !fetch.cache.flights.has(&fetch.key);
    let again = is_due.then(|| fetch.in_background());
    Some(CacheLookup::Hit(answer, again))
}

/// Returns the directives of a client (RFC 9111, 5.2.1), with the one that preceded them (5.4).
fn directives_of(request: &Request<'_>, settings: &CacheSettings) -> CacheDirectives {
    if !settings.heeds_clients {
        return CacheDirectives::default();
    }
    let lines: Vec<_> = request.lossy_values("cache-control").collect();
    let older: Vec<_> = request.lossy_values("pragma").filter(|_| lines.is_empty()).collect();
    CacheDirectives::parse(lines.iter().chain(&older).map(Cow::as_ref))
}

/// Returns why the cache is not asked, if it is not.
fn bypass_reason(request: &Request<'_>, settings: &CacheSettings) -> Option<ForwardReason> {
    if !request.method.is_safe() {
        return Some(ForwardReason::Method);
    }
    // RFC 9110, 13.1.1 and 13.1.4: the origin alone knows what is current.
    let is_for_origin = ["if-match", "if-unmodified-since"]
        .iter()
        .any(|name| request.raw_values(name).next().is_some());
    let has_content = request.content_length.is_some_and(|length| length > 0);
    let bypasses = is_for_origin || has_content || settings.bypasses(request);
    bypasses.then_some(ForwardReason::Bypass)
}
