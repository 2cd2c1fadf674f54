//! Hostile fields of requests: whatever a client writes is read without a crash, and
//! what comes of it keeps its bounds.

use std::path::Component;
use std::time::SystemTime;

use proptest::prelude::*;
use quiche::h3;

use crate::content::url_path::UrlPath;
use crate::h3::priority::Priority;
use crate::http::conditional::Validators;
use crate::http::content_coding;
use crate::http::range::RangeRequest;
use crate::http::request::Request;

/// Text of these pieces, which mean something somewhere, and of any characters.
fn text(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => proptest::sample::select(pieces).prop_map(str::to_owned),
        1 => "\\PC{0,3}",
        1 => "[0-9]{1,25}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn request(fields: &[(&str, &str)]) -> Vec<h3::Header> {
    let start = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    let all = start.iter().chain(fields);
    all.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).collect()
}

proptest! {
    #[test]
    fn ranges_are_disjoint_and_within_the_length(
        field in text(&["bytes=", "0", "7", "-", "-", ",", " ", "5-4", "=", "1-9", "18446744073709551615"]),
        length in prop_oneof![0..20_u64, Just(u64::MAX)],
    ) {
        let field = format!("bytes={field}");
        if let RangeRequest::Ranges(ranges) = RangeRequest::parse(&field, length) {
            prop_assert!(!ranges.is_empty());
            prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= length));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }

    #[test]
    fn url_paths_stay_below_the_root(
        path in text(&["/", "/", ".", "..", "%2e", "%2f", "%5c", "%00", "%", "a", "\\", "//", "%c0%ae"]),
    ) {
        if let Some(place) = UrlPath::parse(&path) {
            let plain = |part| matches!(part, Component::Normal(_));
            prop_assert!(place.relative.components().all(plain), "{:?}", place);
            let decoded = place.decoded();
            prop_assert!(decoded.starts_with('/') && !decoded.starts_with("//"), "{}", decoded);
        }
    }

    #[test]
    fn any_conditional_fields_are_evaluated(
        name in proptest::sample::select(&[
            "if-match", "if-none-match", "if-range", "if-modified-since",
            "if-unmodified-since", "content-length", "host", "te", "expect",
        ][..]),
        value in text(&["\"", "W/", "tag", ",", " ", "*", "Sun, 06 Nov 1994 08:49:37 GMT", "a", "\n", "\0"]),
    ) {
        let fields = request(&[(name, &value)]);
        if let Ok(request) = Request::read(&fields) {
            let modified = Some(SystemTime::UNIX_EPOCH);
            let validators = Validators { etag: "\"tag\"".to_owned(), modified, is_date_weak: false };
            validators.evaluate(&request, SystemTime::UNIX_EPOCH);
        }
    }

    #[test]
    fn any_header_section_is_read(
        section in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..4),
        authority in text(&["a", ":", "[", "]", "::1", "443", "@", ".", "%"]),
    ) {
        let mut fields = request(&[]);
        fields[2] = h3::Header::new(b":authority", authority.as_bytes());
        fields.extend(section.iter().map(|(name, value)| h3::Header::new(name, value)));
        if let Ok(request) = Request::read(&fields) {
            prop_assert!(!request.host.is_empty() && !request.host.contains(['@', '/', '[']));
        }
    }

    #[test]
    fn any_coding_preferences_are_read(
        value in text(&["br", "gzip", "zstd", "*", ";", "q=", "0.5", "1", ",", "identity", "u=", "i", "?0", "("]),
    ) {
        let codings = content_coding::accepted([value.as_str()].into_iter());
        prop_assert!(codings.len() <= 3);
        prop_assert!(Priority::read(value.as_bytes()).urgency <= 7);
    }
}
