//! Freshness of a response (RFC 9111, 4.2): how old it is, and how old it may become.

use std::time::Duration;
use std::time::SystemTime;

use crate::content::cache::directives::delta_seconds;
use crate::content::cache::directives::CacheDirectives;
use crate::content::cache::directives::SECONDS_MAX;
use crate::content::cache::rules::CacheSettings;
use crate::http::response::Field;

/// Statuses of responses that a cache may keep for a while without being told how long (RFC 9110, 15.1).
const HEURISTIC_STATUSES: [u16; 12] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501, 421];

/// Part of the time since its last change that a response is fresh if nothing says how long, and the
/// longest such time.
const HEURISTIC_DIVISOR: u32 = 10;
const HEURISTIC_MAX: Duration = Duration::from_secs(24 * 3600);

/// When a request was sent, and its response came.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeTimes {
    pub sent: SystemTime,
    pub received: SystemTime,
}

/// Freshness of one response.
#[derive(Clone, Debug)]
pub struct Freshness {
    pub sent: SystemTime,
    pub received: SystemTime,

    /// Age when it was received.
    pub initial_age: Duration,

    /// Age up to which it is fresh.
    pub lifetime: Duration,

    /// Whether it must not be used stale, or, even fresh, without being validated.
    pub must_revalidate: bool,
    pub is_unvalidated: bool,

    /// How long it may be used stale while it is revalidated, and if the origin fails (RFC 5861).
    pub while_revalidate: Duration,
    pub if_error: Option<Duration>,
}

/// Directives of a response, and what they say that its fields do not.
pub struct ResponseDirectives {
    pub directives: CacheDirectives,

    /// Whether they are for caches like this one alone: `Expires` does not count then.
    is_targeted: bool,
}

impl ResponseDirectives {
    /// Reads those of a response.
    pub fn read(fields: &[Field]) -> Self {
        let targeted = CacheDirectives::parse_targeted(values(fields, "cdn-cache-control"));
        let is_targeted = targeted.is_some();
        let own = || CacheDirectives::parse(values(fields, "cache-control"));
        Self { directives: targeted.unwrap_or_else(own), is_targeted }
    }

    /// Returns whether the response itself says how long it is fresh.
    pub fn has_explicit_freshness(&self, fields: &[Field]) -> bool {
        let Self { directives, is_targeted } = self;
        directives.has("s-maxage")
            || directives.has("max-age")
            || !is_targeted && value(fields, "expires").is_some()
    }
}

/// Returns whether a cache may keep responses with a status that say nothing about it.
pub fn is_heuristic(status: u16) -> bool {
    HEURISTIC_STATUSES.contains(&status)
}

/// Returns the lines of a field.
pub fn values<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = &'a str> + Clone {
    fields.iter().filter(move |field| field.name == name).map(|field| field.value.as_ref())
}

/// Returns the first line of a field.
pub fn value<'a>(fields: &'a [Field], name: &'a str) -> Option<&'a str> {
    values(fields, name).next()
}

impl Freshness {
    /// Returns that of a response with this status, these fields and this date.
    pub fn of(
        status: u16,
        fields: &[Field],
        date: Option<&str>,
        times: ExchangeTimes,
        settings: &CacheSettings,
    ) -> Self {
        let own = ResponseDirectives::read(fields);
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let directives = &own.directives;
        let seconds = |name| directives.seconds(name).map(Duration::from_secs);
        let while_revalidate = seconds("stale-while-revalidate");
        Self {
            sent: times.sent,
            received: times.received,
            initial_age: initial_age(fields, date, times),
            lifetime: lifetime(status, fields, date.unwrap_or(times.received), &own, settings),
            // RFC 9111, 5.2.2.10: s-maxage is for shared caches what must-revalidate is.
            must_revalidate: ["must-revalidate", "proxy-revalidate", "s-maxage", "no-cache"]
                .iter()
                .any(|name| directives.has(name)),
            is_unvalidated: directives.has("no-cache"),
            while_revalidate: while_revalidate.unwrap_or(settings.stale_while_revalidate),
            if_error: seconds("stale-if-error"),
        }
    }

    /// Returns whether all who wait for it may have it: it is fresh for a while, although that may be over as it
    /// arrives, by a date of whole seconds.
    pub fn is_for_all(&self) -> bool {
        !self.lifetime.is_zero() && !self.is_unvalidated
    }

    /// Returns its age (RFC 9111, 4.2.3).
    pub fn age(&self, now: SystemTime) -> Duration {
        self.initial_age + now.duration_since(self.received).unwrap_or_default()
    }

    /// Returns how long it has been stale, or `None` if it is fresh.
    pub fn staleness(&self, now: SystemTime) -> Option<Duration> {
        self.age(now).checked_sub(self.lifetime)
    }
}

/// Returns the age of a response that has just come.
fn initial_age(fields: &[Field], date: Option<SystemTime>, times: ExchangeTimes) -> Duration {
    let ExchangeTimes { sent, received } = times;
    let apparent = date.and_then(|date| received.duration_since(date).ok()).unwrap_or_default();
    // RFC 9111, 5.1: of several members the first counts, and an invalid one does not.
    let age = value(fields, "age").and_then(|value| value.split(',').next());
    let age = age.and_then(|age| delta_seconds(age.trim())).unwrap_or(0);
    let delay = received.duration_since(sent).unwrap_or_default();
    apparent.max(Duration::from_secs(age) + delay)
}

