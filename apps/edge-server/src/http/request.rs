//! Request: its header section, checked as RFC 9114, 4.1.2 to
//! 4.3 demand, before anything is looked up. What the server makes of it is the
//! site's business.

use quiche::h3;
use quiche::h3::NameValue;

/// Longest `:path`, in bytes.
const TARGET_BYTES_MAX: usize = 8 << 10;

/// What a field costs besides its name and value, in bytes (RFC 9114, 4.2.2).
const FIELD_OVERHEAD_BYTES: usize = 32;

/// Methods that exist and that nothing here has.
const OTHER_METHODS: [&[u8]; 5] = [b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE"];

/// Fields that speak of a connection, which HTTP/3 does not have (RFC 9114, 4.2).
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// A request that can be answered.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What comes after the pseudo-header fields.
    fields: &'a [h3::Header],

    pub method: Method,

    /// The name that the client asks, without port.
    pub host: &'a str,

    /// The `:path`: an absolute path and a query, or what OPTIONS may have instead.
    pub target: &'a str,

    /// What the client says that its content is long, in bytes.
    pub content_length: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,

    /// Known, and of no use here.
    Other,
}

impl Method {
    /// It asks for nothing but an answer, however often it comes (RFC 9110, 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// A stream error of type `H3_MESSAGE_ERROR` (RFC 9114, 4.1.2).
    Malformed(&'static str),

    /// This status says why.
    Refused(u16),
}

/// The pseudo-header fields of a request.
#[derive(Default)]
struct Pseudo<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
}

/// How long a header section is, in bytes.
pub fn section_bytes(fields: &[h3::Header]) -> usize {
    let bytes =
        |field: &h3::Header| field.name().len() + field.value().len() + FIELD_OVERHEAD_BYTES;
    fields.iter().map(bytes).sum()
}

impl<'a> Request<'a> {
    /// Checks a header section.
    ///
    /// # Errors
    ///
    /// It cannot be answered as a request.
    pub fn read(fields: &'a [h3::Header]) -> Result<Self, RequestError> {
        // RFC 9114, 4.3: all pseudo-header fields come before regular fields.
        let is_regular = |field: &h3::Header| !field.name().starts_with(b":");
        let first = fields.iter().position(is_regular);
        let (first, fields) = fields.split_at(first.unwrap_or(fields.len()));
        let mut pseudo = Pseudo::default();
        for field in first {
            pseudo.take(field.name(), field.value())?;
        }
        for field in fields {
            check_regular(field.name(), field.value())?;
        }
        let mut request = Self {
            fields,
            method: Method::Other,
            host: "",
            target: text(pseudo.path.unwrap_or_default())?,
            content_length: content_length(fields)?,
        };
        let authority = request.authority(&pseudo)?;
        request.method = pseudo.method(authority)?;
        request.host = host_of(authority).ok_or(RequestError::Refused(400))?;
        Ok(request)
    }

    /// The first value of a regular field, unless it is not text.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.values(name).next()
    }

    /// The values of a regular field, one for each line.
    pub fn values<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        let fields = self.fields.iter().filter(move |field| field.name() == name.as_bytes());
        fields.filter_map(|field| std::str::from_utf8(field.value()).ok())
    }

    /// It was early data on its way to an intermediary (RFC 8470, 5.1), whatever the
    /// field's value.
    pub fn was_early(&self) -> bool {
        self.fields.iter().any(|field| field.name() == b"early-data")
    }

    /// The client sends its content only when it is told to go on.
    pub fn waits(&self) -> bool {
        self.value("expect").is_some_and(|expected| expected.eq_ignore_ascii_case("100-continue"))
    }

    /// RFC 9114, 4.3.1: `:authority`, `Host`, or both with the same value.
    fn authority(&self, pseudo: &Pseudo<'a>) -> Result<&'a str, RequestError> {
        let is_host = |field: &&h3::Header| field.name() == b"host";
        let mut hosts = self.fields.iter().filter(is_host).map(h3::Header::value);
        let host = hosts.next();
        check(hosts.next().is_none(), "more than one Host")?;
        let authority = pseudo.authority.or(host).unwrap_or_default();
        check(host.is_none_or(|host| host == authority), "Host and :authority differ")?;
        check(!authority.is_empty(), "no :authority")?;
        check(!authority.contains(&b'@'), "user information in :authority")?;
        text(authority)
    }
}

