//! Conditional requests (RFC 9110, 13): validators of a representation and the evaluation of
//! preconditions.

use std::time::Duration;
use std::time::SystemTime;

use crate::http::request::Request;

/// Age at which a modification time becomes a strong validator (RFC 9110, 8.8.2.2): the field
/// has a resolution of one second.
const STRONG_AFTER: Duration = Duration::from_secs(1);

/// Validators of a representation (RFC 9110, 8.8).
#[derive(Clone, Debug)]
pub struct Validators {
    /// Strong entity tag, with its quotes.
    pub etag: String,

    pub modified: Option<SystemTime>,

    /// Whether the modification time is no strong validator, however old: it is that of other bytes,
    /// too, which the same request may get.
    pub is_date_weak: bool,
}

/// Result of a request's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Send the ranges that the request names, or the whole representation.
    Proceed,

    /// Send the whole representation; ignore ranges.
    Whole,

    /// Status 304.
    NotModified,

    /// Status 412.
    Failed,
}

impl Validators {
    /// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110, 13.2.2.
    pub fn evaluate(&self, request: &Request<'_>, wall_now: SystemTime) -> Precondition {
        if request.value("if-match").is_some() {
            if !self.matches(request, "if-match", false) {
                return Precondition::Failed;
            }
        } else if self
            .date(request, "if-unmodified-since")
            .is_some_and(|since| !self.is_unmodified_since(since))
        {
            return Precondition::Failed;
        }
        if request.value("if-none-match").is_some() {
            if self.matches(request, "if-none-match", true) {
                return Precondition::NotModified;
            }
        } else if self
            .date(request, "if-modified-since")
            .is_some_and(|at| self.is_unmodified_since(at))
        {
            return Precondition::NotModified;
        }
        match request.value("if-range") {
            Some(validator) if !self.is_current(validator, wall_now) => Precondition::Whole,
            _ => Precondition::Proceed,
        }
    }

    /// Returns whether a precondition of the request names this representation, by its entity tag.
    pub fn are_named_by(&self, request: &Request<'_>) -> bool {
        let is_named = |list| has_tag(list, &self.etag, true);
        ["if-match", "if-none-match", "if-range"]
            .iter()
            .any(|name| request.values(name).any(is_named))
    }

    /// Returns the value of `last-modified`, never later than the response (RFC 9110, 8.8.2.1).
    pub fn last_modified(&self, wall_now: SystemTime) -> Option<String> {
        self.modified.map(|at| httpdate::fmt_http_date(at.min(wall_now)))
    }

    /// Returns whether the field `name` lists this entity tag (RFC 9110, 13.1.1 and 13.1.2).
    fn matches(&self, request: &Request<'_>, name: &str, weak: bool) -> bool {
        request.values(name).any(|list| list.trim() == "*" || has_tag(list, &self.etag, weak))
    }

    /// Returns the date of the field `name`, if the representation has one to compare it with.
    fn date(&self, request: &Request<'_>, name: &str) -> Option<SystemTime> {
        self.modified?;
        httpdate::parse_http_date(request.value(name)?).ok()
    }

    /// Returns whether the modification time is at or before `time`, in whole seconds.
    fn is_unmodified_since(&self, time: SystemTime) -> bool {
        self.seconds() <= Some(seconds(time))
    }

    /// Returns whether an `if-range` validator is this representation's, by strong comparison
    /// (RFC 9110, 13.1.5).
    fn is_current(&self, validator: &str, wall_now: SystemTime) -> bool {
        if validator.starts_with('"') || validator.starts_with("W/") {
            return validator == self.etag;
        }
        let old = |at| wall_now.duration_since(at).is_ok_and(|age| age >= STRONG_AFTER);
        let date = httpdate::parse_http_date(validator).ok();
        date.is_some_and(|date| self.seconds() == Some(seconds(date)))
            && self.modified.is_some_and(old)
            && !self.is_date_weak
    }

