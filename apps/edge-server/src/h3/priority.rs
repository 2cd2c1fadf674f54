//! Priorities of responses (RFC 9218): what a client says, and the order that it
//! means.

use quiche::h3;
use sfv::BareItem;
use sfv::ListEntry;

use crate::quic::Quic;

/// What of RFC 9218 the transport's library puts between its streams: urgencies
/// begin there.
const TRANSPORT_URGENCY_FIRST: u8 = 124;

const URGENCY_DEFAULT: u8 = 3;
const URGENCY_MAX: i64 = 7;

/// A response's place among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,

    /// It shares with others of its urgency, instead of being sent before those
    /// that were asked for later.
    pub incremental: bool,
}

impl Priority {
    /// Where a client says nothing: two downloads share.
    pub const UNSAID: Self = Self { urgency: URGENCY_DEFAULT, incremental: true };

    /// Reads a field's value. Whatever of it is not understood is as if it had not
    /// been said (RFC 9218, 4).
    pub fn read(value: &[u8]) -> Self {
        // Nearly all requests.
        if value.is_empty() {
            return Self::UNSAID;
        }
        let said = sfv::Parser::parse_dictionary(value).unwrap_or_default();
        if said.is_empty() {
            return Self::UNSAID;
        }
        let item = |name: &str| match said.get(name) {
            Some(ListEntry::Item(item)) => Some(&item.bare_item),
            _ => None,
        };
        let urgency = match item("u") {
            Some(BareItem::Integer(urgency)) if (0..=URGENCY_MAX).contains(urgency) => {
                *urgency as u8
            }
            _ => URGENCY_DEFAULT,
        };
        Self { urgency, incremental: item("i") == Some(&BareItem::Boolean(true)) }
    }

    /// For the library that sends a response's head.
    pub fn for_http(self) -> h3::Priority {
        h3::Priority::new(self.urgency, self.incremental)
    }

    /// Tells the transport, which sends what it has been given in this order.
    pub fn apply(self, quic: &mut Quic, stream: u64) {
        let urgency = TRANSPORT_URGENCY_FIRST + self.urgency;
        // Fails for a stream that is gone, and then nothing is left to order.
        let _ = quic.stream_priority(stream, urgency, self.incremental);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_has_its_default() {
        let table = [
            ("", (3, true)),
            ("u=?", (3, true)),
            ("u=0", (0, false)),
            ("u=7, i", (7, true)),
            ("i", (3, true)),
            ("i=?0", (3, false)),
            ("u=3", (3, false)),
            ("u=5;x=1, i;y, z=(1 2)", (5, true)),
            ("u=8", (3, false)),
            ("u=-1, i", (3, true)),
            ("u=1.5", (3, false)),
            ("u=\"1\"", (3, false)),
            ("u=(1)", (3, false)),
            ("u=1, u=2", (2, false)),
            ("i=1", (3, false)),
        ];
        for (value, (urgency, incremental)) in table {
            let expected = Priority { urgency, incremental };
            assert_eq!(Priority::read(value.as_bytes()), expected, "{value}");
        }
    }
}
