//! Priorities of responses (RFC 9218): the field that clients send, and its effect on the
//! transport's streams.

use quiche::h3;
use sfv::BareItem;
use sfv::ListEntry;

use crate::quic::Quic;

/// Urgency of the transport's library that stands for 0 in RFC 9218.
const TRANSPORT_URGENCY_FIRST: u8 = 124;

const URGENCY_DEFAULT: u8 = 3;
const URGENCY_MAX: i64 = 7;

/// Priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,

    /// Whether it shares with others of its urgency, instead of being sent before those of
    /// later requests.
    pub incremental: bool,
}

impl Priority {
    /// Without a field, two downloads share.
    pub const DEFAULT: Self = Self { urgency: URGENCY_DEFAULT, incremental: true };

    /// Reads a field's value. Parameters that cannot be read have their defaults (RFC 9218,
    /// 4).
    pub fn read(value: &[u8]) -> Self {
        // Nearly all requests.
        if value.is_empty() {
            return Self::DEFAULT;
        }
        let members = sfv::Parser::parse_dictionary(value).unwrap_or_default();
        if members.is_empty() {
            return Self::DEFAULT;
        }
        let item = |name: &str| match members.get(name) {
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

    /// Returns it for the library that sends a response's header section.
    pub fn for_http(self) -> h3::Priority {
        h3::Priority::new(self.urgency, self.incremental)
    }

    /// Sets the priority of the transport's stream.
    pub fn apply(self, quic: &mut Quic, stream: u64) {
        let urgency = TRANSPORT_URGENCY_FIRST + self.urgency;
        // Fails if the stream is closed, and then nothing is left to order.
        let _ = quic.stream_priority(stream, urgency, self.incremental);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_parameter_has_its_default() {
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
