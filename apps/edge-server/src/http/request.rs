//! Request: validation of its header section, as field lines with pseudo-header fields, which
//! versions 2 and 3 have alike (RFC 9113, 8.3; RFC 9114, 4.1.2 to 4.3).

use std::borrow::Cow;

/// Longest `:path`, in bytes.
const TARGET_BYTES_MAX: usize = 8 << 10;

/// Overhead of a field beside its name and value, in bytes (RFC 9114, 4.2.2).
const FIELD_OVERHEAD_BYTES: usize = 32;

/// Longest name of a method, in bytes.
const METHOD_BYTES_MAX: usize = 32;

/// Registered methods that no resource of this server supports.
const OTHER_METHODS: [&[u8]; 4] = [b"PUT", b"DELETE", b"PATCH", b"TRACE"];

/// Connection-specific fields, which such a header section may not have (RFC 9114, 4.2).
pub const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Line of a header section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLine<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Well-formed request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The regular fields.
    fields: Vec<FieldLine<'a>>,

    pub method: Method,

    /// Its name, a token.
    pub method_name: &'a str,

    /// Host, with the port if there is one.
    pub authority: &'a str,

    /// Host of the authority, without port.
    pub host: &'a str,

    /// The `:path`: an absolute path and a query, or `*` for OPTIONS.
    pub target: &'a str,

    /// The announced content length, in bytes.
    pub content_length: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Options,

    /// A registered method that no resource of this server supports.
    Other,

    /// Any other. An origin may know it.
    Unknown,
}

impl Method {
    /// Returns whether the method is safe (RFC 9110, 9.2.1) and reads a resource.
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// Reason why a header section is not a request that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// A stream error (RFC 9113, 8.1.1; RFC 9114, 4.1.2).
    Malformed(&'static str),

    /// The response has this status.
    Refused(u16),
}

/// Pseudo-header fields of a request.
#[derive(Default)]
struct PseudoHeaders<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
}

/// Returns the size of a header section, in bytes (RFC 9114, 4.2.2).
pub fn section_bytes<'a>(lines: impl IntoIterator<Item = impl Into<FieldLine<'a>>>) -> usize {
    let bytes = |line: FieldLine<'_>| line.name.len() + line.value.len() + FIELD_OVERHEAD_BYTES;
    lines.into_iter().map(|line| bytes(line.into())).sum()
}

impl<'a> Request<'a> {
    /// Validates a header section.
    ///
    /// # Errors
    ///
    /// It is malformed, or cannot be served.
    pub fn read(
        lines: impl IntoIterator<Item = impl Into<FieldLine<'a>>>,
    ) -> Result<Self, RequestError> {
        let lines = lines.into_iter();
        let mut pseudo = PseudoHeaders::default();
        let mut fields = Vec::with_capacity(lines.size_hint().0);
        for line in lines {
            let line = line.into();
            // RFC 9114, 4.3: all pseudo-header fields come before regular fields.
            if line.name.starts_with(b":") && fields.is_empty() {
                pseudo.insert(line)?;
                continue;
            }
            check_regular(line)?;
            fields.push(line);
        }
        let mut request = Self {
            method: Method::Other,
            method_name: "",
            authority: "",
            host: "",
            target: text(pseudo.path.unwrap_or_default())?,
            content_length: content_length(&fields)?,
            fields,
        };
        let authority = request.authority(&pseudo)?;
        request.method = pseudo.method(authority)?;
        request.method_name = text(pseudo.method.unwrap_or_default())?;
        request.host = host_of(authority).ok_or(RequestError::Refused(400))?;
        request.authority = authority;
        Ok(request)
    }

    /// Returns the path and the query of the target. The query keeps its question mark.
    pub fn split_target(&self) -> (&'a str, &'a str) {
        let end = self.target.bytes().position(|byte| byte == b'?');
        self.target.split_at(end.unwrap_or(self.target.len()))
    }

    /// Returns the regular fields.
    pub fn fields(&self) -> &[FieldLine<'a>] {
        &self.fields
    }

