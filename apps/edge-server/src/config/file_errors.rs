//! Errors of the configuration file's form, in the words of its pages rather than those of the parser.

use std::ops::Range;

/// What the parser expects, and what to write.
const EXPECTED: [(&str, &str); 10] = [
    ("a sequence", "write a list in brackets, [\"a\", \"b\"]"),
    ("a map", "write a table, { name = \"value\" }"),
    ("a string", "write a text in quotes"),
    ("path string", "write a path in quotes"),
    ("a boolean", "write true or false"),
    (
        "true, or a table below a line [host.origin.cache]",
        "write true, or keys below a line [host.origin.cache]",
    ),
    ("i64", "write a whole number"),
    ("u16", "write a whole number from 0 to 65535"),
    ("u32", "write a whole number from 0 to 4294967295"),
    ("u64", "write a whole number from 0 up"),
];

/// Keys of lists of tables.
const TABLES: [&str; 7] = ["host", "access", "cors", "early-hints", "header", "redirect", "origin"];

/// Returns what is wrong at a place in the file, and what to write.
pub fn in_our_words(reason: &str, text: &str, span: Range<usize>) -> String {
    let place = text.get(span.clone()).unwrap_or_default();
    if let Some(table) = table_without_host(text).filter(|_| is_of_host(reason, text, &span)) {
        return format!("{table}: write a line [[host]] above it, to which it belongs");
    }
    if let Some(table) = cache_without_origin(text, &span) {
        return format!("{table}: write a line [[host.origin]] above it, to which it belongs");
    }
    if reason == "duplicate key" {
        let key = place.lines().next().unwrap_or_default();
        return format!("{reason} '{}'; keep one of them", key.escape_default());
    }
    if let Some(key) = reason.strip_prefix("missing field ") {
        return format!("{} is missing; add it", key.replace('`', ""));
    }
    if let Some(rest) = reason.strip_prefix("unknown field ") {
        return unknown_key(rest);
    }
    if let Some(rest) = reason.strip_prefix("unknown variant ") {
        let known = rest.rsplit_once("expected ").map_or(rest, |(_, known)| known);
        let known = known.trim_start_matches("one of ").replace('`', "\"");
        return match key_before(text, span.start) {
            Some(key) => format!("{key}: write {known}"),
            None => format!("write {known}"),
        };
    }
    let expected = reason.strip_prefix("invalid ").and_then(|rest| rest.rsplit_once(", expected "));
    let Some((_, expected)) = expected else { return reason.to_owned() };
    let of_line = |way| format!("{}: write {way}", place.lines().next().unwrap_or_default());
    match (place.starts_with("[["), place.starts_with('['), expected) {
        (true, _, "a map") => return of_line("it in single brackets"),
        (false, true, "a sequence") if reason.contains("type: map") => {
            return of_line("it in double brackets");
        }
        _ => (),
    }
    if expected.starts_with("struct ") {
        return "write tables, each below a line in double brackets, such as [[host]]".to_owned();
    }
    let key = key_before(text, span.start);
    if let Some(key) = key.filter(|key| TABLES.contains(key) && expected == "a sequence") {
        let parent = if key == "host" { "" } else { "host." };
        return format!("{key}: write tables, each below a line [[{parent}{key}]]");
    }
    if let Some(key) = key.filter(|key| *key == "ttl" && expected == "a map") {
        return format!("{key}: write a table of seconds by status, {{ 200 = 60 }}");
    }
    let known = EXPECTED.iter().find(|(name, _)| *name == expected);
    match (known, key) {
        (Some((_, what)), Some(key)) => {
            let outer = table_before(text, span.start).map(|outer| format!("{outer}: "));
            format!("{}{key}: {what}", outer.unwrap_or_default())
        }
        (Some((_, what)), None) => (*what).to_owned(),
        (None, Some(key)) => format!("{key}: {reason}"),
        (None, None) => reason.to_owned(),
    }
}

/// Returns the line of a table of a host, if it comes before all hosts.
fn table_without_host(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| line.starts_with("[[host") || line.starts_with("[host"))?;
    (first.starts_with("[[host.") || first.starts_with("[host.")).then_some(first)
}

/// Returns the line of the table of an origin's cache at a place, or before the origin there, if its host has no
/// origin before it.
fn cache_without_origin<'a>(text: &'a str, span: &Range<usize>) -> Option<&'a str> {
    let start = text.get(..span.start)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next()?.trim();
    let before = text.get(..start)?.lines().map(str::trim).rev();
    let before: Vec<_> = before.take_while(|line| !line.starts_with("[[host]]")).collect();
    let is_origin = |line: &&&str| line.starts_with("[[host.origin]]");
    let is_cache = |line: &&&str| line.starts_with("[host.origin.");
    let has_origin = before.iter().any(|line| is_origin(&line));
    let mut lines = before.iter().filter(|_| is_origin(&&line)).chain([&line]);
    lines.find(is_cache).copied().filter(|_| !has_origin)
}

