//! Request body: counted against what the client announced
//! (RFC 9114, 4.1.2) and what the server takes.

use crate::h3::priority::Priority;

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestBody {
    /// In bytes.
    announced: Option<u64>,
    received: u64,

    /// It is answered at its end, and may be so long, in bytes.
    bound: Option<u64>,

    /// Its answer's.
    pub priority: Priority,

    /// The client has been told to go on: the answer's head is not the first.
    pub continued: bool,
}

/// Which limit content exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    Announced,
    Bound,
}

impl RequestBody {
    pub fn new(announced: Option<u64>, bound: Option<u64>, priority: Priority) -> Self {
        Self { announced, received: 0, bound, priority, continued: false }
    }

    /// Whether what is announced is not too much.
    pub fn fits(&self) -> bool {
        self.announced.unwrap_or(0) <= self.bound.unwrap_or(u64::MAX)
    }

    /// Takes content in.
    ///
    /// # Errors
    ///
    /// It is too much.
    pub fn take(&mut self, bytes: u64) -> Result<(), Overflow> {
        self.received += bytes;
        if self.announced.is_some_and(|announced| self.received > announced) {
            return Err(Overflow::Announced);
        }
        match self.bound.is_some_and(|bound| self.received > bound) {
            true => Err(Overflow::Bound),
            false => Ok(()),
        }
    }

    /// All that was announced has come.
    pub fn is_complete(&self) -> bool {
        self.announced.is_none_or(|announced| self.received == announced)
    }

    /// What has come, if its answer waits for it.
    pub fn uploaded(&self) -> Option<u64> {
        self.bound.map(|_| self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_held_against_its_length_and_its_bound() {
        let body = |announced, bound| RequestBody::new(announced, bound, Priority::UNSAID);
        assert!(body(Some(10), Some(10)).fits());
        assert!(!body(Some(11), Some(10)).fits());
        assert!(body(Some(11), None).fits());

        for (announced, bound, pieces, expected, complete) in [
            (None, None, &[5, 5][..], Ok(()), true),
            (Some(10), None, &[5, 5], Ok(()), true),
            (Some(10), None, &[5], Ok(()), false),
            (Some(10), None, &[5, 6], Err(Overflow::Announced), false),
            (None, Some(10), &[5, 5], Ok(()), true),
            (None, Some(10), &[5, 6], Err(Overflow::Bound), true),
            (Some(0), Some(10), &[], Ok(()), true),
        ] {
            let mut body = body(announced, bound);
            let taken = pieces.iter().try_for_each(|bytes| body.take(*bytes));
            let case = format!("{announced:?} {bound:?} {pieces:?}");
            assert_eq!((taken, body.is_complete()), (expected, complete), "{case}");
            assert_eq!(body.uploaded().is_some(), bound.is_some(), "{case}");
        }
    }
}
