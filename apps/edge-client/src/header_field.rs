//! Header field of a request, as the command line has it.

use std::str::FromStr;

use quiche::h3;

/// Fields that requests have from the URL, or that HTTP/3 forbids (RFC 9114, 4.2).
const RESERVED: [&str; 8] = [
    "host",
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Name in lower case, and value.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderField {
    name: String,
    value: String,
}

impl HeaderField {
    /// Returns the size of the name and the value.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.len()
    }

    /// Replaces the fields of this name, or adds it.
    pub fn set_in(fields: &[Self], list: &mut Vec<h3::Header>) {
        use h3::NameValue;
        list.retain(|header| fields.iter().all(|field| field.name.as_bytes() != header.name()));
        let headers = fields
            .iter()
            .map(|field| h3::Header::new(field.name.as_bytes(), field.value.as_bytes()));
        list.extend(headers);
    }
}

impl FromStr for HeaderField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("write it as 'name: value'")?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        // RFC 9110, 5.6.2.
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(format!("'{name}' is no name of a field; write it as 'name: value'"));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(format!(
                "'{name}' is not for requests that have no content, or comes from the URL"
            ));
        }
        if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..)) {
            return Err(format!("the value of '{name}' has control characters"));
        }
        Ok(Self { name, value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_name_and_value() {
        for (text, expected) in [
            ("Accept-Encoding: gzip, br", Some(("accept-encoding", "gzip, br"))),
            ("x:y", Some(("x", "y"))),
            ("x:", Some(("x", ""))),
            ("range: bytes=0-9", Some(("range", "bytes=0-9"))),
            ("cookie: a=b:c", Some(("cookie", "a=b:c"))),
            ("x", None),
            (":path: /x", None),
            (" x: y", None),
            ("x y: z", None),
            ("x: a\r\nb", None),
            ("Host: other", None),
            ("transfer-encoding: chunked", None),
        ] {
            let expected = expected
                .map(|(name, value)| HeaderField { name: name.into(), value: value.into() });
            assert_eq!(text.parse().ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn field_replaces_that_of_the_same_name() {
        let header = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
        let mut list = vec![header(":path", "/"), header("accept", "*/*")];
        let fields = ["accept: a/b", "accept: c/d", "x: y"].map(|text| text.parse().unwrap());
        HeaderField::set_in(&fields, &mut list);
        let expected = [
            header(":path", "/"),
            header("accept", "a/b"),
            header("accept", "c/d"),
            header("x", "y"),
        ];
        assert_eq!(list, expected);
    }
}
