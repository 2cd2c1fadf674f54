//! Fields of forwarded requests and responses (RFC 9110, 7.6): those of one connection are removed,
//! and those that say who has passed a message on are added.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::LazyLock;

use hyper::header::HeaderMap;
use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use hyper::header::CONNECTION;
use hyper::header::COOKIE;
use hyper::header::DATE;
use hyper::header::HOST;
use hyper::header::TE;
use hyper::header::VIA;
use hyper::Version;
use log::debug;

use crate::http::exchange::Protocol;
use crate::http::request::Request;
use crate::http::request::CONNECTION_FIELDS;
use crate::http::response::Field;

/// Fields of one connection beside those that no later version of HTTP has.
const HOP_FIELDS: [&str; 6] =
    ["te", "trailer", "http2-settings", "proxy-authenticate", "proxy-authorization", "alt-svc"];

/// Fields of a request that are made anew: from a client they mean nothing. Content is not forwarded.
const RENEWED_FIELDS: [&str; 9] = [
    "host",
    "via",
    "cookie",
    "expect",
    "content-length",
    "early-data",
    "forwarded",
    "x-real-ip",
    "authorization",
];

/// Fields that may not follow a body, as they say how to frame or read it, who may, or for how long it
/// holds (RFC 9110, 6.5.1), beside those of a connection.
const HEADER_ALONE: [&str; 14] = [
    "content-length",
    "content-type",
    "content-encoding",
    "content-range",
    "cache-control",
    "expires",
    "age",
    "date",
    "location",
    "vary",
    "set-cookie",
    "www-authenticate",
    "retry-after",
    "host",
];

/// What begins the names of more of them.
const RENEWED_START: &str = "x-forwarded-";

/// What begins the names of processes of this program in `Via`.
const NAME_START: &str = "edge-server-";

/// Name of this process in `Via`. Another process of the same host has another, so that servers can
/// pass requests on to each other.
static PSEUDONYM: LazyLock<String> =
    LazyLock::new(|| format!("{NAME_START}{:016x}", RandomState::new().build_hasher().finish()));

/// Client of a request that is forwarded.
#[derive(Clone, Copy, Debug)]
pub struct ForwardedClient {
    pub address: IpAddr,
    pub protocol: Protocol,

    /// An attacker may have replayed the request.
    pub is_early: bool,

    /// The server has checked the client's password, which is for nobody else.
    pub is_authenticated: bool,
}

/// Returns whether the request has been forwarded by this process before.
pub fn is_loop(request: &Request<'_>) -> bool {
    request.values("via").any(|via| via.contains(PSEUDONYM.as_str()))
}

/// Returns the names of processes of this program that a line of `Via` has.
pub fn server_names(via: &str) -> impl Iterator<Item = &str> {
    let names = via.split(',').filter_map(|member| member.split_whitespace().nth(1));
    names.filter(|name| name.starts_with(NAME_START))
}

/// Returns the fields of the request as the origin gets it.
pub fn to_origin(request: &Request<'_>, client: ForwardedClient) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(request.fields().len() + 8);
    let mut insert = |name: HeaderName, value: &[u8]| match HeaderValue::from_bytes(value) {
        Ok(value) => drop(headers.append(name, value)),
        Err(e) => debug!("{name} is not forwarded: {e}"),
    };
    let authority = normalized(request.authority);
    insert(HOST, authority.as_bytes());
    // RFC 9113, 8.2.3: later versions have it in parts.
    let cookies: Vec<_> = request.raw_values("cookie").collect();
    if !cookies.is_empty() {
        insert(COOKIE, &cookies.join(&b"; "[..]));
    }
    let received = client.protocol.name().trim_start_matches("HTTP/");
    for via in request.values("via").map(str::to_owned).chain([via(received)]) {
        insert(VIA, via.as_bytes());
    }
    let address = client.address.to_canonical();
    let node = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let forwarded = format!("for={node};host=\"{authority}\";proto=https");
    insert(HeaderName::from_static("forwarded"), forwarded.as_bytes());
    insert(HeaderName::from_static("x-forwarded-for"), address.to_string().as_bytes());
    insert(HeaderName::from_static("x-forwarded-host"), authority.as_bytes());
    insert(HeaderName::from_static("x-forwarded-proto"), b"https");
    // The server keeps trailers, over HTTP/2 alone, and so asks for them (RFC 9110, 10.1.4).
    if request.values("te").any(|te| te.contains("trailers")) {
        insert(TE, b"trailers");
    }
    if client.is_early {
        insert(HeaderName::from_static("early-data"), b"1");
    }
    let values = request.raw_values("authorization").filter(|_| !client.is_authenticated);
    values.for_each(|value| insert(hyper::header::AUTHORIZATION, value));
    for line in request.fields().iter().filter(|line| is_end_to_end(line.name)) {
        let name = HeaderName::from_bytes(line.name).ok();
        match name.zip(HeaderValue::from_bytes(line.value).ok()) {
            Some((name, value)) => drop(headers.append(name, value)),
            None => debug!("a field of the request is not forwarded: it is none of HTTP/1.1"),
        }
    }
    headers
}

