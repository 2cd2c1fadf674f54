//! HTTP dates (RFC 9110, 5.6.7), formatted once a second.

use std::cell::RefCell;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

thread_local! {
    /// The last formatted second and its text, which thousands of responses share.
    static LAST: RefCell<Option<(u64, String)>> = RefCell::default();
}

/// Formats `at`.
pub fn http_date(at: SystemTime) -> String {
    let second = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|last| {
        let known = last.take().filter(|(known, _)| *known == second);
        let (_, text) = last.insert(known.unwrap_or_else(|| (second, httpdate::fmt_http_date(at))));
        text.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn http_date_changes_with_each_second() {
        for (ms, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (784_111_777_500, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert_eq!(http_date(UNIX_EPOCH + Duration::from_millis(ms)), expected);
        }
    }
}
