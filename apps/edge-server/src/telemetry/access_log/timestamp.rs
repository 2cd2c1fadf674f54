//! Timestamp in the form of RFC 3339, in UTC with milliseconds. What lines of the same second have in
//! common is formatted once.

use std::cell::Cell;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Length of a date and a time of day to the second.
const SECOND_BYTES: usize = "1994-11-06T08:49:37".len();

type SecondText = [u8; SECOND_BYTES];

/// Appends a time. One before 1970 is that of its first moment.
pub fn append(time: SystemTime, text: &mut Vec<u8>) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    text.extend_from_slice(&second_text(since.as_secs()));
    text.push(b'.');
    append_three_digits(since.subsec_millis(), text);
    text.push(b'Z');
}

/// Appends a number below 1000 with leading zeros.
pub fn append_three_digits(number: u32, text: &mut Vec<u8>) {
    let digit = |number: u32| b'0' + (number % 10) as u8;
    text.extend_from_slice(&[digit(number / 100), digit(number / 10), digit(number)]);
}

fn second_text(seconds: u64) -> SecondText {
    thread_local! {
        static LAST: Cell<(u64, SecondText)> = const { Cell::new((0, *b"1970-01-01T00:00:00")) };
    }
    let (last, text) = LAST.get();
    if last == seconds {
        return text;
    }
    let formatted = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    // A time beyond the year 9999 has no such form.
    let text = formatted.to_string().as_bytes()[..SECOND_BYTES].try_into().unwrap_or(text);
    LAST.set((seconds, text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_is_that_of_rfc3339() {
        let mut time = UNIX_EPOCH;
        for step_ms in [0, 1, 9, 90, 899, 1, 1, 784_111_777_250, 0, 999, 1, 86_400_000] {
            time += Duration::from_millis(step_ms);
            let mut text = Vec::new();
            append(time, &mut text);
            let expected = humantime::format_rfc3339_millis(time).to_string();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
        let mut text = Vec::new();
        append(UNIX_EPOCH - Duration::from_secs(1), &mut text);
        assert_eq!(text, b"1970-01-01T00:00:00.000Z");
    }
}
