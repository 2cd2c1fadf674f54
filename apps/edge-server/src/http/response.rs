//! The answer to a request: status, header fields and body, before HTTP/3 makes
//! frames of it.

use std::borrow::Cow;

use quiche::h3::NameValue;

use crate::http::body::Body;

/// What plain messages of the server are.
pub const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// What a resource here can be asked for with (RFC 9110, 9.1).
pub const ALLOWED: &str = "GET, HEAD";

/// How many fields nearly every answer has at most: room for them is made once.
const FIELDS: usize = 10;

/// The answer to a request.
#[derive(Debug)]
pub struct Response {
    pub status: u16,

    /// Fields besides those that every answer has.
    pub fields: Vec<Field>,

    /// What a GET gets.
    pub body: Body,
}

/// A header field.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: Cow<'static, str>,
    pub value: Cow<'static, str>,
}

impl Field {
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl NameValue for Field {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn value(&self) -> &[u8] {
        self.value.as_bytes()
    }
}

impl Response {
    pub fn new(status: u16, body: Body) -> Self {
        Self { status, fields: Vec::with_capacity(FIELDS), body }
    }

    /// A short message.
    pub fn text(status: u16, text: String) -> Self {
        Self::new(status, Body::text(text)).with("content-type", PLAIN_TEXT)
    }

    /// Says that it does not do what it was asked.
    pub fn refusal(status: u16) -> Self {
        Self::text(status, format!("{status} {}\n", reason(status)))
    }

    /// Refuses a method of a resource that has only these.
    pub fn method_not_allowed(allowed: &'static str) -> Self {
        Self::refusal(405).with("allow", allowed)
    }

    /// Sends the client elsewhere.
    pub fn redirect(status: u16, to: String) -> Self {
        Self::refusal(status).with("location", to)
    }

    /// The same with a field more.
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.add(name, value);
        self
    }

    pub fn add(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        self.fields.push(Field::new(name, value));
    }

    #[cfg(test)]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value.as_ref())
    }
}

/// The words of RFC 9110, 15 for the statuses that the server itself comes to.
fn reason(status: u16) -> &'static str {
    match status {
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        425 => "Too Early",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        _ => "Internal Server Error",
    }
}