    /// Returns the first value of a regular field that is UTF-8.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.values(name).next()
    }

    /// Returns the values of a regular field that are UTF-8, one for each field line.
    pub fn values<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n, '_> {
        let fields = self.fields.iter().filter(move |field| field.name == name.as_bytes());
        fields.filter_map(|field| std::str::from_utf8(field.value).ok())
    }

    /// Returns the values of a regular field, whatever their bytes.
    pub fn raw_values<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n, '_> {
        let fields = self.fields.iter().filter(move |field| field.name == name.as_bytes());
        fields.map(|field| field.value)
    }

    /// Returns the values of a regular field, in which `U+FFFD` stands for what is not UTF-8.
    pub fn lossy_values<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = Cow<'a, str>> + use<'a, 'n, '_> {
        self.raw_values(name).map(String::from_utf8_lossy)
    }

    /// Returns whether an intermediary received the request in early data (RFC 8470, 5.1): the
    /// field counts whatever its value.
    pub fn was_early(&self) -> bool {
        self.fields.iter().any(|field| field.name == b"early-data")
    }

    /// Returns whether a browser says that the request is from a page of the same origin, or from
    /// no page at all (Fetch Metadata, `Sec-Fetch-Site`). Scripts cannot set the field.
    pub fn is_same_origin(&self) -> bool {
        matches!(self.value("sec-fetch-site"), Some("same-origin" | "none"))
    }

    /// Returns whether a browser says that the request is from a page of another origin. An old
    /// one says it by `Origin` alone (RFC 6454, 7), and not of every request.
    pub fn is_cross_origin(&self) -> bool {
        match self.value("sec-fetch-site") {
            Some(_) => !self.is_same_origin(),
            None => self.values("origin").any(|origin| !self.is_own_origin(origin)),
        }
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        let own = self.authority.strip_suffix(":443").unwrap_or(self.authority);
        origin.strip_prefix("https://").is_some_and(|origin| origin.eq_ignore_ascii_case(own))
    }

    /// Returns whether the client waits for a 100 response before it sends content (RFC 9110,
    /// 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.value("expect").is_some_and(|expected| expected.eq_ignore_ascii_case("100-continue"))
    }

    /// Returns the value of `:authority`, `Host`, or both if they agree (RFC 9114, 4.3.1).
    fn authority(&self, pseudo: &PseudoHeaders<'a>) -> Result<&'a str, RequestError> {
        let is_host = |field: &&FieldLine<'a>| field.name == b"host";
        let mut hosts = self.fields.iter().filter(is_host).map(|field| field.value);
        let host = hosts.next();
        check(hosts.next().is_none(), "more than one Host")?;
        let authority = pseudo.authority.or(host).unwrap_or_default();
        check(host.is_none_or(|host| host == authority), "Host and :authority differ")?;
        check(!authority.is_empty(), "no :authority")?;
        check(!authority.contains(&b'@'), "user information in :authority")?;
        text(authority)
    }
}

impl<'a> PseudoHeaders<'a> {
    fn insert(&mut self, line: FieldLine<'a>) -> Result<(), RequestError> {
        let FieldLine { name, value } = line;
        let slot = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return Err(RequestError::Malformed("an unknown pseudo-header field")),
        };
        check(slot.is_none(), "a repeated pseudo-header field")?;
        check(is_field_value(value), "a pseudo-header field with control characters")?;
        *slot = Some(value);
        Ok(())
    }

    /// Returns the method, after checking the other pseudo-header fields that it requires
    /// (RFC 9114, 4.3.1 and 4.4).
    fn method(&self, authority: &str) -> Result<Method, RequestError> {
        let method = self.method.ok_or(RequestError::Malformed("no :method"))?;
        check(TOKEN.contains_all(method), "an invalid :method")?;
        if method == b"CONNECT" {
            let alone = self.scheme.is_none() && self.path.is_none();
            let has_host = self.authority == Some(authority.as_bytes());
            check(alone && has_host, "a CONNECT with more than an authority")?;
            return Ok(Method::Other);
        }
        let scheme = self.scheme.ok_or(RequestError::Malformed("no :scheme"))?;
        let path = self.path.ok_or(RequestError::Malformed("no :path"))?;
        check(!path.is_empty(), "an empty :path")?;
        if path.len() > TARGET_BYTES_MAX {
            return Err(RequestError::Refused(414));
        }
        // RFC 9110, 7.4: this server is no proxy for other schemes.
        if !scheme.eq_ignore_ascii_case(b"https") {
            return Err(RequestError::Refused(421));
        }
        match method {
            b"GET" => Ok(Method::Get),
            b"HEAD" => Ok(Method::Head),
            b"POST" => Ok(Method::Post),
            b"OPTIONS" => Ok(Method::Options),
            known if OTHER_METHODS.contains(&known) => Ok(Method::Other),
            name if name.len() <= METHOD_BYTES_MAX => Ok(Method::Unknown),
            _ => Err(RequestError::Refused(501)),
        }
    }
}

/// Returns whether the response has no body, also that to a malformed request.
pub fn is_head<'a>(lines: impl IntoIterator<Item = impl Into<FieldLine<'a>>>) -> bool {
    let head = FieldLine { name: b":method", value: b"HEAD" };
    lines.into_iter().any(|line| line.into() == head)
}

