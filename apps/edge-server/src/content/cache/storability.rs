//! Responses that a shared cache may keep (RFC 9111, 3).

use crate::content::cache::freshness::is_heuristic;
use crate::content::cache::freshness::value;
use crate::content::cache::freshness::ResponseDirectives;
use crate::content::cache::rules::CacheSettings;
use crate::http::response::Field;

/// Statuses that the cache knows the meaning of (RFC 9111, 5.2.2.3).
const KNOWN_STATUSES: [u16; 17] =
    [200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 403, 404, 405, 410, 414, 500, 501];

/// Statuses of parts, and of what is for one request alone.
const UNSUITABLE_STATUSES: [u16; 4] = [101, 206, 304, 425];

/// What of a request may have made its response that of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials {
    pub has_authorization: bool,
    pub has_cookie: bool,
}

/// Returns whether a response may be kept.
pub fn is_storable(
    status: u16,
    fields: &[Field],
    credentials: Credentials,
    settings: &CacheSettings,
) -> bool {
    let own = ResponseDirectives::read(fields);
    let directives = &own.directives;
    let must_understand = directives.has("must-understand");
    if UNSUITABLE_STATUSES.contains(&status)
        || must_understand && !KNOWN_STATUSES.contains(&status)
        || directives.has("no-store") && !must_understand
        || directives.has("private")
        // RFC 9111, 7.3: cookies are for one client.
        || value(fields, "set-cookie").is_some() && !settings.keeps_set_cookie
    {
        return false;
    }
    // RFC 9111, 3.5.
    let is_shared =
        ["public", "s-maxage", "must-revalidate"].iter().any(|name| directives.has(name));
    if credentials.has_authorization && !is_shared {
        return false;
    }
    // Many sites say nothing of caching, and have pages for each user.
    let has_rule = settings.lifetimes.contains_key(&status);
    let is_for_one = credentials.has_cookie && !(has_rule && settings.names_cookies());
    let is_for_all = (is_heuristic(status) || has_rule) && !is_for_one;
    own.has_explicit_freshness(fields) || directives.has("public") || is_for_all
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    #[test]
    fn response_is_kept_if_nothing_forbids_it() {
        let settings = CacheSettings {
            lifetimes: [(502, Duration::from_secs(1))].into(),
            ..CacheSettings::default()
        };
        for (status, field, has_authorization, expected) in [
            (200, None, false, true),
            (200, Some(("cache-control", "no-store, max-age=9")), false, false),
            (200, Some(("cache-control", "private")), false, false),
            (200, Some(("cache-control", "private=\"x\", max-age=9")), false, false),
            (200, Some(("cache-control", "no-cache")), false, true),
            (200, Some(("cache-control", "max-age=9")), true, false),
            (200, Some(("cache-control", "public")), true, true),
            (200, Some(("cache-control", "s-maxage=9")), true, true),
            (200, Some(("cache-control", "must-revalidate, max-age=9")), true, true),
            (200, Some(("set-cookie", "a=1")), false, false),
            (200, Some(("cache-control", "no-store, must-understand")), false, true),
            (599, Some(("cache-control", "no-store, must-understand")), false, false),
            (599, Some(("cache-control", "max-age=9")), false, true),
            (599, None, false, false),
            (502, None, false, true),
            (302, None, false, false),
            (302, Some(("expires", "0")), false, true),
            (404, None, false, true),
            (206, Some(("cache-control", "max-age=9")), false, false),
            (304, Some(("cache-control", "max-age=9")), false, false),
            (200, Some(("cdn-cache-control", "no-store")), false, false),
        ] {
            let fields: Vec<_> =
                field.iter().map(|(name, value)| Field::new(*name, *value)).collect();
            let credentials = Credentials { has_authorization, has_cookie: false };
            let storable = is_storable(status, &fields, credentials, &settings);
            assert_eq!(storable, expected, "{status} {field:?} {has_authorization}");
        }
    }

    #[test]
    fn response_with_a_cookie_is_kept_by_rule() {
        let settings = CacheSettings { keeps_set_cookie: true, ..CacheSettings::default() };
        for (other, expected) in [("max-age=9", true), ("private", false)] {
            let fields = [Field::new("set-cookie", "a=1"), Field::new("cache-control", other)];
            assert_eq!(is_storable(200, &fields, Credentials::default(), &settings), expected);
        }
    }

    #[test]
    fn response_to_a_cookie_is_kept_if_it_says_so() {
        let credentials = Credentials { has_cookie: true, ..Credentials::default() };
        for (field, expected) in [
            (("etag", "\"a\""), false),
            (("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"), false),
            (("cache-control", "no-cache"), false),
            (("cache-control", "max-age=9"), true),
            (("cache-control", "public"), true),
            (("expires", "0"), true),
        ] {
            let fields = [Field::new(field.0, field.1)];
            let storable = is_storable(200, &fields, credentials, &CacheSettings::default());
            assert_eq!(storable, expected, "{field:?}");
        }
    }

    #[test]
    fn response_to_a_cookie_is_kept_by_rule_if_others_are_named() {
        for (rule, has_cookie, expected) in [
            ("ttl = { 200 = 1 }", false, true),
            ("ttl = { 200 = 1 }", true, false),
            ("ttl = { 200 = 1 }\nbypass-cookies = ['session*']", true, true),
            ("bypass-cookies = ['session*']", true, false),
        ] {
            let settings = CacheSettings::new(&toml::from_str(rule).unwrap()).unwrap();
            let credentials = Credentials { has_cookie, ..Credentials::default() };
            assert_eq!(is_storable(200, &[], credentials, &settings), expected, "{rule}");
        }
    }
}
