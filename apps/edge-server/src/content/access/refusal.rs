//! Reasons why access rules refuse a request, and how often they did.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::http::response::Response;

/// Number of reasons.
const REASONS: usize = AccessRefusal::NAMES.len();

/// Refused requests of all hosts, by reason, since the process began.
static REFUSED: [AtomicU64; REASONS] = [const { AtomicU64::new(0) }; REASONS];

/// Reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The client's address is denied, or not allowed.
    Address,

    /// No credentials of a user.
    Credentials { realm: Arc<str> },

    /// No valid signature.
    Signature,

    /// A signature that was valid before.
    Expired,

    /// Too many requests of the client's subnet.
    Rate,

    /// Too many passwords wait to be checked.
    Busy,
}

impl AccessRefusal {
    /// Names of the reasons in metrics, in their order.
    const NAMES: [&str; 6] = ["address", "credentials", "signature", "expired", "rate", "busy"];

    fn index(&self) -> usize {
        match self {
            Self::Address => 0,
            Self::Credentials { .. } => 1,
            Self::Signature => 2,
            Self::Expired => 3,
            Self::Rate => 4,
            Self::Busy => 5,
        }
    }

    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::Address | Self::Signature => 403,
            Self::Expired => 410,
            Self::Rate => 429,
            Self::Credentials { .. } => 401,
            Self::Busy => 503,
        }
    }

    /// Counts the refusal, and adds its fields to the response. No cache keeps that: the next client
    /// may have what this one lacks.
    pub fn complete(self, mut response: Response) -> Response {
        REFUSED[self.index()].fetch_add(1, Ordering::Relaxed);
        response.add("cache-control", "no-store");
        match self {
            Self::Address | Self::Signature | Self::Expired => (),
            Self::Credentials { realm } => {
                let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
                response.add("www-authenticate", challenge);
            }
            Self::Rate | Self::Busy => response.add("retry-after", "1"),
        }
        response
    }
}

/// Returns how many requests were refused, by the name of the reason.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = REFUSED.iter().map(|count| count.load(Ordering::Relaxed));
    AccessRefusal::NAMES.into_iter().zip(counts)
}