impl<'a> Pseudo<'a> {
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), RequestError> {
        let place = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return Err(RequestError::Malformed("an unknown pseudo-header field")),
        };
        check(place.is_none(), "a pseudo-header field twice")?;
        check(is_field_value(value), "a pseudo-header field with control characters")?;
        *place = Some(value);
        Ok(())
    }

    /// The method, after what it demands of the others (RFC 9114, 4.3.1 and 4.4).
    fn method(&self, authority: &str) -> Result<Method, RequestError> {
        let method = self.method.ok_or(RequestError::Malformed("no :method"))?;
        check(TOKEN.is_made(method), "a :method that is none")?;
        if method == b"CONNECT" {
            let alone = self.scheme.is_none() && self.path.is_none();
            let has_host = self.authority == Some(authority.as_bytes());
            check(alone && has_host, "a CONNECT with more than a host")?;
            return Ok(Method::Other);
        }
        let scheme = self.scheme.ok_or(RequestError::Malformed("no :scheme"))?;
        let path = self.path.ok_or(RequestError::Malformed("no :path"))?;
        check(!path.is_empty(), "an empty :path")?;
        if path.len() > TARGET_BYTES_MAX {
            return Err(RequestError::Refused(414));
        }
        // RFC 9110, 7.4: nothing else is served from here.
        if !scheme.eq_ignore_ascii_case(b"https") {
            return Err(RequestError::Refused(421));
        }
        match method {
            b"GET" => Ok(Method::Get),
            b"HEAD" => Ok(Method::Head),
            b"POST" => Ok(Method::Post),
            known if OTHER_METHODS.contains(&known) => Ok(Method::Other),
            _ => Err(RequestError::Refused(501)),
        }
    }
}

/// Whether the answer to a request, good or not, has no body.
pub fn is_head(fields: &[h3::Header]) -> bool {
    fields.iter().any(|field| field.name() == b":method" && field.value() == b"HEAD")
}

fn check(good: bool, fault: &'static str) -> Result<(), RequestError> {
    match good {
        true => Ok(()),
        false => Err(RequestError::Malformed(fault)),
    }
}

/// What can only be looked up as text.
fn text(value: &[u8]) -> Result<&str, RequestError> {
    std::str::from_utf8(value).map_err(|_| RequestError::Refused(400))
}

fn check_regular(name: &[u8], value: &[u8]) -> Result<(), RequestError> {
    check(!name.starts_with(b":"), "a pseudo-header field after others")?;
    check(FIELD_NAME.is_made(name), "a field name with other characters")?;
    check(is_field_value(value), "a field value with control characters")?;
    check(!CONNECTION_FIELDS.contains(&name), "a field of a connection")?;
    check(name != b"te" || value == b"trailers", "a te that is not trailers")
}

/// RFC 9110, 5.5: what no value has. To the end even of a bad one: so it is many bytes
/// at a time.
fn is_field_value(value: &[u8]) -> bool {
    value.iter().fold(true, |good, byte| good & !matches!(byte, 0 | b'\r' | b'\n'))
}

/// The bytes that something is made of. Each byte of each name is looked up.
struct Alphabet([bool; 256]);

/// RFC 9110, 5.6.2.
static TOKEN: Alphabet = Alphabet::of(b"!#$%&'*+-.^_`|~", true);

/// RFC 9114, 4.2.
static FIELD_NAME: Alphabet = Alphabet::of(b"!#$%&'*+-.^_`|~", false);

