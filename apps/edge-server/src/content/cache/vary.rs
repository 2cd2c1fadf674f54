//! Selecting fields of requests (RFC 9111, 4.1): those that `Vary` names.

use hyper::header::HeaderValue;
use hyper::header::ACCEPT_ENCODING;
use hyper::HeaderMap;

use crate::http::content_coding;
use crate::http::content_coding::Coding;
use crate::http::request::Request;
use crate::http::response::Field;

/// Fields that are the same for all requests with the same key.
const CONSTANT_FIELDS: [&str; 3] = ["host", "x-forwarded-host", "x-forwarded-proto"];

/// Fields that the origin gets from this server: they differ from client to client.
const OWN_FIELDS: [&str; 6] =
    ["authorization", "early-data", "forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// The most fields that a response may name.
const FIELDS_MAX: usize = 8;

/// Name of a field, and the value that a request has, if it has one.
type NameAndValue = (Box<str>, Option<Vec<u8>>);

/// Fields of the request that a response is for, and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectingFields(Box<[NameAndValue]>);

/// Fields of a request.
pub trait RequestFields {
    /// Returns the values of a field, as one, whatever their bytes.
    fn joined(&self, name: &str) -> Option<Vec<u8>>;
}

impl RequestFields for Request<'_> {
    fn joined(&self, name: &str) -> Option<Vec<u8>> {
        joined(name, self.raw_values(name))
    }
}

impl RequestFields for HeaderMap {
    fn joined(&self, name: &str) -> Option<Vec<u8>> {
        joined(name, self.get_all(name).iter().map(HeaderValue::as_bytes))
    }
}

impl SelectingFields {
    /// Returns those of a response to a request, or `None` if no other request may get it.
    pub fn of(response: &[Field], request: &impl RequestFields) -> Option<Self> {
        let lines = response.iter().filter(|field| field.name == "vary");
        let names = lines.flat_map(|field| field.value.split(','));
        let names = names.map(|name| name.trim().to_ascii_lowercase());
        let mut names: Vec<_> = names
            .filter(|name| !name.is_empty() && !CONSTANT_FIELDS.contains(&name.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        let is_own = |name: &String| name == "*" || OWN_FIELDS.contains(&name.as_str());
        if names.iter().any(is_own) || names.len() > FIELDS_MAX {
            return None;
        }
        let value = |name: String| (name.as_str().into(), request.joined(&name));
        Some(Self(names.into_iter().map(value).collect()))
    }

    /// Returns whether a request has the same values.
    pub fn match_request(&self, request: &impl RequestFields) -> bool {
        self.0.iter().all(|(name, value)| request.joined(name) == *value)
    }

    /// Returns names and values, as they are kept on disk: a character for each byte.
    pub fn to_list(&self) -> Vec<(String, Option<String>)> {
        let text = |value: &Vec<u8>| value.iter().copied().map(char::from).collect();
        self.0.iter().map(|(name, value)| (name.to_string(), value.as_ref().map(text))).collect()
    }

    /// Returns the fields with these names and values.
    pub fn from_list(list: &[(String, Option<String>)]) -> Self {
        // Other characters match no request.
        let byte = |character| u8::try_from(u32::from(character)).unwrap_or(b'\n');
        let value = |text: &String| text.chars().map(byte).collect();
        Self(
            list.iter()
                .map(|(name, text)| (name.as_str().into(), text.as_ref().map(value)))
                .collect(),
        )
    }

    /// Returns the bytes of names and values.
    pub fn bytes(&self) -> usize {
        let bytes = |(name, value): &NameAndValue| name.len() + value.as_ref().map_or(0, Vec::len);
        self.0.iter().map(bytes).sum()
    }
}

/// Has an origin get `Accept-Encoding` as it is compared: with the codings of the web alone.
pub fn normalize(headers: &mut HeaderMap) {
    let value = headers.joined(ACCEPT_ENCODING.as_str());
    headers.remove(ACCEPT_ENCODING);
    let value = value.and_then(|value| HeaderValue::from_bytes(&value).ok());
    headers.extend(value.map(|value| (ACCEPT_ENCODING, value)));
}

fn joined<'a>(name: &str, values: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    match name {
        "accept-encoding" => accepted(&values.collect::<Vec<_>>()),
        "cookie" => join(values, b"; "),
        _ => join(values, b", "),
    }
}

