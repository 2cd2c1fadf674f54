//! JSON object, written piece by piece: keys are plain, and most texts are, so that a line costs little
//! more than its copy. All but printable ASCII is escaped.

use serde::Serialize;

use crate::telemetry::printable::in_ascii;

/// Writer of one object.
pub struct ObjectWriter<'a> {
    text: &'a mut Vec<u8>,

    /// What comes before the next key.
    separator: u8,
}

impl<'a> ObjectWriter<'a> {
    /// Begins an object at the end of a text.
    pub fn begin(text: &'a mut Vec<u8>) -> Self {
        Self { text, separator: b'{' }
    }

    /// Writes a string.
    pub fn string(&mut self, key: &'static str, value: &str) {
        self.key(key);
        if is_plain(value.as_bytes()) {
            self.text.push(b'"');
            self.text.extend_from_slice(value.as_bytes());
            self.text.push(b'"');
        } else {
            // Text always serializes.
            let json = serde_json::to_string(value).unwrap_or_default();
            self.text.extend_from_slice(in_ascii(&json).as_bytes());
        }
    }

    /// Writes a string, or `null`.
    pub fn optional_string(&mut self, key: &'static str, value: Option<&str>) {
        match value {
            Some(value) => self.string(key, value),
            None => self.value(key, ()),
        }
    }

    /// Writes what `write` appends, which needs no escapes, as a string.
    pub fn plain(&mut self, key: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        self.text.push(b'"');
        write(self.text);
        self.text.push(b'"');
    }

    /// Writes a number, a truth value, or `null`.
    pub fn value(&mut self, key: &'static str, value: impl Serialize) {
        self.key(key);
        // They always serialize.
        let _ = serde_json::to_writer(&mut *self.text, &value);
    }

    /// Begins an object within this one.
    pub fn object(&mut self, key: &'static str) -> ObjectWriter<'_> {
        self.key(key);
        ObjectWriter::begin(self.text)
    }

    /// Ends the object, which has at least one key.
    pub fn end(self) {
        self.text.push(b'}');
    }

    fn key(&mut self, key: &'static str) {
        self.text.extend_from_slice(&[self.separator, b'"']);
        self.text.extend_from_slice(key.as_bytes());
        self.text.extend_from_slice(b"\":");
        self.separator = b',';
    }
}

/// Returns whether a text is printable ASCII that JSON does not escape (RFC 8259, 7).
fn is_plain(text: &[u8]) -> bool {
    let is_other = |byte: u8| !matches!(byte, b' '..=b'~') | (byte == b'"') | (byte == b'\\');
    // All of them, whatever they are: the compiler compares many at a time.
    !text.iter().fold(false, |is_found, byte| is_found | is_other(*byte))
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
            object.string("a", value);
            object.optional_string("b", None);
            object.optional_string("c", Some(value));
            object.plain("d", |text| text.extend_from_slice(b"1:2"));
            let mut inner = object.object("e");
            inner.value("f", 1.5);
            inner.value("g", true);
            inner.end();
            object.value("h", Some(7));
            object.end();
            assert!(text.iter().all(|byte| matches!(byte, b' '..=b'~')), "{value:?}");
            let read: Value = serde_json::from_slice(&text).unwrap();
            let expected = json!({
                "a": value, "b": null, "c": value, "d": "1:2", "e": { "f": 1.5, "g": true }, "h": 7,
            });
            assert_eq!(read, expected);
        }
    }
}
