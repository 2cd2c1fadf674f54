//! Conditional requests (RFC 9110, 13): whether a client's copy is still good,
//! and whether its range is of what there is now.

use std::time::Duration;
use std::time::SystemTime;

use crate::http::request::Request;

/// A modification time tells two representations apart when the answer is at
/// least this much younger (RFC 9110, 8.8.2.2): the field has whole seconds.
const STRONG_AFTER: Duration = Duration::from_secs(1);

/// What tells a representation from another of the same resource.
#[derive(Clone, Debug)]
pub struct Validators {
    /// A strong entity tag, with its quotes.
    pub etag: String,

    pub modified: Option<SystemTime>,
}

/// What the conditions of a request come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Answered; by ranges, if it asks for any.
    Proceed,

    /// Answered, wholly.
    Whole,

    /// 304: the client has it.
    NotModified,

    /// 412.
    Failed,
}

impl Validators {
    /// Judges a GET or HEAD in the order of RFC 9110, 13.2.2.
    pub fn judge(&self, request: &Request<'_>, wall_now: SystemTime) -> Precondition {
        if request.value("if-match").is_some() {
            if !self.matches(request, "if-match", false) {
                return Precondition::Failed;
            }
        } else if self.date(request, "if-unmodified-since").is_some_and(|since| !self.is_by(since))
        {
            return Precondition::Failed;
        }
        if request.value("if-none-match").is_some() {
            if self.matches(request, "if-none-match", true) {
                return Precondition::NotModified;
            }
        } else if self.date(request, "if-modified-since").is_some_and(|at| self.is_by(at)) {
            return Precondition::NotModified;
        }
        match request.value("if-range") {
            Some(validator) if !self.is_current(validator, wall_now) => Precondition::Whole,
            _ => Precondition::Proceed,
        }
    }

    /// The time that `last-modified` tells: whole seconds, and never later than the
    /// response (RFC 9110, 8.8.2.1).
    pub fn last_modified(&self, wall_now: SystemTime) -> Option<String> {
        self.modified.map(|at| httpdate::fmt_http_date(at.min(wall_now)))
    }

    /// Whether a list of entity tags has this one (RFC 9110, 13.1.1 and 13.1.2).
    fn matches(&self, request: &Request<'_>, name: &str, weak: bool) -> bool {
        request.values(name).any(|list| list.trim() == "*" || has_tag(list, &self.etag, weak))
    }

    /// The date of a field, if there is one and a date to compare it with.
    fn date(&self, request: &Request<'_>, name: &str) -> Option<SystemTime> {
        self.modified?;
        httpdate::parse_http_date(request.value(name)?).ok()
    }

    /// Whether it is as it was at `time`, as far as whole seconds tell.
    fn is_by(&self, time: SystemTime) -> bool {
        self.seconds() <= Some(seconds(time))
    }

    /// RFC 9110, 13.1.5: only what is exactly this representation.
    fn is_current(&self, validator: &str, wall_now: SystemTime) -> bool {
        if validator.starts_with('"') || validator.starts_with("W/") {
            return validator == self.etag;
        }
        let old = |at| wall_now.duration_since(at).is_ok_and(|age| age >= STRONG_AFTER);
        let date = httpdate::parse_http_date(validator).ok();
        date.is_some_and(|date| self.seconds() == Some(seconds(date)))
            && self.modified.is_some_and(old)
    }

    fn seconds(&self) -> Option<u64> {
        self.modified.map(seconds)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Whether a list of entity tags contains `own`. Tags may contain commas; what
/// follows something that is no tag is not looked at.
fn has_tag(list: &str, own: &str, weak: bool) -> bool {
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

    fn verdict(method: &str, fields: &[(&str, &str)], age: Duration) -> Precondition {
        let start =
            [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let headers: Vec<_> = start
            .iter()
            .chain(fields)
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        // Files have fractions of seconds, dates have none.
        let modified = httpdate::parse_http_date(MODIFIED).unwrap() + Duration::from_millis(700);
        let validators = Validators { etag: "\"tag\"".to_owned(), modified: Some(modified) };
        validators.judge(&Request::read(&headers).unwrap(), modified + age)
    }

    #[test]
    fn conditions_are_judged_in_their_order() {
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
                let verdict = verdict(method, fields, Duration::from_secs(60));
                assert_eq!(verdict, *expected, "{method} {fields:?}");
            }
        }
        let young = Duration::from_millis(900);
        assert_eq!(verdict("GET", &[("if-range", MODIFIED)], young), Whole);
        assert_eq!(verdict("GET", &[("if-range", "\"tag\"")], young), Proceed);
    }

    #[test]
    fn without_a_time_dates_decide_nothing() {
        let validators = Validators { etag: "\"tag\"".to_owned(), modified: None };
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
            assert_eq!(validators.judge(&request, SystemTime::UNIX_EPOCH), expected, "{name}");
        }
    }
}
