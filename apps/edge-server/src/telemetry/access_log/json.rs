//! JSON object, written piece by piece: keys are plain, and most texts are, so that a line costs little
//! more than its copy. All but printable ASCII is escaped.

use serde::Serialize;

use crate::telemetry::printable::in_ascii;

/// Name of a value with what JSON has around it, so that it is appended at once.
#[derive(Clone, Copy)]
pub struct JsonKey(&'static str);

/// Returns the [`JsonKey`] of a plain name.
macro_rules! key {
    ($name:literal) => {
        $crate::telemetry::access_log::json::JsonKey::new(concat!(",\"", $name, "\":"))
    };
}

pub(super) use key;

/// Writer of one object. Its methods are part of their callers, where the compiler knows each key's length:
/// a line would else cost twice as much.
pub struct ObjectWriter<'a> {
    text: &'a mut Vec<u8>,

    is_empty: bool,
}

impl JsonKey {
    /// Returns the key of a name that [`key!`] has completed.
    pub const fn new(complete: &'static str) -> Self {
        Self(complete)
    }
}

impl<'a> ObjectWriter<'a> {
    /// Begins an object at the end of a text.
    pub fn begin(text: &'a mut Vec<u8>) -> Self {
        Self { text, is_empty: true }
    }

    /// Continues an object at the end of a text that has at least one key.
    pub fn continued(text: &'a mut Vec<u8>) -> Self {
        Self { text, is_empty: false }
    }

    /// Continues an object within this one, of which [`Self::members()`] has written the beginning.
    pub fn reopened(&mut self) -> ObjectWriter<'_> {
        ObjectWriter::continued(self.text)
    }

    /// Writes members that [`Self::continued()`] has made. They are not the first.
    pub fn members(&mut self, members: &[u8]) {
        self.text.extend_from_slice(members);
    }

    /// Writes a string.
    pub fn string(&mut self, key: JsonKey, value: &str) {
        self.text(key, Some(value), is_plain(value));
    }

    /// Writes a string, of which is known whether it [is plain](is_plain), or `null`.
    #[inline(always)]
    pub fn text(&mut self, key: JsonKey, value: Option<&str>, is_plain: bool) {
        match value {
            Some(value) if !is_plain => self.escaped(key, value),
            plain => self.name(key, plain),
        }
    }

    /// Writes a string that needs no escapes, or `null`.
    #[inline(always)]
    pub fn name(&mut self, key: JsonKey, name: Option<&str>) {
        self.key(key);
        match name {
            Some(name) => {
                self.text.push(b'"');
                self.text.extend_from_slice(name.as_bytes());
                self.text.push(b'"');
            }
            None => self.text.extend_from_slice(b"null"),
        }
    }

    /// Writes what `write` appends, which is a number in JSON.
    #[inline(always)]
    pub fn number(&mut self, key: JsonKey, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        write(self.text);
    }

    /// Writes what `write` appends, which needs no escapes, as a string.
    #[inline(always)]
    pub fn plain(&mut self, key: JsonKey, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        self.text.push(b'"');
        write(self.text);
        self.text.push(b'"');
    }

    /// Writes a number, a truth value, or `null`.
    #[inline(always)]
    pub fn value(&mut self, key: JsonKey, value: impl Serialize) {
        self.key(key);
        // They always serialize.
        let _ = serde_json::to_writer(&mut *self.text, &value);
    }

    /// Begins an object within this one.
    pub fn object(&mut self, key: JsonKey) -> ObjectWriter<'_> {
        self.key(key);
        ObjectWriter::begin(self.text)
    }

    /// Ends the object, which has at least one key.
    pub fn end(self) {
        self.text.push(b'}');
    }

    fn escaped(&mut self, key: JsonKey, value: &str) {
        self.key(key);
        // Text always serializes.
        let json = serde_json::to_string(value).unwrap_or_default();
        self.text.extend_from_slice(in_ascii(&json).as_bytes());
    }

    #[inline(always)]
    fn key(&mut self, key: JsonKey) {
        let JsonKey(key) = key;
        let start = self.text.len();
        self.text.extend_from_slice(key.as_bytes());
        if std::mem::take(&mut self.is_empty) {
            self.text[start] = b'{';
        }
    }
}

/// Returns whether a text is printable ASCII that JSON does not escape (RFC 8259, 7).
pub fn is_plain(text: &str) -> bool {
    let is_other = |byte: u8| !matches!(byte, b' '..=b'~') | (byte == b'"') | (byte == b'\\');
    // All of them, whatever they are: the compiler compares many at a time.
    !text.bytes().fold(false, |is_found, byte| is_found | is_other(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;
    use serde_json::Value;

    #[test]
    fn object_has_its_values_in_printable_ascii() {
        let texts: Vec<String> = (0..=0x2fff_u32)
            .filter_map(char::from_u32)
            .map(|character| format!("a{character}\u{1f6f0}"))
            .chain(["", "plain", "\"", "\\", "a\nb"].map(str::to_owned))
            .collect();
        for value in &texts {
            let mut text = Vec::new();
            let mut object = ObjectWriter::begin(&mut text);
            object.string(key!("a"), value);
            object.text(key!("b"), None, false);
            object.text(key!("c"), Some(value), is_plain(value));
            object.plain(key!("d"), |text| text.extend_from_slice(b"1:2"));
            let mut inner = object.object(key!("e"));
            inner.value(key!("f"), 1.5);
            inner.value(key!("g"), true);
            inner.end();
            object.value(key!("h"), Some(7));
            object.name(key!("i"), Some("x"));
            object.name(key!("j"), None);
            object.end();
            assert!(text.iter().all(|byte| matches!(byte, b' '..=b'~')), "{value:?}");
            let read: Value = serde_json::from_slice(&text).unwrap();
            let expected = json!({
                "a": value, "b": null, "c": value, "d": "1:2", "e": { "f": 1.5, "g": true }, "h": 7,
                "i": "x", "j": null,
            });
            assert_eq!(read, expected);
        }
    }
}
