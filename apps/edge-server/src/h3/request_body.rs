//! Request body: its length against Content-Length (RFC 9114, 4.1.2) and the server's limit.

use crate::h3::priority::Priority;

/// Body of a request that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestBody {
    content_length: Option<u64>,
    received_bytes: u64,

    /// Limit of an upload, which gets its response at its end, in bytes.
    limit: Option<u64>,

    /// Priority of the response.
    pub priority: Priority,

    /// Whether an interim response has been sent.
    pub continued: bool,
}

/// Limit that content exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    ContentLength,
    Limit,
}

impl RequestBody {
    pub fn new(content_length: Option<u64>, limit: Option<u64>, priority: Priority) -> Self {
        Self { content_length, received_bytes: 0, limit, priority, continued: false }
    }

    /// Returns the body as that of an upload of so many bytes at most.
    pub fn with_limit(self, bytes_max: u64) -> Self {
        Self { limit: Some(bytes_max), ..self }
    }

    /// Counts content that has arrived.
    ///
    /// # Errors
    ///
    /// The content is too long.
    pub fn receive(&mut self, bytes: u64) -> Result<(), Overflow> {
        self.received_bytes += bytes;
        if self.content_length.is_some_and(|length| self.received_bytes > length) {
            return Err(Overflow::ContentLength);
        }
        match self.limit.is_some_and(|limit| self.received_bytes > limit) {
            true => Err(Overflow::Limit),
            false => Ok(()),
        }
    }

    /// Returns whether the content has the length of Content-Length.
    pub fn is_complete(&self) -> bool {
        self.content_length.is_none_or(|length| self.received_bytes == length)
    }

    /// Returns the bytes of an upload.
    pub fn uploaded(&self) -> Option<u64> {
        self.limit.map(|_| self.received_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_bounded_by_content_length_and_limit() {
        let body = |length, limit| RequestBody::new(length, limit, Priority::DEFAULT);
        for (length, limit, pieces, expected, complete) in [
            (None, None, &[5, 5][..], Ok(()), true),
            (Some(10), None, &[5, 5], Ok(()), true),
            (Some(10), None, &[5], Ok(()), false),
            (Some(10), None, &[5, 6], Err(Overflow::ContentLength), false),
            (None, Some(10), &[5, 5], Ok(()), true),
            (None, Some(10), &[5, 6], Err(Overflow::Limit), true),
            (Some(0), Some(10), &[], Ok(()), true),
        ] {
            let mut body = body(length, limit);
            let received = pieces.iter().try_for_each(|bytes| body.receive(*bytes));
            let case = format!("{length:?} {limit:?} {pieces:?}");
            assert_eq!((received, body.is_complete()), (expected, complete), "{case}");
            assert_eq!(body.uploaded().is_some(), limit.is_some(), "{case}");
        }
    }
}
