//! Range requests (RFC 9110, 14): parsing of `range`, and 206 responses.

use std::borrow::Cow;
use std::ops::Range;

use crate::http::body::Body;
use crate::http::body::BodySource;
use crate::http::response::Response;

/// Largest number of ranges in a request; with more, the field is ignored (RFC 9110, 14.2).
const RANGES_MAX: usize = 16;

/// Parsed `range` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeRequest {
    /// The field is ignored: the whole representation is sent.
    Whole,

    /// In ascending order, neither overlapping nor adjacent.
    Ranges(Vec<Range<u64>>),

    /// Status 416: no range overlaps the representation.
    Unsatisfiable,
}

impl RangeRequest {
    /// Parses `field` for a representation of `length` bytes.
    pub fn parse(field: &str, length: u64) -> Self {
        let Some(set) =
            field.split_once('=').filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes"))
        else {
            return Self::Whole;
        };
        let mut ranges = Vec::new();
        let specs = set.1.split(',').map(|spec| spec.trim_matches([' ', '\t']));
        // RFC 9110, 5.6.1.2: empty members of a list do not count.
        for spec in specs.filter(|spec| !spec.is_empty()) {
            match parse_range(spec, length) {
                Some(range) if ranges.len() < RANGES_MAX => ranges.push(range),
                // RFC 9110, 14.2: malformed or excessive fields may be ignored.
                _ => return Self::Whole,
            }
        }
        if ranges.is_empty() {
            return Self::Whole;
        }
        ranges.retain(|range| !range.is_empty());
        match ranges.is_empty() {
            true => Self::Unsatisfiable,
            false => Self::Ranges(coalesce(ranges)),
        }
    }
}

/// Returns the bytes of one range, empty if it lies beyond the end, or `None` if it is malformed.
fn parse_range(spec: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        return Some(length.saturating_sub(number(last)?)..length);
    }
    let first = number(first)?;
    let end = match last {
        "" => length,
        last => number(last).filter(|last| *last >= first)?.saturating_add(1),
    };
    Some(first..end.min(length))
}

/// Parses a decimal number; one that overflows becomes the largest.
fn number(digits: &str) -> Option<u64> {
    let good = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| digits.parse().unwrap_or(u64::MAX))
}

fn coalesce(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut coalesced: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match coalesced.last_mut() {
            Some(last) if range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => coalesced.push(range),
        }
    }
    coalesced
}

/// Returns a 206 with `ranges` of a source of `length` bytes (RFC 9110, 15.3.7). The multipart
/// boundary is derived from `etag`, which the content's author cannot know.
pub fn partial(
    source: BodySource,
    ranges: Vec<Range<u64>>,
    length: u64,
    content_type: Cow<'static, str>,
    etag: &str,
) -> Response {
    if let [only] = ranges.as_slice() {
        let content_range = content_range(only, length);
        return Response::new(206, Body::of(source, only.clone()))
            .with("content-type", content_type)
            .with("content-range", content_range);
    }
    let boundary = boundary(etag);
    let part = |(index, range): (usize, Range<u64>)| {
        let gap = if index == 0 { "" } else { "\r\n" };
        let content_range = content_range(&range, length);
        let text = format!(
            "{gap}--{boundary}\r\ncontent-type: {content_type}\r\n\
             content-range: {content_range}\r\n\r\n"
        );
        (text, range)
    };
    let parts = ranges.into_iter().enumerate().map(part).collect();
    let body = Body::in_parts(source, parts, format!("\r\n--{boundary}--\r\n"));
    Response::new(206, body)
        .with("content-type", format!("multipart/byteranges; boundary={boundary}"))
}

fn content_range(range: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", range.start, range.end - 1)
}

