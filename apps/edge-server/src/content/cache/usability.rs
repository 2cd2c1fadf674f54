//! Usability of a response that is kept, for one request (RFC 9111, 4.2.4 and 5.2.1).

use std::time::Duration;
use std::time::SystemTime;

use crate::content::cache::directives::CacheDirectives;
use crate::content::cache::freshness::Freshness;

/// Use of a response that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    Usable,

    /// It may be used while it is fetched again.
    WhileRevalidate,

    /// The client takes it although it is stale.
    MaxStale,
    Stale,

    /// The client wants it validated.
    Unwanted,
}

/// Returns how a response may be used by a request with these directives.
pub fn usability(
    freshness: &Freshness,
    directives: &CacheDirectives,
    now: SystemTime,
) -> Usability {
    let seconds = |name| directives.seconds(name).map(Duration::from_secs);
    let age = freshness.age(now);
    let is_too_old = seconds("max-age").is_some_and(|max_age| age > max_age);
    let left = freshness.lifetime.saturating_sub(age);
    let is_too_short = seconds("min-fresh").is_some_and(|min_fresh| left < min_fresh);
    if directives.has("no-cache") || is_too_old || is_too_short {
        return Usability::Unwanted;
    }
    if freshness.is_unvalidated {
        return Usability::Stale;
    }
    let Some(staleness) = freshness.staleness(now) else { return Usability::Usable };
    if freshness.must_revalidate {
        return Usability::Stale;
    }
    // Without a value, any staleness is welcome.
    let max_stale = match directives.has_value("max-stale") {
        true => seconds("max-stale"),
        false => directives.has("max-stale").then_some(Duration::MAX),
    };
    if max_stale.is_some_and(|max_stale| staleness <= max_stale) {
        return Usability::MaxStale;
    }
    match staleness < freshness.while_revalidate {
        true => Usability::WhileRevalidate,
        false => Usability::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::UNIX_EPOCH;

    #[test]
    fn usability_follows_age_and_directives() {
        use Usability::*;
        let freshness = |must_revalidate, is_unvalidated, while_revalidate| Freshness {
            sent: UNIX_EPOCH,
            received: UNIX_EPOCH,
            initial_age: Duration::ZERO,
            lifetime: Duration::from_secs(10),
            must_revalidate,
            is_unvalidated,
            while_revalidate: Duration::from_secs(while_revalidate),
            if_error: None,
        };
        let plain = freshness(false, false, 0);
        let strict = freshness(true, false, 5);
        for (own, age, directives, expected) in [
            (&plain, 9, "", Usable),
            (&plain, 10, "", Stale),
            (&plain, 9, "no-cache", Unwanted),
            (&plain, 9, "max-age=8", Unwanted),
            (&plain, 9, "max-age=9", Usable),
            (&plain, 9, "min-fresh=1", Usable),
            (&plain, 9, "min-fresh=2", Unwanted),
            (&plain, 15, "max-stale", MaxStale),
            (&plain, 15, "max-stale=5", MaxStale),
            (&plain, 15, "max-stale=4", Stale),
            (&freshness(false, false, 5), 14, "", WhileRevalidate),
            (&freshness(false, false, 5), 15, "", Stale),
            (&freshness(false, true, 5), 1, "", Stale),
            (&strict, 9, "", Usable),
            (&strict, 11, "max-stale", Stale),
        ] {
            let directives_read = CacheDirectives::parse([directives].into_iter());
            let now = UNIX_EPOCH + Duration::from_secs(age);
            assert_eq!(usability(own, &directives_read, now), expected, "{age} {directives}");
        }
    }
}
