//! Cache directives (RFC 9111, 5.2), and those for caches of a kind (RFC 9213).

use sfv::BareItem;
use sfv::ListEntry;
use sfv::Parser;

/// The longest time that a directive may name, in seconds (RFC 9111, 1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// Directives whose value is a number.
const NUMBERS: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];

/// Directives of a message, with names in lower case.
#[derive(Clone, Debug, Default)]
pub struct CacheDirectives(Vec<(String, Option<String>)>);

impl CacheDirectives {
    /// Parses the lines of a `Cache-Control` field.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let members = lines.flat_map(members);
        Self(members.filter_map(directive).collect())
    }

    /// Parses a field of RFC 9213, which is a dictionary. Returns nothing if it is invalid or empty.
    pub fn parse_targeted<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let text = lines.collect::<Vec<_>>().join(", ");
        let dictionary = Parser::parse_dictionary(text.as_bytes()).ok()?;
        let mut directives = Vec::new();
        for (name, entry) in dictionary {
            let ListEntry::Item(item) = entry else { continue };
            let value = match item.bare_item {
                BareItem::Integer(number) => Some(number.to_string()),
                _ if NUMBERS.contains(&name.as_str()) => return None,
                BareItem::Boolean(true) => None,
                _ => continue,
            };
            directives.push((name, value));
        }
        Some(Self(directives)).filter(|directives| !directives.0.is_empty())
    }

    /// Returns whether there is a directive of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    /// Returns the value of a directive in seconds, 0 if it is invalid. Of several, the least counts.
    pub fn seconds(&self, name: &str) -> Option<u64> {
        let values = self.0.iter().filter(|(own, _)| own == name);
        values.map(|(_, value)| value.as_deref().and_then(delta_seconds).unwrap_or(0)).min()
    }

    /// Returns whether a directive has a value.
    pub fn has_value(&self, name: &str) -> bool {
        self.0.iter().any(|(own, value)| own == name && value.is_some())
    }
}

/// Parses a number of seconds; one that is too large becomes the largest.
pub fn delta_seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(SECONDS_MAX).min(SECONDS_MAX))
}

/// Returns the members of a list, in which quoted strings may contain commas.
fn members(line: &str) -> Vec<&str> {
    let (mut members, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                members.push(&line[start..at]);
                start = at + 1;
            }
            _ => (),
        }
    }
    members.push(&line[start..]);
    members
}

fn directive(member: &str) -> Option<(String, Option<String>)> {
    let member = member.trim_matches([' ', '\t']);
    let (name, value) = match member.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (member, None),
    };
    let unquoted =
        |value: &str| match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace('\\', ""),
            None => value.to_owned(),
        };
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), value.map(unquoted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_as_the_rfc_has_them() {
        for (lines, name, expected) in [
            (&["max-age=60"][..], "max-age", Some(60)),
            (&["MAX-AGE=60"], "max-age", Some(60)),
            (&["no-cache , max-age=\"60\" "], "max-age", Some(60)),
            (&["max-age='60'"], "max-age", Some(0)),
            (&["max-age"], "max-age", Some(0)),
            (&["max-age=-1"], "max-age", Some(0)),
            (&["max-age=1.5"], "max-age", Some(0)),
            (&["max-age= 60"], "max-age", Some(0)),
            (&["max-age =60"], "max-age", None),
            (&["max-age=060"], "max-age", Some(60)),
            (&["max-age=99999999999999999999"], "max-age", Some(SECONDS_MAX)),
            (&["a=\"max-age=60, max-age=70\", max-age=1"], "max-age", Some(1)),
            (&["a=\"\\\", max-age=60\""], "max-age", None),
            (&["max-age=60", "max-age=50"], "max-age", Some(50)),
            (&["s-maxage=5, max-age=60"], "s-maxage", Some(5)),
            (&[""], "max-age", None),
        ] {
            let directives = CacheDirectives::parse(lines.iter().copied());
            assert_eq!(directives.seconds(name), expected, "{lines:?}");
            assert_eq!(directives.has(name), expected.is_some(), "{lines:?}");
        }
    }

    #[test]
    fn targeted_field_counts_if_it_is_valid() {
        for (line, expected) in [
            ("max-age=60", Some(Some(60))),
            ("no-store, max-age=60", Some(Some(60))),
            ("max-age=60, max-age=70", Some(Some(70))),
            ("no-store", Some(None)),
            ("", None),
            ("max-age=", None),
            ("max-age=\"60\"", None),
            ("max-age", None),
            ("x=\"60\", no-store", Some(None)),
            ("&&&", None),
        ] {
            let directives = CacheDirectives::parse_targeted([line].into_iter());
            let seconds = directives.map(|directives| directives.seconds("max-age"));
            assert_eq!(seconds, expected, "{line}");
        }
    }
}