fn check(valid: bool, reason: &'static str) -> Result<(), RequestError> {
    match valid {
        true => Ok(()),
        false => Err(RequestError::Malformed(reason)),
    }
}

/// Returns a value as UTF-8, or the error of status 400.
fn text(value: &[u8]) -> Result<&str, RequestError> {
    std::str::from_utf8(value).map_err(|_| RequestError::Refused(400))
}

fn check_regular(line: FieldLine<'_>) -> Result<(), RequestError> {
    let FieldLine { name, value } = line;
    check(!name.starts_with(b":"), "a pseudo-header field after regular fields")?;
    check(FIELD_NAME.contains_all(name), "a field name with invalid characters")?;
    check(is_field_value(value), "a field value with control characters")?;
    check(!CONNECTION_FIELDS.contains(&name), "a connection-specific field")?;
    check(name != b"te" || value == b"trailers", "a te other than trailers")
}

/// Returns whether a field value has no forbidden byte (RFC 9110, 5.5). Without an early exit
/// the compiler vectorizes the loop.
fn is_field_value(value: &[u8]) -> bool {
    value.iter().fold(true, |valid, byte| valid & !matches!(byte, 0 | b'\r' | b'\n'))
}

/// Set of bytes, as a table.
struct ByteSet([bool; 256]);

/// RFC 9110, 5.6.2.
static TOKEN: ByteSet = ByteSet::of(b"!#$%&'*+-.^_`|~", true);

/// RFC 9114, 4.2.
static FIELD_NAME: ByteSet = ByteSet::of(b"!#$%&'*+-.^_`|~", false);

/// Characters of a registered name (RFC 3986, 3.2.2) that DNS names have.
static HOST: ByteSet = ByteSet::of(b"-._~%", true);

impl ByteSet {
    /// Returns the set of digits, lower case, upper case if `has_upper`, and `others`.
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

    /// Returns whether `text` is not empty and all its bytes are in the set.
    fn contains_all(&self, text: &[u8]) -> bool {
        let is_in = |byte: &u8| self.0[usize::from(*byte)];
        !text.is_empty() && text.iter().all(is_in)
    }
}