/// Returns how long a response is fresh (RFC 9111, 4.2.1 and 4.2.2).
fn lifetime(
    status: u16,
    fields: &[Field],
    date: SystemTime,
    own: &ResponseDirectives,
    settings: &CacheSettings,
) -> Duration {
    let ResponseDirectives { directives, is_targeted } = own;
    let seconds = directives.seconds("s-maxage").or_else(|| directives.seconds("max-age"));
    if let Some(seconds) = seconds {
        return Duration::from_secs(seconds);
    }
    let mut expires = values(fields, "expires").filter(|_| !is_targeted);
    if let Some(first) = expires.next() {
        let is_only = expires.next().is_none();
        let at = expiry(first).filter(|_| is_only);
        return at.and_then(|at| at.duration_since(date).ok()).unwrap_or_default();
    }
    if let Some(time) = settings.lifetimes.get(&status) {
        return *time;
    }
    let modified = value(fields, "last-modified");
    let modified = modified.filter(|_| is_heuristic(status) || directives.has("public"));
    let modified = modified.and_then(|modified| httpdate::parse_http_date(modified).ok());
    let unchanged = modified.and_then(|modified| date.duration_since(modified).ok());
    unchanged.map_or(Duration::ZERO, |time| (time / HEURISTIC_DIVISOR).min(HEURISTIC_MAX))
}

/// Parses a date, as strictly as its three formats are (RFC 9110, 5.6.7).
fn expiry(text: &str) -> Option<SystemTime> {
    let at = httpdate::parse_http_date(text).ok()?;
    let is_exact = httpdate::fmt_http_date(at).eq_ignore_ascii_case(text);
    // The obsolete formats begin with a whole weekday, or have no comma.
    let is_obsolete = text.find(',') != Some(3);
    (is_exact || is_obsolete).then_some(at.min(SystemTime::UNIX_EPOCH + far_future()))
}

fn far_future() -> Duration {
    Duration::from_secs(SECONDS_MAX * 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::UNIX_EPOCH;

    fn freshness(fields: &[(&'static str, String)], date: Option<&str>, delay: u64) -> Freshness {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let times = ExchangeTimes { sent: now - Duration::from_secs(delay), received: now };
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| Field::new(*name, value.clone())).collect();
        let settings = CacheSettings {
            lifetimes: [(404, Duration::from_secs(7))].into(),
            ..CacheSettings::default()
        };
        Freshness::of(200, &fields, date, times, &settings)
    }

    #[test]
    fn lifetime_is_of_the_most_specific_field() {
        let at = |seconds: i64| {
            let at = (784_111_777 + seconds) as u64;
            httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(at))
        };
        let date = at(0);
        let control = |value: &str| ("cache-control", value.to_owned());
        for (fields, expected) in [
            (vec![], 0),
            (vec![control("max-age=60")], 60),
            (vec![control("max-age=60, s-maxage=5")], 5),
            (vec![control("max-age=60"), ("expires", at(1000))], 60),
            (vec![("expires", at(1000))], 1000),
            (vec![("expires", at(-1000))], 0),
            (vec![("expires", "0".to_owned())], 0),
            (vec![("expires", at(1000)), ("expires", at(1000))], 0),
            (vec![("expires", at(1000).replace("GMT", "UTC"))], 0),
            (vec![("expires", at(1000).replace(' ', "  "))], 0),
            (vec![("last-modified", at(-1000))], 100),
            (vec![("last-modified", at(-100_000_000))], 86_400),
            (vec![("cdn-cache-control", "max-age=9".to_owned()), control("max-age=60")], 9),
            (vec![("cdn-cache-control", "&".to_owned()), control("max-age=60")], 60),
        ] {
            let freshness = freshness(&fields, Some(&date), 0);
            assert_eq!(freshness.lifetime, Duration::from_secs(expected), "{fields:?}");
        }
    }

    #[test]
    fn age_counts_caches_before_and_the_way() {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(784_111_777 - 30));
        for (age, date, delay, expected) in [
            (None, None, 0, 0),
            (Some("10"), None, 2, 12),
            (None, Some(date.as_str()), 2, 30),
            (Some("40"), Some(date.as_str()), 2, 42),
            (Some("10, x"), None, 0, 10),
            (Some("x, 10"), None, 0, 0),
            (Some("-5"), None, 0, 0),
            (Some("99999999999999999999"), None, 0, SECONDS_MAX),
        ] {
            let fields: Vec<_> = age.map(|age| ("age", age.to_owned())).into_iter().collect();
            let freshness = freshness(&fields, date, delay);
            let now = freshness.received + Duration::from_secs(5);
            assert_eq!(freshness.initial_age, Duration::from_secs(expected), "{age:?}");
            assert_eq!(freshness.age(now), Duration::from_secs(expected + 5), "{age:?}");
        }
    }
}
