//! Field line of a response: name and value, as the server makes them.

use std::borrow::Cow;

/// Header field.
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
