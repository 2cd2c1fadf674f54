//! Response to one request with what is kept: preconditions and ranges (RFC 9110, 13 and 14).

use std::borrow::Cow;
use std::time::Duration;
use std::time::SystemTime;

use crate::content::cache::answer::CacheAnswer;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::freshness::value;
use crate::http::body::Body;
use crate::http::body::BodySource;
use crate::http::conditional;
use crate::http::range;
use crate::http::range::RangeRequest;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::Field;
use crate::http::response::Response;

/// Fields of a body, which a response without it does not have.
const BODY_FIELDS: [&str; 4] =
    ["content-encoding", "content-language", "content-range", "content-type"];

/// Age at which a date is a strong validator (RFC 9110, 8.8.2.2).
const STRONG_AFTER: Duration = Duration::from_secs(60);

impl CacheAnswer {
    /// Returns the response, subject to the request's preconditions and range.
    pub fn present(self, request: &Request<'_>, wall_now: SystemTime) -> Response {
        let Self { response: kept, reader, status } = self;
        let freshness = &kept.freshness;
        let age = freshness.age(wall_now);
        let name = status.name();
        let status = status.value(Some((age, freshness.lifetime)));
        let mut response = match kept.status {
            200 if is_not_modified(&kept, request) => not_modified(&kept),
            200 => selected(&kept, BodySource::Shared(reader), request),
            204 | 304 => with_fields(Response::new(kept.status, Body::empty()), &kept, &[]),
            _ => with_fields(Response::new(kept.status, Body::of_shared(reader)), &kept, &[]),
        };
        response.date.clone_from(&kept.date);
        response.cache = Some(name);
        response.add("age", age.as_secs().to_string());
        response.add("cache-status", status);
        response
    }
}

/// Returns the response with the range that a request wants, or all.
fn selected(kept: &CachedResponse, source: BodySource, request: &Request<'_>) -> Response {
    let BodySource::Shared(reader) = source else { return Response::error(500) };
    let range = request.value("range").filter(|_| request.method == Method::Get);
    let range = range.filter(|_| is_current(kept, request));
    // Where the end is not known yet, all is sent.
    let wanted = range.zip(reader.length());
    let (range, length) = match wanted {
        Some((range, length)) => (RangeRequest::parse(range, length), length),
        None => (RangeRequest::Whole, 0),
    };
    match range {
        RangeRequest::Whole => with_fields(Response::new(200, Body::of_shared(reader)), kept, &[]),
        RangeRequest::Unsatisfiable => {
            let response = Response::error(416).with("content-range", format!("bytes */{length}"));
            with_fields(response, kept, &BODY_FIELDS)
        }
        RangeRequest::Ranges(ranges) => {
            let content_type = value(&kept.fields, "content-type").unwrap_or_default().to_owned();
            let has_type = !content_type.is_empty();
            let etag = kept.etag().or(kept.date.as_deref()).unwrap_or_default();
            let (source, content_type) = (BodySource::Shared(reader), Cow::Owned(content_type));
            let mut response = range::partial(source, ranges, length, content_type, etag);
            let is_empty = |field: &Field| field.name == "content-type" && field.value.is_empty();
            response.fields.retain(|field| has_type || !is_empty(field));
            with_fields(response, kept, &["content-type", "content-range"])
        }
    }
}

fn not_modified(kept: &CachedResponse) -> Response {
    with_fields(Response::new(304, Body::empty()), kept, &BODY_FIELDS)
}

/// Adds the fields that are kept, but those.
fn with_fields(mut response: Response, kept: &CachedResponse, without: &[&str]) -> Response {
    let is_own = |field: &&Field| field.name != "age" && !without.contains(&field.name.as_ref());
    response.fields.extend(kept.fields.iter().filter(is_own).cloned());
    response
}

/// Returns whether the client has the response (RFC 9111, 4.3.2).
fn is_not_modified(kept: &CachedResponse, request: &Request<'_>) -> bool {
    if request.value("if-none-match").is_some() {
        let mut lists = request.values("if-none-match");
        return lists.any(|list| {
            list.trim() == "*"
                || kept.etag().is_some_and(|etag| conditional::has_tag(list, opaque(etag), true))
        });
    }
    let parse = |text| httpdate::parse_http_date(text).ok();
    let Some(since) = request.value("if-modified-since").and_then(parse) else { return false };
    let modified = kept.last_modified().or(kept.date.as_deref()).and_then(parse);
    modified.is_some_and(|modified| modified <= since)
}

/// Returns whether a range of the response belongs to what the client has (RFC 9110, 13.1.5).
fn is_current(kept: &CachedResponse, request: &Request<'_>) -> bool {
    let Some(validator) = request.value("if-range").map(str::trim) else { return true };
    if validator.starts_with('"') || validator.starts_with("W/") {
        return kept.etag() == Some(validator) && !validator.starts_with("W/");
    }
    let parse = |text| httpdate::parse_http_date(text).ok();
    let modified = kept.last_modified().filter(|modified| *modified == validator).and_then(parse);
    let date = kept.date.as_deref().and_then(parse);
    let apart = date.zip(modified).and_then(|(date, modified)| date.duration_since(modified).ok());
    apart.is_some_and(|apart| apart >= STRONG_AFTER)
}