/// RFC 3986, 3.2.2, as far as DNS has it.
static HOST: Alphabet = Alphabet::of(b"-._~%", true);

impl Alphabet {
    /// Digits, lower case, upper case if it `has_upper`, and `others`.
    const fn of(others: &[u8], has_upper: bool) -> Self {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < table.len() {
            let letter = byte as u8;
            table[byte] = letter.is_ascii_digit()
                || letter.is_ascii_lowercase()
                || has_upper && letter.is_ascii_uppercase();
            byte += 1;
        }
        let mut other = 0;
        while other < others.len() {
            table[others[other] as usize] = true;
            other += 1;
        }
        Self(table)
    }

    /// There is something, and all of it is made of these.
    fn is_made(&self, text: &[u8]) -> bool {
        let is_in = |byte: &u8| self.0[usize::from(*byte)];
        !text.is_empty() && text.iter().all(is_in)
    }
}

/// What the client announces; said twice, it must be the same.
fn content_length(fields: &[h3::Header]) -> Result<Option<u64>, RequestError> {
    let mut length = None;
    for field in fields.iter().filter(|field| field.name() == b"content-length") {
        let digits = field.value().iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(field.value()).ok().filter(|_| digits);
        let said = text.and_then(|text| text.parse().ok());
        check(said.is_some(), "a content-length that is no number")?;
        check(length.is_none() || length == said, "two lengths of one content")?;
        length = said;
    }
    Ok(length)
}