/// Returns a boundary that does not occur in the content: a digest of its entity tag.
fn boundary(etag: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, etag.as_bytes());
    digest.as_ref()[..15].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_field_is_parsed() {
        let some = |ranges: &[(u64, u64)]| {
            RangeRequest::Ranges(ranges.iter().map(|(start, end)| *start..*end).collect())
        };
        let table = [
            ("bytes=0-0", some(&[(0, 1)])),
            ("bytes=0-499", some(&[(0, 500)])),
            ("Bytes=500-", some(&[(500, 1000)])),
            ("bytes=-1", some(&[(999, 1000)])),
            ("bytes=-5000", some(&[(0, 1000)])),
            ("bytes=0-99999999999999999999999", some(&[(0, 1000)])),
            ("bytes= 0-0 ,\t-1", some(&[(0, 1), (999, 1000)])),
            ("bytes=900-999,0-9", some(&[(0, 10), (900, 1000)])),
            // One of two is satisfiable.
            ("bytes=2000-,0-9", some(&[(0, 10)])),
            ("bytes=-0,0-9", some(&[(0, 10)])),
            // Overlapping, adjacent, and one byte apart.
            ("bytes=0-99,50-199,200-299", some(&[(0, 300)])),
            ("bytes=0-99,101-199", some(&[(0, 100), (101, 200)])),
            ("bytes=,0-0, ,", some(&[(0, 1)])),
            ("bytes=0-,0-,0-,0-", some(&[(0, 1000)])),
            ("bytes=0-999,10-20", some(&[(0, 1000)])),
            ("bytes=1000-", RangeRequest::Unsatisfiable),
            ("bytes=1000-2000,3000-", RangeRequest::Unsatisfiable),
            ("bytes=99999999999999999999-", RangeRequest::Unsatisfiable),
            ("bytes=-0", RangeRequest::Unsatisfiable),
            ("bytes=", RangeRequest::Whole),
            ("bytes=5", RangeRequest::Whole),
            ("bytes=-", RangeRequest::Whole),
            ("bytes=5-4", RangeRequest::Whole),
            ("bytes=0-0,5-4", RangeRequest::Whole),
            ("bytes=,", RangeRequest::Whole),
            ("bytes=+1-2", RangeRequest::Whole),
            ("bytes=0x1-2", RangeRequest::Whole),
            ("bytes=1-2-3", RangeRequest::Whole),
            ("bytes 0-1", RangeRequest::Whole),
            ("lines=0-1", RangeRequest::Whole),
            ("", RangeRequest::Whole),
        ];
        for (field, expected) in table {
            assert_eq!(RangeRequest::parse(field, 1000), expected, "{field}");
        }
        assert_eq!(RangeRequest::parse("bytes=0-", 0), RangeRequest::Unsatisfiable);
        assert_eq!(RangeRequest::parse("bytes=-1", 0), RangeRequest::Unsatisfiable);
    }

    #[test]
    fn range_count_above_limit_is_ignored() {
        let set = |count| {
            let specs: Vec<_> = (0..count).map(|n| format!("{0}-{0}", n * 200)).collect();
            RangeRequest::parse(&format!("bytes={}", specs.join(",")), 1 << 20)
        };
        let RangeRequest::Ranges(ranges) = set(RANGES_MAX) else { panic!("refused") };
        assert_eq!(ranges.len(), RANGES_MAX);
        assert_eq!(set(RANGES_MAX + 1), RangeRequest::Whole);
    }

    #[test]
    fn several_ranges_make_multipart_body() {
        let source = || BodySource::Memory("0123456789".repeat(100).into());
        let response = partial(source(), vec![0..3, 500..502], 1000, "a/b".into(), "\"x\"");
        let content_type = response.field("content-type").unwrap();
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let text = response.body.read(1000).unwrap();
        let expected = format!(
            "--{boundary}\r\ncontent-type: a/b\r\ncontent-range: bytes 0-2/1000\r\n\r\n012\r\n\
             --{boundary}\r\ncontent-type: a/b\r\ncontent-range: bytes 500-501/1000\r\n\r\n01\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(response.field("content-range"), None);

        let only = std::iter::once(5..8).collect();
        let single = partial(source(), only, 1000, "a/b".into(), "\"x\"");
        assert_eq!(single.field("content-range"), Some("bytes 5-7/1000"));
        assert_eq!(single.field("content-type"), Some("a/b"));
        assert_eq!(single.body.length(), Some(3));
    }
}