    fn seconds(&self) -> Option<u64> {
        self.modified.map(seconds)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns whether a list of entity tags contains `own`. Tags may contain commas. Parsing stops
/// at the first malformed tag.
pub fn has_tag(list: &str, own: &str, weak: bool) -> bool {
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (is_weak, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let Some(end) = tag.strip_prefix('"').and_then(|opaque| opaque.find('"')) else {
            return false;
        };
        let (tag, after) = tag.split_at(end + 2);
        if tag == own && (weak || !is_weak) {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn evaluated(method: &str, fields: &[(&str, &str)], age: Duration) -> Precondition {
        evaluated_by(method, fields, age, false)
    }

    fn evaluated_by(
        method: &str,
        fields: &[(&str, &str)],
        age: Duration,
        is_date_weak: bool,
    ) -> Precondition {
        let start =
            [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let headers: Vec<_> = start
            .iter()
            .chain(fields)
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        // Files have fractions of seconds, dates have none.
        let modified = httpdate::parse_http_date(MODIFIED).unwrap() + Duration::from_millis(700);
        let validators =
            Validators { etag: "\"tag\"".to_owned(), modified: Some(modified), is_date_weak };
        validators.evaluate(&Request::read(&headers).unwrap(), modified + age)
    }

    #[test]
    fn preconditions_follow_rfc_precedence() {
        use Precondition::*;
        let table: &[(&[(&str, &str)], Precondition)] = &[
            (&[], Proceed),
            (&[("if-match", "\"tag\"")], Proceed),
            (&[("if-match", "*")], Proceed),
            (&[("if-match", "\"x\", \"tag\"")], Proceed),
            (&[("if-match", "\"x\""), ("if-match", "\"tag\"")], Proceed),
            (&[("if-match", "\"x\"")], Failed),
            (&[("if-match", "W/\"tag\"")], Failed),
            (&[("if-match", "tag")], Failed),
            (&[("if-unmodified-since", MODIFIED)], Proceed),
            (&[("if-unmodified-since", AFTER)], Proceed),
            (&[("if-unmodified-since", BEFORE)], Failed),
            (&[("if-unmodified-since", "yesterday")], Proceed),
            (&[("if-match", "\"tag\""), ("if-unmodified-since", BEFORE)], Proceed),
            (&[("if-none-match", "\"tag\"")], NotModified),
            (&[("if-none-match", "W/\"tag\"")], NotModified),
            (&[("if-none-match", "\"a,b\",W/\"x\" ,\"tag\"")], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"x\"")], Proceed),
            (&[("if-none-match", "\"tag")], Proceed),
            (&[("if-none-match", "")], Proceed),
            (&[("if-modified-since", MODIFIED)], NotModified),
            (&[("if-modified-since", AFTER)], NotModified),
            (&[("if-modified-since", BEFORE)], Proceed),
            (&[("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT")], NotModified),
            (&[("if-none-match", "\"x\""), ("if-modified-since", AFTER)], Proceed),
            (&[("if-match", "\"tag\""), ("if-none-match", "\"tag\"")], NotModified),
            (&[("if-match", "\"x\""), ("if-none-match", "\"tag\"")], Failed),
            (&[("if-range", "\"tag\"")], Proceed),
            (&[("if-range", "W/\"tag\"")], Whole),
            (&[("if-range", "\"x\"")], Whole),
            (&[("if-range", MODIFIED)], Proceed),
            (&[("if-range", AFTER)], Whole),
            (&[("if-range", BEFORE)], Whole),
            (&[("if-range", "tag")], Whole),
            (&[("if-none-match", "\"tag\""), ("if-range", "\"x\"")], NotModified),
        ];
        for (fields, expected) in table {
            for method in ["GET", "HEAD"] {
                let evaluated = evaluated(method, fields, Duration::from_secs(60));
                assert_eq!(evaluated, *expected, "{method} {fields:?}");
            }
        }
        let young = Duration::from_millis(900);
        assert_eq!(evaluated("GET", &[("if-range", MODIFIED)], young), Whole);
        assert_eq!(evaluated("GET", &[("if-range", "\"tag\"")], young), Proceed);
    }

    #[test]
    fn weak_date_selects_no_range_and_is_compared_otherwise() {
        use Precondition::*;
        for (field, value, expected) in [
            ("if-range", MODIFIED, Whole),
            ("if-range", "\"tag\"", Proceed),
            ("if-modified-since", MODIFIED, NotModified),
            ("if-unmodified-since", BEFORE, Failed),
        ] {
            let evaluated = evaluated_by("GET", &[(field, value)], Duration::from_secs(60), true);
            assert_eq!(evaluated, expected, "{field} {value}");
        }
    }

    #[test]
    fn dates_without_modification_time_are_ignored() {
        let validators =
            Validators { etag: "\"tag\"".to_owned(), modified: None, is_date_weak: false };
        for (name, expected) in [
            ("if-modified-since", Precondition::Proceed),
            ("if-unmodified-since", Precondition::Proceed),
            ("if-range", Precondition::Whole),
        ] {
            let fields = [
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a"),
                (":path", "/"),
                (name, AFTER),
            ]
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()));
            let request = Request::read(&fields).unwrap();
            assert_eq!(validators.evaluate(&request, SystemTime::UNIX_EPOCH), expected, "{name}");
        }
    }
}
