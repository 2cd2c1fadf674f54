//! Cache status of a response (RFC 9211), as clients and the access log have it.

use std::fmt::Write;
use std::time::Duration;

/// Name of the cache.
const NAME: &str = "edge-server";

/// Initial capacity for a value: few are longer.
const CAPACITY: usize = 48;

/// Why a request went to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// By a rule, or for a field of the request that a cache cannot answer.
    Bypass,

    /// The method is not cached.
    Method,
    UriMiss,
    VaryMiss,
    Stale,

    /// The client wants a fresh response.
    Request,

    /// Some slices of the response were not there.
    Partial,
}

/// How a cache has handled a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStatus {
    /// Absent if the response was there.
    pub forward: Option<ForwardReason>,

    /// Status of the origin's response, if it is not that of this one.
    pub forward_status: Option<u16>,
    pub is_stored: bool,
    pub is_collapsed: bool,
    pub detail: Option<&'static str>,
}

impl ForwardReason {
    fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Stale => "stale",
            Self::Request => "request",
            Self::Partial => "partial",
        }
    }
}

impl CacheStatus {
    /// Returns that of a request that went to the origin.
    pub fn forwarded(reason: ForwardReason) -> Self {
        Self { forward: Some(reason), ..Self::default() }
    }

    /// Returns what has happened, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self { detail: Some(_), .. } => "stale",
            Self { forward: None, .. } => "hit",
            Self { is_collapsed: true, .. } => "collapsed",
            Self { forward_status: Some(_), .. } => "revalidated",
            Self { forward: Some(ForwardReason::Bypass | ForwardReason::Method), .. } => "bypass",
            Self { .. } => "miss",
        }
    }

    /// Returns the value of the field. The response has been in the cache for `age` if that is known, and
    /// is fresh up to an age of `lifetime`.
    pub fn value(&self, times: Option<(Duration, Duration)>) -> String {
        let mut value = String::with_capacity(CAPACITY);
        value.push_str(NAME);
        match self.forward {
            Some(reason) => value.extend(["; fwd=", reason.name()]),
            None => value.push_str("; hit"),
        }
        if let Some(status) = self.forward_status {
            // A text takes all.
            let _ = write!(value, "; fwd-status={status}");
        }
        if let Some((age, lifetime)) = times {
            let _ = write!(value, "; ttl={}", lifetime.as_secs() as i64 - age.as_secs() as i64);
        }
        for (is_so, name) in [(self.is_stored, "; stored"), (self.is_collapsed, "; collapsed")] {
            if is_so {
                value.push_str(name);
            }
        }
        value.extend(self.detail.map(|detail| ["; detail=", detail]).into_iter().flatten());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_has_parameters_in_one_order() {
        let seconds = Duration::from_secs;
        let all = CacheStatus {
            forward: Some(ForwardReason::Stale),
            forward_status: Some(304),
            is_stored: true,
            is_collapsed: true,
            detail: Some("stale-if-error"),
        };
        for (status, times, expected) in [
            (CacheStatus::default(), Some((seconds(3), seconds(10))), "edge-server; hit; ttl=7"),
            (CacheStatus::default(), Some((seconds(13), seconds(10))), "edge-server; hit; ttl=-3"),
            (
                CacheStatus::forwarded(ForwardReason::UriMiss),
                None,
                "edge-server; fwd=uri-miss",
            ),
            (
                all,
                Some((seconds(0), seconds(1))),
                "edge-server; fwd=stale; fwd-status=304; ttl=1; stored; collapsed; detail=stale-if-error",
            ),
        ] {
            assert_eq!(status.value(times), expected);
        }
    }
}