/// Returns an authority in one spelling of all that are the same (RFC 9110, 4.2.3): what the origin gets
/// is what the cache finds its response by.
pub fn normalized(authority: &str) -> String {
    authority.strip_suffix(":443").unwrap_or(authority).to_ascii_lowercase()
}

/// Returns whether a field of a request is forwarded as it is.
fn is_end_to_end(name: &[u8]) -> bool {
    // To some servers both are one.
    let name = String::from_utf8_lossy(name).replace('_', "-");
    let name = name.as_str();
    !is_of_connection(name) && !RENEWED_FIELDS.contains(&name) && !name.starts_with(RENEWED_START)
}

fn is_of_connection(name: &str) -> bool {
    HOP_FIELDS.contains(&name) || CONNECTION_FIELDS.contains(&name.as_bytes())
}

/// Returns the fields of a response in this version as the client gets it, and its date. It has a length
/// of its own.
pub fn from_origin(headers: &HeaderMap, version: Version) -> (Vec<Field>, Option<Box<str>>) {
    let named = connection_options(headers);
    let mut fields = Vec::with_capacity(headers.len() + 8);
    for (name, value) in headers {
        let name = name.as_str();
        let is_own = ["content-length", "date"].contains(&name);
        if is_own || is_of_connection(name) || named.iter().any(|option| option == name) {
            continue;
        }
        match std::str::from_utf8(value.as_bytes()) {
            Ok(value) => fields.push(Field::new(name.to_owned(), value.to_owned())),
            Err(_) => debug!("{name} of the origin is not forwarded: it is not UTF-8"),
        }
    }
    let received = match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    fields.push(Field::new("via", via(received)));
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    (fields, date.map(Into::into))
}

/// Returns whether one of these fields is not among those that the client gets, though the origin has sent it.
pub fn leaves_out(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    let named = connection_options(headers);
    names.iter().any(|name| {
        let mut values = headers.get_all(name).iter();
        values.any(|value| {
            std::str::from_utf8(value.as_bytes()).is_err()
                || named.iter().any(|option| option == name.as_str())
        })
    })
}

/// Returns the fields of an interim response as the client gets them.
pub fn of_interim(headers: &HeaderMap, version: Version) -> Vec<Field> {
    from_origin(headers, version).0
}

/// Returns the fields that follow a body as the client gets them.
pub fn trailers(headers: &HeaderMap) -> Vec<Field> {
    let is_kept = |name: &str| !is_of_connection(name) && !HEADER_ALONE.contains(&name);
    let lines = headers.iter().filter(|(name, _)| is_kept(name.as_str()));
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = std::str::from_utf8(value.as_bytes()).ok()?;
        Some(Field::new(name.as_str().to_owned(), value.to_owned()))
    };
    lines.filter_map(field).collect()
}

/// Returns the names of the fields that are for one connection.
pub fn connection_options(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let options = values.flat_map(|value| value.split(','));
    options.map(|option| option.trim().to_ascii_lowercase()).collect()
}

