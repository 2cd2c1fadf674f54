//! Response to one request with what is kept: preconditions and ranges (RFC 9110, 13 and 14).

use std::borrow::Cow;
use std::time::SystemTime;

use crate::content::cache::answer::CacheAnswer;
use crate::content::cache::compression::AnswerCompression;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::freshness::value;
use crate::content::compression::Variant;
use crate::http::body::Body;
use crate::http::body::BodySource;
use crate::http::conditional;
use crate::http::content_coding::Coding;
use crate::http::range;
use crate::http::range::RangeRequest;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::Field;
use crate::http::response::Response;

/// Fields of a body, which a response without it does not have.
const BODY_FIELDS: [&str; 4] =
    ["content-encoding", "content-language", "content-range", "content-type"];

impl CacheAnswer {
    /// Returns the response, subject to the request's preconditions and range.
    pub fn present(
        self,
        request: &Request<'_>,
        wall_now: SystemTime,
        compression: Option<AnswerCompression<'_>>,
    ) -> Response {
        let Self { response: kept, body, status } = self;
        let freshness = &kept.freshness;
        let age = freshness.age(wall_now);
        let name = status.name();
        let status = status.value(Some((age, freshness.lifetime)));
        let compression = compression.filter(|compression| compression.applies_to(&kept));
        let variant = || compression.and_then(|compression| compression.find(&kept, request));
        let mut response = match kept.status {
            200 if is_not_modified(&kept, request) => not_modified(&kept),
            200 => match variant() {
                Some(variant) => compressed(&kept, variant),
                None => selected(&kept, body, request, compression.is_some()),
            },
            204 | 304 => with_fields(Response::new(kept.status, Body::empty()), &kept, &[]),
            _ => with_fields(Response::new(kept.status, Body::whole(body)), &kept, &[]),
        };
        if compression.is_some() {
            add_vary(&mut response);
            if response.status == 304 {
                weaken_tag(&mut response);
            }
        }
        response.date.clone_from(&kept.date);
        response.cache = Some(name);
        response.add("age", age.as_secs().to_string());
        response.add("cache-status", status);
        response
    }
}

/// Returns the response with a compressed variant. Its entity tag is weak: bytes of it are not those of the
/// origin's.
fn compressed(kept: &CachedResponse, (coding, variant): (Coding, Variant)) -> Response {
    let body = Body::whole(BodySource::Memory(variant.content));
    let mut response = with_fields(Response::new(200, body), kept, &["accept-ranges"]);
    weaken_tag(&mut response);
    response.with("content-encoding", coding.name())
}

/// Has the entity tag be that of several variants.
fn weaken_tag(response: &mut Response) {
    let mut tags = response.fields.iter_mut().filter(|field| field.name == "etag");
    if let Some(tag) = tags.find(|field| !field.value.trim().starts_with("W/")) {
        tag.value = format!("W/{}", tag.value.trim()).into();
    }
}

/// Adds to what the response depends on.
fn add_vary(response: &mut Response) {
    let mut lines = response.fields.iter().filter(|field| field.name == "vary");
    let has_it = lines.any(|line| {
        line.value.split(',').any(|name| name.trim().eq_ignore_ascii_case("accept-encoding"))
    });
    if !has_it {
        response.add("vary", "accept-encoding");
    }
}