/// Returns whether an error at a place is about what the tables of hosts are.
fn is_of_host(reason: &str, text: &str, span: &Range<usize>) -> bool {
    let is_not_a_list = reason == "invalid type: map, expected a sequence";
    let is_host = text.get(span.start..).is_some_and(|rest| rest.starts_with("host"));
    is_host && (is_not_a_list || reason == "duplicate key")
}

/// Returns what is wrong with a key, of which the parser says `name`, expected others.
fn unknown_key(rest: &str) -> String {
    let (name, known) = rest.split_once(", ").unwrap_or((rest, ""));
    let known = known.trim_start_matches("expected one of ").trim_start_matches("expected ");
    let more = match known.contains("`server`") {
        true => "; put options below a line [server]",
        false => "",
    };
    format!("there is no key {}; use {}{more}", name.replace('`', "'"), known.replace('`', ""))
}

/// Returns the key whose value begins at a place.
fn key_before(text: &str, start: usize) -> Option<&str> {
    let line = text.get(..start)?.lines().next_back()?;
    let key = line.trim_end().strip_suffix('=')?.trim();
    key.rsplit(['{', ',', ' ']).next().filter(|key| !key.is_empty())
}

/// Returns the key of the table in braces that a place is in, if it is in one.
fn table_before(text: &str, start: usize) -> Option<&str> {
    let line = text.get(..start)?.lines().next_back()?;
    let (before, inner) = line.rsplit_once('{')?;
    let is_open = !inner.contains('}');
    key_before(before, before.len()).filter(|_| is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_is_not_quoted() {
        for (text, place, reason, expected) in [
            (
                "names = 5",
                "5",
                "invalid type: integer `5`, expected a sequence",
                "names: write a list",
            ),
            (
                "host = [1]",
                "1",
                "invalid type: integer `1`, expected struct Host",
                "write tables, each below a line in double brackets",
            ),
            (
                "access = 1",
                "1",
                "invalid type: integer `1`, expected a sequence",
                "access: write tables, each below a line [[host.access]]",
            ),
            (
                "early-hints = 1",
                "1",
                "invalid type: integer `1`, expected a sequence",
                "early-hints: write tables, each below a line [[host.early-hints]]",
            ),
            (
                "a = [1]",
                "1",
                "invalid type: integer `1`, expected a string",
                "write a text in quotes",
            ),
            (
                "b = { c = 1 }",
                "1",
                "invalid type: integer `1`, expected a string",
                "b: c: write a text",
            ),
            (
                "n = -1",
                "-1",
                "invalid value: integer `-1`, expected u32",
                "n: write a whole number",
            ),
            (
                "[host]\na = 1",
                "[host]",
                "invalid type: map, expected a sequence",
                "[host]: write it in double",
            ),
            (
                "[[host]]\n[host.origin.cache]\n[[host]]",
                "[host.origin.cache]",
                "invalid type: map, expected a sequence",
                "[host.origin.cache]: write a line [[host.origin]] above it",
            ),
            (
                "[[host]]\n[host.origin.cache]\nttl = {}\n[[host.origin]]\nurl = 'a'",
                "origin]]",
                "duplicate key",
                "[host.origin.cache]: write a line [[host.origin]] above it",
            ),
            (
                "[[host]]\n[[host.origin]]\norigin = 1\norigin = 2",
                "origin = 2",
                "duplicate key",
                "duplicate key 'origin = 2'",
            ),
            (
                "ttl = 60",
                "60",
                "invalid type: integer `60`, expected a map",
                "ttl: write a table of seconds by status, { 200 = 60 }",
            ),
            (
                "[[server]]",
                "[[server]]",
                "invalid type: sequence, expected a map",
                "[[server]]: write it in single",
            ),
            ("a", "a", "missing field `to`", "to is missing; add it"),
            (
                "x = 1",
                "x",
                "unknown field `x`, expected `server` or `host`",
                "there is no key 'x'; use server or host; put",
            ),
            (
                "x = 1",
                "x",
                "unknown field `x`, expected one of `a`, `b`",
                "there is no key 'x'; use a, b",
            ),
            (
                "x = 'a'",
                "'a'",
                "unknown variant `a`, expected `b` or `c`",
                "x: write \"b\" or \"c\"",
            ),
            (
                "a = tru",
                "tru",
                "invalid boolean, expected `true`",
                "a: invalid boolean, expected `true`",
            ),
            (
                "ttl = { 404 = 1, 200 = -1 }",
                "-1",
                "invalid value: integer `-1`, expected u32",
                "ttl: 200: write a whole number",
            ),
            ("x", "x", "key with no value, expected `=`", "key with no value, expected `=`"),
        ] {
            let start = text.find(place).unwrap();
            let found = in_our_words(reason, text, start..start + place.len());
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }
}
