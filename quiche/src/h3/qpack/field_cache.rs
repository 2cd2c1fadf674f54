//! Cache of encoded and decoded fields.
//!
//! Most fields of a response, and all fields of a request but its path, have
//! the same value as in the connection's last field section. Without a dynamic
//! table (RFC 9204, 3.2) each is coded in full every time; the cache keeps the
//! result. It begins with the second section of a connection, as the first may
//! be the only one.

use super::decoder::decode_int;
use super::decoder::decode_str;
use super::Result;
use crate::h3::NameValue;

/// Names in the cache, with one value each.
const NAMES_MAX: usize = 12;

/// The longest field with its coding in the cache, in bytes.
const BYTES_MAX: usize = 256;

/// The last encoding, or decoded value, of each field.
#[derive(Default)]
pub struct FieldCache {
    fields: Vec<Field>,

    /// Field sections so far.
    sections: u64,

    /// Index of the next field, if they come in the same order.
    next: usize,
}

struct Field {
    name: Vec<u8>,
    value: Vec<u8>,
    coded: Vec<u8>,
}

impl FieldCache {
    /// Begins a field section.
    pub fn begin_section(&mut self) {
        self.sections += 1;
    }

    /// Writes a field's line if its value is the last one. Returns whether it
    /// is.
    pub fn encode<T: NameValue>(
        &mut self, field: &T, b: &mut octets::OctetsMut,
    ) -> Result<bool> {
        let known = self.get(field.name(), field.value());
        known.map(|line| b.put_bytes(line)).transpose()?;
        Ok(known.is_some())
    }

    /// Keeps the line that a field was encoded as.
    pub fn on_encoded<T: NameValue>(&mut self, field: &T, line: &[u8]) {
        self.keep(field.name(), field.value(), line);
    }

    /// Decodes the value of a field, of at most `bytes_max` bytes.
    pub fn decode(
        &mut self, name: &[u8], b: &mut octets::Octets, bytes_max: u64,
    ) -> Result<Vec<u8>> {
        let rest = &b.buf()[b.off()..];
        let mut ahead = octets::Octets::with_slice(rest);
        let len = decode_int(&mut ahead, 7)? as usize;
        ahead.skip(len)?;
        let value = &rest[..ahead.off()];

        if let Some(known) = self.get(name, value) {
            b.skip(value.len())?;
            return Ok(known.to_vec());
        }
        let decoded = decode_str(b, bytes_max as usize)?;
        self.keep(name, value, &decoded);
        Ok(decoded)
    }

    fn get(&mut self, name: &[u8], value: &[u8]) -> Option<&[u8]> {
        let at = self.find(name)?;
        self.next = at + 1;
        let field = &self.fields[at];
        (field.value == value).then_some(&field.coded)
    }

    /// Keeps a field, in place of the last value of its name.
    fn keep(&mut self, name: &[u8], value: &[u8], coded: &[u8]) {
        let is_long = name.len() + value.len() + coded.len() > BYTES_MAX;
        if self.sections <= 1 || is_long {
            return;
        }
        if let Some(at) = self.find(name) {
            let field = &mut self.fields[at];
            set(&mut field.value, value);
            set(&mut field.coded, coded);
        } else if self.fields.len() < NAMES_MAX {
            let [name, value, coded] = [name, value, coded].map(<[u8]>::to_vec);
            self.fields.push(Field { name, value, coded });
        }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let is_it = |field: &Field| field.name == name;
        if self.fields.get(self.next).is_some_and(is_it) {
            return Some(self.next);
        }
        self.fields.iter().position(is_it)
    }
}

fn set(bytes: &mut Vec<u8>, to: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::qpack::Decoder;
    use crate::h3::qpack::Encoder;
    use crate::h3::Header;

    /// A cache in its second section.
    fn cache() -> FieldCache {
        FieldCache {
            sections: 2,
            ..FieldCache::default()
        }
    }

    #[test]
    fn first_section_is_not_cached() {
        let mut cache = FieldCache::default();
        for cached in [false, true] {
            cache.begin_section();
            cache.keep(b"a", b"v", b"c");
            assert_eq!(cache.get(b"a", b"v").is_some(), cached);
        }
    }

    #[test]
    fn lookup_compares_name_and_value() {
        let mut cache = cache();
        cache.keep(b"ab", b"c", b"coded");
        for (name, value, expected) in [
            ("ab", "c", Some(&b"coded"[..])),
            ("a", "bc", None),
            ("ab", "", None),
            ("ab", "d", None),
            ("ac", "c", None),
        ] {
            let found = cache.get(name.as_bytes(), value.as_bytes());
            assert_eq!(found, expected, "{name}: {value}");
        }
    }

    #[test]
    fn cache_stays_within_its_bounds() {
        let mut cache = cache();
        for name in 0..100_u8 {
            cache.keep(&[name], &[0; BYTES_MAX], b"c");
            cache.keep(&[name], b"v", b"c");
            cache.keep(&[name], b"w", b"d");
        }
        assert_eq!(cache.fields.len(), NAMES_MAX);
        for name in 0..NAMES_MAX {
            assert_eq!(cache.get(&[name as u8], b"w"), Some(&b"d"[..]));
        }
    }

    #[test]
    fn cached_fields_code_as_without_a_cache() {
        let long = "x".repeat(2 * BYTES_MAX);
        let field = |name: &str, value: &str| {
            Header::new(name.as_bytes(), value.as_bytes())
        };
        let sections = [
            vec![
                field(":status", "200"),
                field("date", "now"),
                field("x-a", "1"),
            ],
            vec![
                field(":status", "404"),
                field("date", "now"),
                field("x-a", "2"),
            ],
            vec![
                field("etag", "\"e\""),
                field("date", "then"),
                field("x-a", "1"),
            ],
            vec![
                field("etag", &long),
                field("date", "then"),
                field("x-b", &long),
            ],
        ];
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for section in sections.iter().cycle().take(3 * sections.len()) {
            let mut coded = [[0; 4 * BYTES_MAX]; 2];
            let len = encoder.encode(section, &mut coded[0]).unwrap();
            let afresh = Encoder::new().encode(section, &mut coded[1]).unwrap();
            assert_eq!(coded[0][..len], coded[1][..afresh]);
            assert_eq!(
                &decoder.decode(&coded[0][..len], u64::MAX).unwrap(),
                section
            );
        }
        // The limit holds for cached values, too.
        let section = [field("etag", "\"e\"")];
        let mut coded = [0; 100];
        let len = encoder.encode(&section, &mut coded).unwrap();
        assert!(decoder.decode(&coded[..len], 32 + 7).is_ok());
        assert!(decoder.decode(&coded[..len], 32 + 6).is_err());
    }
}