fn join<'a>(mut values: impl Iterator<Item = &'a [u8]>, between: &[u8]) -> Option<Vec<u8>> {
    let mut joined = values.next()?.trim_ascii().to_owned();
    for value in values {
        joined.extend_from_slice(between);
        joined.extend_from_slice(value.trim_ascii());
    }
    Some(joined)
}

/// Returns the codings that a client accepts, in one order. One that does not accept all content without
/// a coding is left as it is, as is what is not text.
fn accepted(lines: &[&[u8]]) -> Option<Vec<u8>> {
    let texts: Result<Vec<_>, _> = lines.iter().map(|line| std::str::from_utf8(line)).collect();
    let excludes = |line: &&str| {
        let line = line.to_ascii_lowercase().replace(' ', "");
        line.contains("identity;q=0") || line.contains("*;q=0")
    };
    let Some(texts) = texts.ok().filter(|texts| !texts.iter().any(excludes)) else {
        return join(lines.iter().copied(), b", ");
    };
    let accepted = content_coding::accepted(texts.into_iter());
    let names = Coding::ALL.into_iter().filter(|coding| accepted.contains(coding));
    let names: Vec<_> = names.map(Coding::name).collect();
    (!names.is_empty()).then(|| names.join(", ").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields =
            fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        fields.collect::<Vec<(hyper::header::HeaderName, _)>>().into_iter().fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            },
        )
    }

    #[test]
    fn request_gets_responses_to_its_like_alone() {
        for (vary, request, other, expected) in [
            (&[][..], &[][..], &[("a", "1")][..], Some(true)),
            (&["A"], &[("a", "1")], &[("a", "1"), ("b", "2")], Some(true)),
            (&["a"], &[("a", "1")], &[("a", "2")], Some(false)),
            (&["a"], &[("a", "1")], &[], Some(false)),
            (&["a"], &[], &[("a", "1")], Some(false)),
            (&["a, b", "c"], &[("a", "1"), ("c", "3")], &[("c", "3"), ("a", "1")], Some(true)),
            (&["a, b", "c"], &[("c", "3")], &[("c", "4")], Some(false)),
            (&["a"], &[("a", "1"), ("a", "2")], &[("a", "1, 2")], Some(true)),
            (&["*"], &[], &[], None),
            (&["a, *"], &[], &[], None),
            (&[", *"], &[], &[], None),
            (&["X-Forwarded-For"], &[], &[], None),
            (&["x-forwarded-proto"], &[("x-forwarded-proto", "https")], &[], Some(true)),
            (
                &["accept-encoding"],
                &[("accept-encoding", "gzip, deflate, br")],
                &[("accept-encoding", "br;q=1.0, gzip;q=0.8, *;q=0.1")],
                Some(false),
            ),
            (
                &["accept-encoding"],
                &[("accept-encoding", "gzip, deflate, br")],
                &[("accept-encoding", "br, gzip;q=0.8")],
                Some(true),
            ),
            (
                &["accept-encoding"],
                &[("accept-encoding", "gzip")],
                &[("accept-encoding", "gzip, identity;q=0")],
                Some(false),
            ),
            (&["accept-encoding"], &[("accept-encoding", "identity")], &[], Some(true)),
        ] {
            let response: Vec<_> = vary.iter().map(|value| Field::new("vary", *value)).collect();
            let selecting = SelectingFields::of(&response, &headers(request));
            let matches = selecting.map(|selecting| selecting.match_request(&headers(other)));
            assert_eq!(matches, expected, "{vary:?} {request:?} {other:?}");
        }
    }

    // The origin gets all bytes of a field, and may tell them apart.
    #[test]
    fn bytes_that_are_no_text_are_compared() {
        let with = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            HeaderMap::from_iter([("x-user".parse().unwrap(), value)])
        };
        let vary = [Field::new("vary", "x-user")];
        let selecting = SelectingFields::of(&vary, &with(b"a\xe9")).unwrap();
        let selecting = SelectingFields::from_list(&selecting.to_list());
        assert!(selecting.match_request(&with(b"a\xe9")));
        for other in [with(b"a\xff"), with(b"a"), HeaderMap::new()] {
            assert!(!selecting.match_request(&other), "{other:?}");
        }
    }
}