fn via(received: &str) -> String {
    format!("{received} {}", *PSEUDONYM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3;

    fn sent(fields: &[(&str, &str)], client: ForwardedClient) -> Vec<(String, String)> {
        let start =
            [(":method", "GET"), (":scheme", "https"), (":authority", "a:8443"), (":path", "/")];
        let lines = start.iter().chain(fields);
        let lines: Vec<_> =
            lines.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).collect();
        let headers = to_origin(&Request::read(&lines).unwrap(), client);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    fn client(address: &str) -> ForwardedClient {
        let address = address.parse().unwrap();
        ForwardedClient {
            address,
            protocol: Protocol::Http3,
            is_early: false,
            is_authenticated: false,
        }
    }

    fn values<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        let fields = fields.iter().filter(|(own, _)| own == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn origin_gets_who_the_client_is_and_no_lies() {
        let lies = [
            ("forwarded", "for=1.1.1.1"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x_forwarded_for", "1.1.1.1"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "1.1.1.1"),
            ("early-data", "1"),
            ("te", "trailers"),
            ("content-length", "0"),
            ("expect", "100-continue"),
            ("proxy-authorization", "x"),
        ];
        let own = [("accept", "*/*"), ("accept", "a/b"), ("cookie", "a=1"), ("cookie", "b=2")];
        for (address, node, plain) in [
            ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "\"[2001:db8::1]\"", "2001:db8::1"),
        ] {
            let sent = sent(&[&lies[..], &own].concat(), client(address));
            let forwarded = format!("for={node};host=\"a:8443\";proto=https");
            for (name, expected) in [
                ("host", &["a:8443"][..]),
                ("forwarded", &[&forwarded]),
                ("x-forwarded-for", &[plain]),
                ("x-forwarded-host", &["a:8443"]),
                ("x-forwarded-proto", &["https"]),
                ("accept", &["*/*", "a/b"]),
                ("cookie", &["a=1; b=2"]),
                ("via", &[&via("3")]),
                ("te", &["trailers"]),
            ] {
                assert_eq!(values(&sent, name), expected, "{name}");
            }
            assert_eq!(sent.len(), 10, "{sent:?}");
        }
    }

    #[test]
    fn origin_gets_all_bytes_and_one_spelling_of_the_host() {
        let lines = [
            (":method", &b"GET"[..]),
            (":scheme", b"https"),
            (":authority", b"A.Example:443"),
            (":path", b"/"),
            ("cookie", b"a=\xe9"),
            ("cookie", b"b=1"),
            ("authorization", b"Basic \xe9"),
            ("x-user", b"\xff"),
        ];
        let lines = lines.map(|(name, value)| h3::Header::new(name.as_bytes(), value));
        let headers = to_origin(&Request::read(&lines).unwrap(), client("::1"));
        for (name, expected) in [
            ("host", &b"a.example"[..]),
            ("x-forwarded-host", b"a.example"),
            ("forwarded", b"for=\"[::1]\";host=\"a.example\";proto=https"),
            ("cookie", b"a=\xe9; b=1"),
            ("authorization", b"Basic \xe9"),
            ("x-user", b"\xff"),
        ] {
            assert_eq!(headers[name].as_bytes(), expected, "{name}");
        }
    }

    #[test]
    fn password_that_was_checked_and_early_data_are_told_apart() {
        let fields = [("authorization", "Basic x"), ("via", "1.1 other")];
        for (is_early, is_authenticated) in [(false, false), (true, true)] {
            let client = ForwardedClient { is_early, is_authenticated, ..client("::1") };
            let sent = sent(&fields, client);
            assert_eq!(values(&sent, "authorization").is_empty(), is_authenticated);
            assert_eq!(values(&sent, "early-data") == ["1"], is_early);
            assert_eq!(values(&sent, "via"), ["1.1 other", &via("3")]);
        }
    }

    #[test]
    fn fields_that_follow_a_body_do_not_change_it() {
        let mut headers = HeaderMap::new();
        for name in ["x-sum", "content-length", "set-cookie", "connection", "grpc-status"] {
            headers.append(name, HeaderValue::from_static("1"));
        }
        let kept = trailers(&headers);
        let names: Vec<_> = kept.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["x-sum", "grpc-status"]);
    }

    #[test]
    fn client_gets_no_fields_of_the_connection_to_the_origin() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "X-Hop, close"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("alt-svc", "h3=\":1\""),
            ("trailer", "x"),
            ("content-length", "5"),
            ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("via", "1.1 other"),
            ("x-own", "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers.append("x-binary", HeaderValue::from_bytes(b"\xff").unwrap());
        let (fields, date) = from_origin(&headers, Version::HTTP_11);
        let fields: Vec<_> = fields.iter().map(|field| (&*field.name, &*field.value)).collect();
        let own = via("1.1");
        let expected = [
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("via", "1.1 other"),
            ("x-own", "1"),
            ("via", &own),
        ];
        assert_eq!(fields, expected);
        assert_eq!(date.as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    }
}
