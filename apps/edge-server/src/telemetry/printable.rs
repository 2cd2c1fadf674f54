//! Printable text: escapes for characters that terminals and viewers obey, such as those that move
//! the cursor, end a line or turn the direction of text.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns JSON with all but printable ASCII escaped.
pub fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            ' '..='~' => text.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text
}

/// Returns text with such characters escaped as in Rust, and others left as they are.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_obeyed(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// Returns whether a character is a control, a separator of lines or paragraphs, an invisible mark,
/// or a control of bidirectional text (Unicode 16, UAX #9).
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}
