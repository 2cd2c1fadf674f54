//! Response: status, header fields and body, independent of the HTTP version.

use std::borrow::Cow;

use crate::http::body::Body;
pub use crate::http::field::Field;
use crate::http::response_rate::ResponseRate;

/// Content type of the server's own messages.
pub const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Value of `allow` for files (RFC 9110, 9.1).
pub const ALLOWED: &str = "GET, HEAD";

/// Initial capacity for fields: few responses have more.
const FIELDS_CAPACITY: usize = 10;

/// Response to a request.
#[derive(Debug)]
pub struct Response {
    pub status: u16,

    /// Fields beside those that every response has.
    pub fields: Vec<Field>,

    /// Whether the server's own `alt-svc` is left out over TCP.
    pub is_without_alt_svc: bool,

    /// The body; a HEAD request has its length alone.
    pub body: Body,

    /// When it was made, as a field has it, unless that is now.
    pub date: Option<Box<str>>,

    /// User whom it is for, if the request had a password, for the access log.
    pub user: Option<Box<str>>,

    /// What the cache has done, if it is one of an origin, for the access log.
    pub cache: Option<&'static str>,

    /// Absent if the body is sent as fast as the client takes it.
    pub rate: Option<Box<ResponseRate>>,

    /// Effect on the connection, if there is any.
    pub effect: Option<ConnectionEffect>,
}

/// Effect of a request on the connection that it came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEffect {
    /// The connection ends as soon as it has sent its responses.
    Close,

    /// The connection does not jump, unless it has before.
    NoJump,
}

impl Response {
    pub fn new(status: u16, body: Body) -> Self {
        let fields = Vec::with_capacity(FIELDS_CAPACITY);
        Self {
            status,
            fields,
            is_without_alt_svc: false,
            body,
            date: None,
            user: None,
            cache: None,
            rate: None,
            effect: None,
        }
    }

    /// Returns a response with a short message.
    pub fn text(status: u16, text: String) -> Self {
        Self::new(status, Body::text(text)).with("content-type", PLAIN_TEXT)
    }

    /// Returns a response whose message is the status and its reason phrase.
    pub fn error(status: u16) -> Self {
        Self::text(status, format!("{status} {}\n", reason(status)))
    }

    /// Returns a 405 for a resource that supports the methods `allowed`.
    pub fn method_not_allowed(allowed: &'static str) -> Self {
        Self::error(405).with("allow", allowed)
    }

    /// Returns a redirect to `to`.
    pub fn redirect(status: u16, to: String) -> Self {
        Self::error(status).with("location", to)
    }

    /// Adds a field.
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.add(name, value);
        self
    }

    /// Adds a field.
    pub fn add(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        self.fields.push(Field::new(name, value));
    }

    /// Gives the response an effect on the connection.
    pub fn with_effect(self, effect: Option<ConnectionEffect>) -> Self {
        Self { effect, ..self }
    }

    #[cfg(test)]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value.as_ref())
    }
}

/// Returns the reason phrase (RFC 9110, 15) of a status that the server itself sends.
fn reason(status: u16) -> &'static str {
    match status {
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        425 => "Too Early",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        508 => "Loop Detected",
        _ => "Internal Server Error",
    }
}