/// The host of an authority, without port. `None` when it is none.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let end = authority.bytes().position(|byte| byte == b':');
            let (host, port) = authority.split_at(end.unwrap_or(authority.len()));
            HOST.is_made(host.as_bytes()).then_some((host, port))?
        }
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let good = port.is_empty() || (port.starts_with(':') && digits.len() <= 5);
    (good && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = Vec<(&'a str, &'a str)>;

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x")];

    fn headers(fields: &[(&str, &str)]) -> Vec<h3::Header> {
        let header =
            |(name, value): &(&str, &str)| h3::Header::new(name.as_bytes(), value.as_bytes());
        fields.iter().map(header).collect()
    }

    fn with<'a>(more: &[(&'a str, &'a str)]) -> Fields<'a> {
        [&GET[..], more].concat()
    }

    fn without(name: &str) -> Fields<'static> {
        GET.into_iter().filter(|field| field.0 != name).collect()
    }

    fn set<'a>(name: &str, value: &'a str) -> Fields<'a> {
        GET.into_iter().map(|(own, old)| (own, if own == name { value } else { old })).collect()
    }

    fn fault(fields: &[(&str, &str)]) -> Option<RequestError> {
        Request::read(&headers(fields)).err()
    }

    #[test]
    fn a_request_is_read() {
        let fields =
            headers(&with(&[("range", "bytes=0-"), ("content-length", "7"), ("te", "trailers")]));
        let request = Request::read(&fields).unwrap();
        assert_eq!(
            (request.method, request.host, request.target),
            (Method::Get, "a.example", "/x")
        );
        assert_eq!(request.content_length, Some(7));
        assert_eq!((request.value("range"), request.value("if-range")), (Some("bytes=0-"), None));
    }

    #[test]
    fn malformed_requests_are_told_from_those_that_have_a_status() {
        let malformed = [
            without(":method"),
            without(":scheme"),
            without(":authority"),
            without(":path"),
            with(&[(":path", "/y")]),
            with(&[(":method", "GET")]),
            with(&[(":status", "200")]),
            with(&[(":protocol", "websocket")]),
            [&[("accept", "*/*")], &GET[..]].concat(),
            set(":path", ""),
            set(":path", "/a\0b"),
            set(":method", ""),
            set(":method", "G T"),
            set(":authority", ""),
            set(":authority", "me@a.example"),
            with(&[("Accept", "*/*")]),
            with(&[("", "x")]),
            with(&[("a b", "x")]),
            with(&[("x", "a\r\nb")]),
            with(&[("x", "a\0")]),
            with(&[("connection", "close")]),
            with(&[("keep-alive", "5")]),
            with(&[("proxy-connection", "close")]),
            with(&[("transfer-encoding", "chunked")]),
            with(&[("upgrade", "h2c")]),
            with(&[("te", "gzip")]),
            with(&[("host", "b.example")]),
            with(&[("host", "a.example"), ("host", "a.example")]),
            with(&[("content-length", "+1")]),
            with(&[("content-length", "")]),
            with(&[("content-length", "99999999999999999999")]),
            with(&[("content-length", "1"), ("content-length", "2")]),
            set(":method", "CONNECT"),
        ];
        for fields in malformed {
            assert!(matches!(fault(&fields), Some(RequestError::Malformed(_))), "{fields:?}");
        }
    }

    #[test]
    fn what_cannot_be_served_has_a_status() {
        let long = format!("/{}", "x".repeat(TARGET_BYTES_MAX));
        let table = [
            (set(":path", &long), 414),
            (set(":scheme", "http"), 421),
            (set(":method", "BREW"), 501),
            (set(":method", "get"), 501),
            (set(":authority", "a b"), 400),
            (set(":authority", "a:b"), 400),
            (set(":authority", ":443"), 400),
            (set(":authority", "[::1"), 400),
            (set(":authority", "[x]"), 400),
            (set(":authority", "[::1]443"), 400),
        ];
        for (fields, status) in table {
            assert_eq!(fault(&fields), Some(RequestError::Refused(status)), "{fields:?}");
        }
    }

    #[test]
    fn what_is_looked_up_is_text() {
        for (name, value, expected) in [
            (":path", &b"/\xff"[..], RequestError::Refused(400)),
            (":authority", b"a\xff", RequestError::Refused(400)),
            (":scheme", b"https\xff", RequestError::Refused(421)),
            (":method", b"GET\xff", RequestError::Malformed("a :method that is none")),
            ("host", b"a.example\xff", RequestError::Malformed("Host and :authority differ")),
        ] {
            let mut fields = headers(&GET);
            fields.retain(|field| field.name() != name.as_bytes());
            fields.push(h3::Header::new(name.as_bytes(), value));
            assert_eq!(Request::read(&fields).err(), Some(expected), "{name}");
        }
    }

    // RFC 9114, 4.2.2.
    #[test]
    fn a_section_is_as_long_as_its_names_and_values_and_32_bytes_a_field() {
        for (fields, expected) in [(&[][..], 0), (&[("ab", "cde")], 37), (&[("a", "")], 33)] {
            assert_eq!(section_bytes(&headers(fields)), expected, "{fields:?}");
            let twice = [fields, fields].concat();
            assert_eq!(section_bytes(&headers(&twice)), 2 * expected);
        }
    }

    #[test]
    fn methods_and_hosts_are_understood() {
        let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
        let host = [&without(":authority")[..], &[("host", "a.example:8443")]].concat();
        let table = [
            (set(":method", "HEAD"), Method::Head, "a.example"),
            (set(":method", "POST"), Method::Post, "a.example"),
            (set(":method", "DELETE"), Method::Other, "a.example"),
            (connect.to_vec(), Method::Other, "a.example"),
            (host, Method::Get, "a.example"),
            (set(":authority", "127.0.0.1:4433"), Method::Get, "127.0.0.1"),
            (set(":authority", "[2001:db8::1]:4433"), Method::Get, "2001:db8::1"),
            (with(&[("host", "a.example")]), Method::Get, "a.example"),
        ];
        for (fields, method, host) in table {
            let headers = headers(&fields);
            let request = Request::read(&headers).unwrap();
            assert_eq!((request.method, request.host), (method, host), "{fields:?}");
        }
    }
}