fn opaque(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use quiche::h3;

    use crate::content::cache::entry::ReceivedHead;
    use crate::content::cache::freshness::ExchangeTimes;
    use crate::content::cache::rules::CacheSettings;
    use crate::content::cache::status::CacheStatus;
    use crate::content::cache::vary::SelectingFields;
    use crate::http::shared_body::SharedBody;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const DATE: &str = "Sun, 06 Nov 1994 08:59:37 GMT";

    fn answer(length: Option<u64>, is_whole: bool, etag: &str) -> CacheAnswer {
        let (body, writer) = SharedBody::new(length, &Arc::default());
        writer.push(b"0123456789");
        match is_whole {
            true => assert!(writer.finish()),
            false => std::mem::forget(writer),
        }
        let fields = [
            ("etag", etag),
            ("last-modified", MODIFIED),
            ("content-type", "text/plain"),
            ("cache-control", "max-age=60"),
            ("age", "1"),
        ];
        let fields = fields.map(|(name, value)| Field::new(name, value.to_owned())).to_vec();
        let times = ExchangeTimes { sent: UNIX_EPOCH, received: UNIX_EPOCH };
        let head = ReceivedHead {
            status: 200,
            fields,
            date: Some(DATE.into()),
            times,
            lacks_rules: false,
        };
        let (selecting, settings) = (SelectingFields::default(), CacheSettings::default());
        let kept = CachedResponse::new(head, selecting, body, &settings);
        CacheAnswer::new(Arc::new(kept), CacheStatus::default()).unwrap()
    }

    #[test]
    fn response_follows_conditions_and_ranges() {
        let strong = "\"a\"";
        for (length, is_whole, etag, fields, status, text, content_range) in [
            (Some(10), true, strong, &[][..], 200, "0123456789", None),
            (None, true, strong, &[("range", "bytes=2-4")], 206, "234", Some("bytes 2-4/10")),
            (Some(10), true, strong, &[("range", "bytes=-3")], 206, "789", Some("bytes 7-9/10")),
            (Some(10), false, strong, &[("range", "bytes=0-1")], 206, "01", Some("bytes 0-1/10")),
            (None, false, strong, &[("range", "bytes=0-1")], 200, "", None),
            (Some(10), true, strong, &[("range", "bytes=10-")], 416, "", Some("bytes */10")),
            (
                Some(10),
                true,
                strong,
                &[("range", "bytes=0-1"), ("if-range", "\"a\"")],
                206,
                "01",
                Some("bytes 0-1/10"),
            ),
            (
                Some(10),
                true,
                "W/\"a\"",
                &[("range", "bytes=0-1"), ("if-range", "W/\"a\"")],
                200,
                "0123456789",
                None,
            ),
            (
                Some(10),
                true,
                strong,
                &[("range", "bytes=0-1"), ("if-range", MODIFIED)],
                206,
                "01",
                Some("bytes 0-1/10"),
            ),
            (
                Some(10),
                true,
                strong,
                &[("range", "bytes=0-1"), ("if-range", DATE)],
                200,
                "0123456789",
                None,
            ),
            (Some(10), true, strong, &[("if-none-match", "\"b\", W/\"a\"")], 304, "", None),
            (Some(10), true, "W/\"a\"", &[("if-none-match", "\"a\"")], 304, "", None),
            (Some(10), true, strong, &[("if-none-match", "*")], 304, "", None),
            (
                Some(10),
                true,
                strong,
                &[("if-none-match", "\"b\""), ("if-modified-since", DATE)],
                200,
                "0123456789",
                None,
            ),
            (Some(10), true, strong, &[("if-modified-since", MODIFIED)], 304, "", None),
        ] {
            let start =
                [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
            let lines = start.iter().chain(fields);
            let lines: Vec<_> = lines
                .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
                .collect();
            let request = Request::read(&lines).unwrap();
            let now = UNIX_EPOCH + Duration::from_secs(5);
            let response = answer(length, is_whole, etag).present(&request, now);
            assert_eq!(response.status, status, "{fields:?}");
            assert_eq!(response.field("content-range"), content_range, "{fields:?}");
            if status < 300 && response.body.length().is_some() {
                assert_eq!(response.body.read(4).unwrap(), text.as_bytes(), "{fields:?}");
            }
            assert_eq!(response.field("age"), Some("6"), "{fields:?}");
            assert_eq!(response.field("etag"), Some(etag));
            assert_eq!(response.field("content-type").is_some(), status != 304);
            assert_eq!(response.date.as_deref(), Some(DATE));
            assert_eq!(response.field("cache-status"), Some("edge-server; hit; ttl=54"));
        }
    }
}
