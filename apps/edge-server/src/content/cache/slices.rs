//! Slices of a long response: which there are, by which keys they are kept, and what an origin has to send
//! for one (RFC 9110, 14).
//!
//! The head of the response is kept by its own key, without a body, and has an epoch of its own. The keys of
//! slices have it, too: once the head is forgotten, no other finds them.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

/// Divides a key from the slice that it is of: no URL has it.
const DIVIDER: char = '\0';

/// Length of the longest response that an origin may say to have, in bytes: sums of parts do not overflow.
const LENGTH_MAX: u64 = 1 << 50;

/// Slices of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceLayout {
    /// Length of the whole body, in bytes.
    pub length: u64,

    /// Length of a slice, in bytes: the last may be shorter.
    pub slice_bytes: u64,
    epoch: u64,
}

/// Slice that an origin is asked for before the length of the whole is known.
#[derive(Clone, Copy, Debug)]
pub struct WantedSlice {
    pub index: u64,
    pub slice_bytes: u64,
}

/// Range that a 206 has, and the length of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRange {
    pub range: Range<u64>,
    pub length: u64,
}

impl SliceLayout {
    /// Returns the slices of a response, which have not been kept before.
    pub fn new(length: u64, slice_bytes: u64) -> Self {
        Self { length, slice_bytes, epoch: RandomState::new().build_hasher().finish() }
    }

    /// Returns the bytes that a slice has.
    pub fn range(&self, index: u64) -> Range<u64> {
        let start = index.saturating_mul(self.slice_bytes).min(self.length);
        start..start.saturating_add(self.slice_bytes).min(self.length)
    }

    /// Returns the key of a slice of the response with a key.
    pub fn key(&self, key: &str, index: u64) -> Arc<str> {
        format!("{key}{DIVIDER}{:016x}{DIVIDER}{index}", self.epoch).into()
    }
}

/// Returns the key of the response that a slice is of, or that a key itself is of.
pub fn response_key(key: &str) -> &str {
    key.split(DIVIDER).next().unwrap_or_default()
}

/// Returns whether a key is that of a slice.
pub fn is_slice(key: &str) -> bool {
    key.contains(DIVIDER)
}

impl WantedSlice {
    /// Returns the value of `Range`.
    pub fn range_field(&self) -> String {
        let start = self.index.saturating_mul(self.slice_bytes);
        range_field(&(start..start.saturating_add(self.slice_bytes)))
    }
}

impl ContentRange {
    /// Parses the field of a 206. A length that is unknown, or of no response that exists, is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (range, length) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_number)
        };
        let (first, last, length) = (number(first)?, number(last)?, number(length)?);
        let is_valid = unit.eq_ignore_ascii_case("bytes") && first <= last && last < length;
        let is_valid = is_valid && length <= LENGTH_MAX;
        is_valid.then_some(Self { range: first..last + 1, length })
    }
}

/// Returns the first slice that a request with this `Range` needs, as far as it is known without the length.
pub fn first_needed(range: Option<&str>, slice_bytes: u64) -> u64 {
    let set = range.and_then(|range| range.split_once('='));
    let set = set.filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"));
    let firsts = set.map(|(_, set)| set.split(',').map(|spec| spec.trim().split('-').next()));
    let firsts = firsts.into_iter().flatten();
    let first = firsts.map(|first| first.and_then(|first| first.parse::<u64>().ok()).unwrap_or(0));
    first.min().unwrap_or(0) / slice_bytes
}

/// Returns the value of `Range` for some bytes.
pub fn range_field(range: &Range<u64>) -> String {
    format!("bytes={}-{}", range.start, range.end.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_body() {
        let layout = SliceLayout::new(25, 10);
        let ranges = [0, 1, 2, 3, u64::MAX].map(|index| layout.range(index));
        assert_eq!(ranges, [0..10, 10..20, 20..25, 25..25, 25..25]);
        assert_eq!(range_field(&layout.range(1)), "bytes=10-19");
        let other = SliceLayout::new(25, 10);
        let keys = [layout.key("a/b", 1), layout.key("a/b", 2), other.key("a/b", 1)];
        assert!(keys[0] != keys[1] && keys[0] != keys[2]);
        assert!(keys.iter().all(|key| is_slice(key) && response_key(key) == "a/b"));
        assert!(!is_slice("a/b") && response_key("a/b") == "a/b");
    }

    #[test]
    fn content_range_is_whole_and_valid() {
        for (text, expected) in [
            ("bytes 0-9/10", Some((0..10, 10))),
            ("Bytes 5-5/10", Some((5..6, 10))),
            ("bytes 0-9/*", None),
            ("bytes */10", None),
            ("bytes 0-10/10", None),
            ("bytes 6-5/10", None),
            ("bytes +0-9/10", None),
            ("bytes=0-9/10", None),
            ("lines 0-9/10", None),
            ("bytes 0-99999999999999999999/10", None),
            ("bytes 0-9/18446744073709551615", None),
            ("bytes 0-9/1125899906842625", None),
            ("bytes 0-9/1125899906842624", Some((0..10, LENGTH_MAX))),
            ("", None),
        ] {
            let parsed = ContentRange::parse(text).map(|own| (own.range, own.length));
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn first_needed_slice_is_that_of_the_first_byte() {
        for (range, expected) in [
            (None, 0),
            (Some("bytes=0-"), 0),
            (Some("bytes=25-30"), 2),
            (Some("bytes=30-31, 12-13"), 1),
            (Some("bytes=-5"), 0),
            (Some("bytes=25-, -5"), 0),
            (Some("lines=25-"), 0),
            (Some("bytes=x-"), 0),
            (Some("25-"), 0),
        ] {
            assert_eq!(first_needed(range, 10), expected, "{range:?}");
        }
    }
}