/// Returns the response with the range that a request wants, or all. A date may be that of a variant, too.
fn selected(
    kept: &CachedResponse,
    source: BodySource,
    request: &Request<'_>,
    is_date_weak: bool,
) -> Response {
    let range = request.value("range").filter(|_| request.method == Method::Get);
    let range = range.filter(|_| is_current(kept, request, is_date_weak));
    // Where the end is not known yet, all is sent.
    let wanted = range.zip(source.length());
    let (range, length) = match wanted {
        Some((range, length)) => (RangeRequest::parse(range, length), length),
        None => (RangeRequest::Whole, 0),
    };
    match range {
        RangeRequest::Whole => with_fields(Response::new(200, Body::whole(source)), kept, &[]),
        RangeRequest::Unsatisfiable => {
            let response = Response::error(416).with("content-range", format!("bytes */{length}"));
            with_fields(response, kept, &BODY_FIELDS)
        }
        RangeRequest::Ranges(ranges) => {
            let content_type = value(&kept.fields, "content-type").unwrap_or_default().to_owned();
            let has_type = !content_type.is_empty();
            let etag = kept.etag().or(kept.date.as_deref()).unwrap_or_default();
            let content_type = Cow::Owned(content_type);
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
fn is_current(kept: &CachedResponse, request: &Request<'_>, is_date_weak: bool) -> bool {
    let Some(validator) = request.value("if-range").map(str::trim) else { return true };
    let is_weak = is_date_weak && !validator.starts_with('"');
    !is_weak && kept.strong_validators().any(|own| own == validator)
}

fn opaque(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    use quiche::h3;

    use crate::config::file::Host;
    use crate::content::cache::entry::ReceivedHead;
    use crate::content::cache::freshness::ExchangeTimes;
    use crate::content::cache::rules::CacheSettings;
    use crate::content::cache::status::CacheStatus;
    use crate::content::cache::vary::SelectingFields;
    use crate::content::compression::decode;
    use crate::content::compression::policy::CompressionPolicy;
    use crate::content::compression::Compressor;
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
            let response = answer(length, is_whole, etag).present(&request, now, None);
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

    /// Returns a whole response with these fields, of so many bytes of text.
    fn text_with(fields: &[(&'static str, &str)], length: usize) -> Arc<CachedResponse> {
        let (body, writer) = SharedBody::new(None, &Arc::default());
        writer.push(&b"0123456789 lines\n".repeat(length / 17 + 1)[..length]);
        assert!(writer.finish());
        let fields = fields.iter().map(|(name, value)| Field::new(*name, (*value).to_owned()));
        let times = ExchangeTimes { sent: UNIX_EPOCH, received: UNIX_EPOCH };
        let head = ReceivedHead {
            status: 200,
            fields: fields.collect(),
            date: Some(DATE.into()),
            times,
            lacks_rules: false,
        };
        let (selecting, settings) = (SelectingFields::default(), CacheSettings::default());
        Arc::new(CachedResponse::new(head, selecting, body, &settings))
    }

    fn get(fields: &[(&str, &str)]) -> Vec<h3::Header> {
        let start = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let lines = start.iter().chain(fields);
        lines.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).collect()
    }

    #[test]
    fn response_is_compressed_where_that_is_allowed_and_pays() {
        let policy = CompressionPolicy::new(&Host::default()).unwrap();
        let text = ("content-type", "text/html; charset=utf-8");
        let tag = ("etag", "\"a\"");
        let br = ("accept-encoding", "gzip, br");
        let (weak, strong) = (Some("W/\"a\""), Some("\"a\""));
        for (fields, length, asked, status, coding, etag, is_negotiated) in [
            (&[text, tag][..], 5000, &[br][..], 200, Some("br"), weak, true),
            (&[text, ("etag", "W/\"a\"")], 5000, &[br], 200, Some("br"), weak, true),
            (&[text], 5000, &[("accept-encoding", "gzip")], 200, Some("gzip"), None, true),
            (&[text, tag], 5000, &[], 200, None, strong, true),
            (&[text, tag], 5000, &[("accept-encoding", "identity")], 200, None, strong, true),
            (&[text, tag], 5000, &[br, ("range", "bytes=0-9")], 206, None, strong, true),
            (&[text, tag], 5000, &[br, ("if-none-match", "\"a\"")], 304, None, weak, true),
            (&[text, tag], 5000, &[br, ("if-none-match", "W/\"a\"")], 304, None, weak, true),
            (&[text, tag], 5000, &[br, ("cache-control", "no-transform")], 200, None, strong, true),
            // The date is that of variants, too.
            (
                &[text, tag, ("last-modified", MODIFIED)],
                5000,
                &[br, ("range", "bytes=0-9"), ("if-range", MODIFIED)],
                200,
                None,
                strong,
                true,
            ),
            (&[text, tag], 1023, &[br], 200, None, strong, false),
            (&[("content-type", "image/png"), tag], 5000, &[br], 200, None, strong, false),
            (&[tag], 5000, &[br], 200, None, strong, false),
            (&[text, tag, ("content-encoding", "x")], 5000, &[br], 200, Some("x"), strong, false),
            (&[text, tag, ("content-digest", "x")], 5000, &[br], 200, None, strong, false),
            (
                &[text, tag, ("cache-control", "max-age=9, No-Transform")],
                5000,
                &[br],
                200,
                None,
                strong,
                false,
            ),
        ] {
            let compressor = Compressor::new(1 << 20);
            let kept = text_with(fields, length);
            let lines = get(asked);
            let request = Request::read(&lines).unwrap();
            let present = || {
                let compression = AnswerCompression { compressor: &compressor, policy: &policy };
                let answer = CacheAnswer::new(Arc::clone(&kept), CacheStatus::default()).unwrap();
                answer.present(&request, UNIX_EPOCH, Some(compression))
            };
            let first = present();
            while compressor.run_next(UNIX_EPOCH) {}
            let second = present();
            let case = format!("{fields:?} {asked:?}");
            assert_eq!((first.status, second.status), (status, status), "{case}");
            assert_eq!(second.field("content-encoding"), coding, "{case}");
            assert_eq!(second.field("etag"), etag, "{case}");
            for response in [&first, &second] {
                let vary = response.field("vary");
                assert_eq!(vary, is_negotiated.then_some("accept-encoding"), "{case}");
            }
            let known = Coding::ALL.into_iter().find(|own| Some(own.name()) == coding);
            if let Some(known) = known {
                let [plain, encoded] = [&first, &second].map(|own| own.body.read(1 << 20).unwrap());
                assert!(decode(&encoded, known) == plain && encoded.len() < plain.len(), "{case}");
            }
        }
    }
}