/// Returns the announced content length; repeated fields must agree (RFC 9110, 8.6).
fn content_length(fields: &[FieldLine<'_>]) -> Result<Option<u64>, RequestError> {
    let mut length = None;
    for field in fields.iter().filter(|field| field.name == b"content-length") {
        let digits = field.value.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(field.value).ok().filter(|_| digits);
        let value = text.and_then(|text| text.parse().ok());
        check(value.is_some(), "an invalid content-length")?;
        check(length.is_none() || length == value, "different content-lengths")?;
        length = value;
    }
    Ok(length)
}

/// Returns the host of an authority, without port, or `None` if the authority is invalid.
pub fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let end = authority.bytes().position(|byte| byte == b':');
            let (host, port) = authority.split_at(end.unwrap_or(authority.len()));
            HOST.contains_all(host.as_bytes()).then_some((host, port))?
        }
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let valid = port.is_empty() || (port.starts_with(':') && digits.len() <= 5);
    (valid && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    type FieldList<'a> = Vec<(&'a str, &'a str)>;

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x")];

    fn lines<'a>(fields: &[(&'a str, &'a str)]) -> Vec<FieldLine<'a>> {
        let line = |(name, value): &(&'a str, &'a str)| FieldLine {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        fields.iter().map(line).collect()
    }

    fn with<'a>(more: &[(&'a str, &'a str)]) -> FieldList<'a> {
        [&GET[..], more].concat()
    }

    fn without(name: &str) -> FieldList<'static> {
        GET.into_iter().filter(|field| field.0 != name).collect()
    }

    fn set<'a>(name: &str, value: &'a str) -> FieldList<'a> {
        GET.into_iter().map(|(own, old)| (own, if own == name { value } else { old })).collect()
    }

    fn error_of(fields: &[(&str, &str)]) -> Option<RequestError> {
        Request::read(lines(fields)).err()
    }

    #[test]
    fn valid_request_is_parsed() {
        let fields = with(&[("range", "bytes=0-"), ("content-length", "7"), ("te", "trailers")]);
        let request = Request::read(lines(&fields)).unwrap();
        assert_eq!(
            (request.method, request.host, request.target),
            (Method::Get, "a.example", "/x")
        );
        assert_eq!(request.content_length, Some(7));
        assert_eq!((request.value("range"), request.value("if-range")), (Some("bytes=0-"), None));
    }

    #[test]
    fn request_of_another_origins_page_is_told_by_either_field() {
        let is_cross_origin = |authority, more: &[(&str, &str)]| {
            let fields = [&set(":authority", authority)[..], more].concat();
            Request::read(lines(&fields)).unwrap().is_cross_origin()
        };
        for (authority, origin, expected) in [
            ("a.example", "https://a.example", false),
            ("A.example:443", "https://a.example", false),
            ("a.example:444", "https://a.example:444", false),
            ("[::1]:444", "https://[::1]:444", false),
            ("a.example:444", "https://a.example", true),
            ("a.example", "https://a.example:444", true),
            ("a.example", "https://b.example", true),
            ("a.example", "https://a.example.b", true),
            ("a.example", "http://a.example", true),
            ("a.example", "null", true),
            ("a.example", "", true),
        ] {
            let fields = [("origin", origin)];
            assert_eq!(is_cross_origin(authority, &fields), expected, "{authority} {origin}");
        }
        let either = |site, origin| {
            is_cross_origin("a.example", &[("sec-fetch-site", site), ("origin", origin)])
        };
        assert!(either("cross-site", "https://a.example"));
        assert!(!either("same-origin", "https://b.example"), "a proxy may change the authority");
        let twice = [("origin", "https://a.example"), ("origin", "https://b.example")];
        assert!(is_cross_origin("a.example", &twice) && !is_cross_origin("a.example", &[]));
    }

    #[test]
    fn malformed_request_is_stream_error() {
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
            assert!(matches!(error_of(&fields), Some(RequestError::Malformed(_))), "{fields:?}");
        }
    }

    #[test]
    fn unsupported_request_has_status() {
        let long = format!("/{}", "x".repeat(TARGET_BYTES_MAX));
        let long_method = "X".repeat(METHOD_BYTES_MAX + 1);
        let table = [
            (set(":path", &long), 414),
            (set(":scheme", "http"), 421),
            (set(":method", &long_method), 501),
            (set(":authority", "a b"), 400),
            (set(":authority", "a:b"), 400),
            (set(":authority", ":443"), 400),
            (set(":authority", "[::1"), 400),
            (set(":authority", "[x]"), 400),
            (set(":authority", "[::1]443"), 400),
        ];
        for (fields, status) in table {
            assert_eq!(error_of(&fields), Some(RequestError::Refused(status)), "{fields:?}");
        }
    }

    #[test]
    fn request_with_invalid_utf8_is_refused() {
        for (name, value, expected) in [
            (":path", &b"/\xff"[..], RequestError::Refused(400)),
            (":authority", b"a\xff", RequestError::Refused(400)),
            (":scheme", b"https\xff", RequestError::Refused(421)),
            (":method", b"GET\xff", RequestError::Malformed("an invalid :method")),
            ("host", b"a.example\xff", RequestError::Malformed("Host and :authority differ")),
        ] {
            let mut fields = lines(&GET);
            fields.retain(|field| field.name != name.as_bytes());
            fields.push(FieldLine { name: name.as_bytes(), value });
            assert_eq!(Request::read(fields).err(), Some(expected), "{name}");
        }
    }

    // RFC 9114, 4.2.2.
    #[test]
    fn section_bytes_has_overhead_per_field() {
        for (fields, expected) in [(&[][..], 0), (&[("ab", "cde")], 37), (&[("a", "")], 33)] {
            assert_eq!(section_bytes(lines(fields)), expected, "{fields:?}");
            let twice = [fields, fields].concat();
            assert_eq!(section_bytes(lines(&twice)), 2 * expected);
        }
    }

    #[test]
    fn method_and_host_are_parsed() {
        let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
        let host = [&without(":authority")[..], &[("host", "a.example:8443")]].concat();
        let table = [
            (set(":method", "HEAD"), Method::Head, "a.example"),
            (set(":method", "POST"), Method::Post, "a.example"),
            (set(":method", "OPTIONS"), Method::Options, "a.example"),
            (set(":method", "DELETE"), Method::Other, "a.example"),
            (set(":method", "BREW"), Method::Unknown, "a.example"),
            (set(":method", "get"), Method::Unknown, "a.example"),
            (connect.to_vec(), Method::Other, "a.example"),
            (host, Method::Get, "a.example"),
            (set(":authority", "127.0.0.1:4433"), Method::Get, "127.0.0.1"),
            (set(":authority", "[2001:db8::1]:4433"), Method::Get, "2001:db8::1"),
            (with(&[("host", "a.example")]), Method::Get, "a.example"),
        ];
        for (fields, method, host) in table {
            let request = Request::read(lines(&fields)).unwrap();
            assert_eq!((request.method, request.host), (method, host), "{fields:?}");
        }
    }
}
